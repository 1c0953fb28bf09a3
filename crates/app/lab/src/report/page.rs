//! The report: one HTML page with every experiment's question, rows and pictures.
//!
//! The page needs nothing beside itself: its style and pictures are in it. On a narrow screen a row of a table becomes a
//! list of its figures, and pictures scroll.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome};
use crate::report::assumed;
use crate::report::escape::escaped;
use crate::report::files::VERSION;
use crate::report::number::number;
use crate::report::row::{Row, Verdict, class};
use crate::runs::sweep::Sweep;
use crate::targets::{self, Judged};

const STYLE: &str = include_str!("page.css");

/// A run, and its findings.
pub type Run = (Experiment, Outcome);

/// Writes `index.html` into `folder`, beside the files that the runs wrote, with the findings of a sweep if there was one, and returns its path.
///
/// # Errors
/// The file that could not be written.
pub fn write(folder: &Path, context: &Context, runs: &[Run], swept: Option<&Sweep>) -> Result<PathBuf, LabError> {
    let path = folder.join("index.html");
    std::fs::write(&path, page(context, runs, swept)?)
        .map_err(|error| LabError(format!("{} could not be written: {error}", path.display())))?;
    Ok(path)
}

// Writing to a string cannot fail, here and below.
fn page(context: &Context, runs: &[Run], swept: Option<&Sweep>) -> Result<String, LabError> {
    let mut out = String::new();
    let all = || runs.iter().flat_map(|(_, outcome)| &outcome.rows);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content='width=device-width,initial-scale=1'><title>Shingle: lab report</title>\
         <style>{STYLE}</style></head><body><h1>Lab report</h1>\
         <p class=run>Shingle {VERSION}, {}, scale {}{}</p>\
         <p>The papers' experiments on modelled drives, in virtual time: the same seed gives the same figures on any \
         machine. Two questions are asked of a row. <b>Reproduced?</b> The paper's configuration comes to the paper's value, \
         within a tolerance; <i>consistent</i> says that an input which the paper does not give was tried. <b>Goal met?</b> Shingle as it is by default meets a goal of this project's. A row without an \
         answer is only shown. Of several seeds the medians are shown, and the worst one is judged. Nobody knows whether a drive without a write cache loses a turn at each \
         write in sequence: a row is of drives that do, one with <i>no turn lost</i> below it of drives that do not, and <i>depends</i> says that the answer is yes for one of them only.</p>\
         <p>{}</p><nav><h2>Contents</h2><ol>",
        seeds(context, runs),
        context.scale,
        context.drive.as_ref().map_or_else(String::new, |drive| format!(", on the drive {}", escaped(&drive.name))),
        counts(all()),
    );
    for (experiment, outcome) in runs {
        let _ = write!(
            out,
            "<li><a href='#{0}'>{0}</a> <span>{1}</span> <small>{2}</small></li>",
            experiment.name,
            escaped(experiment.question),
            counts(outcome.rows.iter()),
        );
    }
    out.push_str("<li><a href='#assumed'>assumed</a> <span>Which verdicts hang on constants that are only assumed?</span></li></ol></nav>");
    for (experiment, outcome) in runs {
        section(&mut out, experiment, outcome)?;
    }
    assumed::section(&mut out, swept);
    uncovered(&mut out);
    out.push_str("</body></html>\n");
    Ok(out)
}

/// Seeds of all runs, in words.
fn seeds(context: &Context, runs: &[Run]) -> String {
    match runs.iter().flat_map(|(_, outcome)| outcome.inputs.seeds.iter().copied()).max() {
        Some(last) if last > context.seed => format!("seeds {} to {last}", context.seed),
        _ => format!("seed {}", context.seed),
    }
}

/// Targets that no row judges, with the reason.
fn uncovered(out: &mut String) {
    out.push_str("<section id='not-covered'><h2>Without a verdict</h2><table><thead><tr><th>result<th class=margin>goal<th class=margin>reason</tr></thead><tbody>");
    for target in targets::all() {
        if let Judged::NotYet(why) | Judged::Shown(_, why) = target.judged {
            let _ = write!(
                out,
                "<tr><td class=id>{} ({})<td class=margin>{}<td class=margin>{}</tr>",
                escaped(target.result),
                escaped(target.place),
                escaped(target.goal.unwrap_or("to be reproduced")),
                escaped(why)
            );
        }
    }
    out.push_str("</tbody></table></section>");
}

