//! Grids: the same measures of each system, behind each host, for each seed; one row for each, and its cells judged.

use std::fmt::Write;

use serde::Serialize;

use crate::context::Context;
use crate::error::LabError;
use crate::report::number::number;
use crate::report::row::{Better, Verdict};
use crate::rig::host::Host;

/// A measure of every row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Direction of its goal.
    pub better: Better,
    /// The goal by which each of its cells is judged; none where it is only shown.
    pub goal: Option<f64>,
}

impl Measure {
    /// One that is only shown.
    pub const fn shown(name: &'static str, unit: &'static str, better: Better) -> Self {
        Self { name, unit, better, goal: None }
    }
}

/// A figure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The figure; none if the measure is of nothing that the system does.
    pub value: Option<f64>,
    /// Goal met? Nothing where there is no goal, or no figure.
    pub goal_met: Option<Verdict>,
}

/// Figures of one system, behind one host, for one seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridRow {
    /// The system.
    pub system: String,
    /// The host.
    pub host: &'static str,
    /// The seed.
    pub seed: u64,
    /// One for each measure.
    pub cells: Vec<Cell>,
}

/// Rows of all systems, hosts and seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// Its name, stable between versions.
    pub name: String,
    /// Its subject.
    pub title: String,
    /// Columns.
    pub measures: Vec<Measure>,
    /// One row for each system, host and seed, in this order.
    pub rows: Vec<GridRow>,
}