fn section(out: &mut String, experiment: &Experiment, outcome: &Outcome) -> Result<(), LabError> {
    let _ = write!(
        out,
        "<section id='{0}'><h2>{0}</h2><p class=question>{1}</p><dl><dt>Expected</dt><dd>{2}</dd><dt>Set-up</dt>\
         <dd>{3}</dd></dl>",
        experiment.name,
        escaped(experiment.question),
        escaped(&targets::expectation(experiment.name)),
        escaped(experiment.setup),
    );
    table(out, &outcome.rows);
    for grid in &outcome.grids {
        out.push_str(&grid.html(escaped));
    }
    for figure in &outcome.figures {
        let _ = write!(
            out,
            "<figure role=img aria-label='{1}'><div>{2}</div><figcaption>{1}. <a href='{0}.png'>PNG</a>, <a \
             href='{0}.svg'>SVG</a>, <a href='{0}.csv'>data</a></figcaption></figure>",
            figure.name,
            escaped(&figure.title),
            figure.svg()?,
        );
    }
    if !outcome.remarks.is_empty() {
        out.push_str("<h3>Remarks</h3><ul>");
        for remark in &outcome.remarks {
            let _ = write!(out, "<li>{}</li>", escaped(remark));
        }
        out.push_str("</ul>");
    }
    out.push_str("<p><a href='#'>Contents</a></p></section>");
    Ok(())
}

fn table(out: &mut String, rows: &[Row]) {
    out.push_str(
        "<table><thead><tr><th>figure<th>paper<th>paper's configuration<th>Shingle<th>goal<th>reproduced?<th>goal met?<th class=margin>margin</tr></thead><tbody>",
    );
    for (turn, row) in rows.iter().flat_map(Row::ways) {
        let other = Row::is_other_way(turn);
        let id = if other { format!("{}, <i>{turn}</i>", escaped(&row.id)) } else { escaped(&row.id) };
        let _ = write!(out, "<tr><td class=id>{id}");
        let cells = [
            ("paper", row.paper),
            ("paper's configuration", row.paper_config),
            ("Shingle", row.ours),
            ("goal", row.goal),
        ];
        for (label, value) in cells {
            let text = value.map_or_else(String::new, |value| format!("{} <i>{}</i>", number(value), row.unit));
            let _ = write!(out, "<td class=number data-label=\"{label}\">{text}");
        }
        for (label, verdict) in [("reproduced?", row.reproduced), ("goal met?", row.goal_met)] {
            let _ = write!(out, "<td class=answer data-label=\"{label}\">{}", answer(verdict));
        }
        let _ = write!(
            out,
            "<td class=margin><span>{}</span> <small>{}</small></tr>",
            escaped(&row.margin),
            escaped(&row.note)
        );
    }
    out.push_str("</tbody></table>");
}

fn answer(verdict: Option<Verdict>) -> String {
    match Verdict::word(verdict) {
        "" => String::new(),
        word => format!("<b class={}>{}</b>", class(verdict), word.to_lowercase()),
    }
}

/// Numbers of rows with an answer, and with a yes, by question.
fn counts<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    let of = |what: &str, ask: fn(&Row) -> Option<Verdict>| {
        let asked = rows.clone().filter_map(ask).count();
        let yes = rows.clone().filter_map(ask).filter(|verdict| *verdict == Verdict::Yes).count();
        let count = |asked: Verdict| rows.clone().filter_map(ask).filter(|verdict| *verdict == asked).count();
        let (consistent, depends) = (count(Verdict::Consistent), count(Verdict::Depends));
        let class = if yes + consistent == asked { "yes" } else { "no" };
        let some = |number: usize, what: &str| if number > 0 { format!(" and {number} {what}") } else { String::new() };
        let more = some(consistent, "consistent") + &some(depends, "by what nobody knows of the drive");
        (asked > 0).then(|| format!("{what} <b class={class}>{yes}{more} of {asked}</b>"))
    };
    let both = [of("reproduced", |row| row.reproduced), of("goals met", |row| row.goal_met)];
    both.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::context::Scale;
    use crate::report::figure::{Axis, Figure, Mark, Series};
    use crate::report::row::Better;

    #[test]
    fn a_page_needs_no_network_and_says_all_there_is() {
        let context = Context::new(7, Scale::Quick, Rc::new(|_, _| {}));
        let experiment = || crate::experiments::named("space").unwrap();
        let shown = Row::new("only <shown>", "s", Better::Lower).paper_config(12.345_678).judged();
        let short = Row::new("late", "s", Better::Lower).ours(20.0).goal(10.0).note("why").judged();
        let figure = Figure {
            name: "space".to_owned(),
            title: "A picture".to_owned(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series::new("s", Mark::Line, vec![(0.0, 1.0), (1.0, 2.0)])],
        };
        let outcome = Outcome {
            rows: vec![shown, short],
            figures: vec![figure],
            remarks: vec!["a remark".to_owned()],
            ..Outcome::default()
        };
        let page = page(&context, &[(experiment(), outcome)], None).unwrap();
        for part in [
            "<a href='#space'>",
            "seed 7, scale quick",
            VERSION,
            "only &lt;shown&gt;",
            "12.35",
            "goals met <b class=no>0 of 1</b>",
            "reproduced?",
            "missed by 100.0&nbsp;%",
            "why",
            "<svg",
            "a remark",
            "Without a verdict",
            "nor is there a Postmark",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let loads = ["<script", "<link", "<img", "url(", "@import"];
        assert!(loads.iter().all(|tag| !page.contains(tag)), "the page loads something");
        assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
    }
}