impl Grid {
    /// A grid without rows.
    pub fn new(name: &str, title: &str, measures: &[Measure]) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), measures: measures.to_vec(), rows: Vec::new() }
    }

    /// Measures every one of `systems` behind every host for every seed, and adds the rows.
    ///
    /// # Errors
    /// That of the first measurement that failed.
    pub fn fill<S>(
        &mut self,
        context: &Context,
        (systems, hosts, seeds): (&[S], &[Host], &[u64]),
        name: impl Fn(&S) -> &str,
        mut measure: impl FnMut(&S, Host, u64) -> Result<Vec<Option<f64>>, LabError>,
    ) -> Result<(), LabError> {
        let all = systems.len() * hosts.len() * seeds.len();
        for system in systems {
            for &host in hosts {
                context.on_host(host);
                for &seed in seeds {
                    let share = self.rows.len() as f64 / all.max(1) as f64;
                    (context.progress)(&format!("{}, {}", self.name, name(system)), Some(share));
                    let values = measure(system, host, seed)?;
                    let cells = self.measures.iter().zip(values).map(|(measure, value)| measure.judge(value)).collect();
                    self.rows.push(GridRow { system: name(system).to_owned(), host: host.name, seed, cells });
                }
            }
        }
        Ok(())
    }

    /// Takes in the rows of the same grid of another seed, each behind those of its system and host.
    pub(crate) fn join(&mut self, other: Self) {
        for row in other.rows {
            let is = |known: &GridRow| known.system == row.system && known.host == row.host;
            let at = self.rows.iter().rposition(is).map_or(self.rows.len(), |last| last + 1);
            self.rows.insert(at, row);
        }
    }

    /// Values of a measure in the rows of a system behind a host, one for each seed.
    pub fn values(&self, system: &str, host: Host, measure: &str) -> Vec<f64> {
        let Some(at) = self.measures.iter().position(|known| known.name == measure) else { return Vec::new() };
        let rows = self.rows.iter().filter(|row| row.system == system && row.host == host.name);
        rows.filter_map(|row| row.cells.get(at)?.value).collect()
    }

    /// Lines of comma-separated values.
    pub(super) fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut out = "system,host,seed".to_owned();
        for measure in &self.measures {
            // Writing to a string cannot fail, here and below.
            let _ = write!(out, ",{}", quoted(&format!("{} ({})", measure.name, measure.unit)));
        }
        out.push('\n');
        for row in &self.rows {
            let _ = write!(out, "{},{},{}", quoted(&row.system), quoted(row.host), row.seed);
            for cell in &row.cells {
                let _ = write!(out, ",{}", cell.value.map(|value| value.to_string()).unwrap_or_default());
            }
            out.push('\n');
        }
        out
    }

    /// Lines for a terminal.
    pub fn text(&self) -> String {
        let mut lines = vec![["system", "host", "seed"].map(str::to_owned).to_vec()];
        lines[0].extend(self.measures.iter().map(|measure| format!("{} ({})", measure.name, measure.unit)));
        for row in &self.rows {
            let mut line = vec![row.system.clone(), row.host.to_owned(), row.seed.to_string()];
            line.extend(row.cells.iter().map(Cell::text));
            lines.push(line);
        }
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        let mut out = format!("{}\n", self.title);
        for line in lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| match at {
                0 | 1 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        out
    }

    /// A table of a page, in which `escaped` has made texts harmless.
    pub(super) fn html(&self, escaped: impl Fn(&str) -> String) -> String {
        let mut out =
            format!("<h3>{}</h3><table><thead><tr><th>system<th class=margin>host<th>seed", escaped(&self.title));
        for measure in &self.measures {
            let _ = write!(out, "<th>{} <i>{}</i>", escaped(measure.name), escaped(measure.unit));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            let _ = write!(out, "<tr><td class=id>{}", escaped(&row.system));
            let _ = write!(out, "<td class=margin>{}<td class=number data-label=seed>{}", escaped(row.host), row.seed);
            for (cell, measure) in row.cells.iter().zip(&self.measures) {
                let class = if cell.goal_met == Some(Verdict::No) { "no" } else { "yes" };
                let text = match cell.goal_met {
                    Some(_) => format!("<b class={class}>{}</b>", escaped(&cell.text())),
                    None => escaped(&cell.text()),
                };
                let _ = write!(out, "<td class=number data-label=\"{}\">{text}", escaped(measure.name));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table>");
        out
    }
}

impl Measure {
    fn judge(&self, value: Option<f64>) -> Cell {
        let met = |(value, goal): (f64, f64)| {
            let met = match self.better {
                Better::Higher => value >= goal,
                Better::Lower => value <= goal,
            };
            if met { Verdict::Yes } else { Verdict::No }
        };
        Cell { value, goal_met: value.zip(self.goal).map(met) }
    }
}

impl Cell {
    /// The figure, and a mark if it misses its goal.
    fn text(&self) -> String {
        let missed = if self.goal_met == Some(Verdict::No) { "!" } else { "" };
        self.value.map_or("-".to_owned(), |value| format!("{}{missed}", number(value)))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::context::Scale;

    #[test]
    fn a_grid_has_a_row_for_each_system_host_and_seed_with_judged_cells() {
        let context = Context::new(1, Scale::Quick, Rc::new(|_, _| {}));
        let measures = [
            Measure { name: "longest", unit: "ms", better: Better::Lower, goal: Some(1000.0) },
            Measure { name: "write amplification", unit: "x", better: Better::Lower, goal: None },
        ];
        let mut grid = Grid::new("some", "Some <load>", &measures);
        let hosts = [Host::linux_4_19(), Host::linux_6_10()];
        let measure = |system: &&str, host: Host, seed: u64| {
            let longest = 100.0 * system.len() as f64 * seed as f64 * if host.name.ends_with("19") { 2.0 } else { 1.0 };
            Ok(vec![Some(longest), (*system == "shingled").then_some(1.5)])
        };
        grid.fill(&context, (&["cmr", "shingled"], &hosts, &[1, 2]), |system| *system, measure).unwrap();
        let names: Vec<_> = grid.rows.iter().map(|row| (row.system.as_str(), row.host, row.seed)).collect();
        assert_eq!((names.len(), names[0], names[7]), (8, ("cmr", "Linux 4.19", 1), ("shingled", "Linux 6.10", 2)));
        assert_eq!(grid.values("shingled", hosts[0], "longest"), [1600.0, 3200.0]);
        assert_eq!(grid.values("cmr", hosts[1], "write amplification"), Vec::<f64>::new());
        let verdicts: Vec<_> = grid.rows.iter().map(|row| row.cells[0].goal_met).collect();
        let (yes, no) = (Some(Verdict::Yes), Some(Verdict::No));
        assert_eq!(verdicts, [yes, no, yes, yes, no, no, yes, no]);
        assert!(grid.rows.iter().all(|row| row.cells[1].goal_met.is_none()));
        assert!(grid.text().contains("shingled  Linux 4.19     1         1600!"), "{}", grid.text());
        assert!(grid.csv().starts_with(
            "system,host,seed,\"longest (ms)\",\"write amplification (x)\"\n\"cmr\",\"Linux 4.19\",1,600,\n"
        ));
        let page = grid.html(|text| text.replace('<', "&lt;"));
        assert!(page.contains("Some &lt;load>") && page.contains("<b class=no>1600!</b>"), "{page}");
        let mut other = Grid::new("some", "Some <load>", &measures);
        other.fill(&context, (&["cmr", "shingled"], &hosts, &[3]), |system| *system, measure).unwrap();
        grid.join(other);
        let seeds: Vec<u64> = grid.rows.iter().map(|row| row.seed).collect();
        assert_eq!(seeds, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(grid.values("shingled", hosts[0], "longest"), [1600.0, 3200.0, 4800.0]);
        let failed =
            grid.fill(&context, (&["x"], &hosts, &[1]), |system| *system, |_, _, _| Err(LabError("no".to_owned())));
        assert_eq!(failed, Err(LabError("no".to_owned())));
    }
}
