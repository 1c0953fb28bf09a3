//! Accesses by time and address. (FSTL, Figure 15.)

use std::collections::BTreeMap;

use super::traces;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::trace::io::{IoKind, Source};

/// Name in commands.
pub(crate) const NAME: &str = "stl-heat";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "Which addresses do loads access, and when?",
        setup: "Each load of `stl-replay`, as figures: accesses of each 1/200 of the addresses in each 1/200 of the I/Os, in three classes, \
                and the share of accesses that go to the most used twentieth of all MiB. No drive has a part in it. \
                A generated load is as skewed as it was asked to be, so that it is shown alone. \
                A trace of one's own: `--trace FILE`.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Steps of an axis.
const STEPS: u64 = 200;

/// Classes of counts: from, and name.
const CLASSES: [(u64, &str); 3] = [(1, "1 access"), (2, "2 to 7"), (8, "8 and more")];

/// Bytes that count as one place.
const PLACE: u64 = 1 << 20;

/// Accesses of a load.
struct Heat {
    /// By step of time and of addresses.
    cells: BTreeMap<(u64, u64), u64>,
    /// By place.
    places: BTreeMap<u64, u64>,
    /// Places in all.
    all: u64,
}

fn count(source: &dyn Source, seed: u64) -> Result<Heat, LabError> {
    let mut all = 0u64;
    for io in source.open(seed)? {
        io?;
        all += 1;
    }
    let size = source.size_bytes().max(1);
    let mut heat = Heat { cells: BTreeMap::new(), places: BTreeMap::new(), all: size.div_ceil(PLACE) };
    for (number, io) in (0..).zip(source.open(seed)?) {
        let io = io?;
        if matches!(io.kind, IoKind::Read | IoKind::Write) {
            let at = (u128::from(io.offset) * u128::from(STEPS) / u128::from(size)) as u64;
            *heat.cells.entry((number * STEPS / all, at)).or_default() += 1;
            *heat.places.entry(io.offset / PLACE).or_default() += 1;
        }
    }
    Ok(heat)
}

impl Heat {
    /// Percent of accesses to the most used twentieth of all places.
    fn hottest_twentieth(&self) -> f64 {
        let mut counts: Vec<u64> = self.places.values().copied().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let hot: u64 = counts.iter().take(self.all.div_ceil(20) as usize).sum();
        hot as f64 / counts.iter().sum::<u64>().max(1) as f64 * 100.0
    }

    fn series(&self) -> Vec<Series> {
        let class = |index: usize| {
            let (from, name) = CLASSES[index];
            let to = CLASSES.get(index + 1).map_or(u64::MAX, |next| next.0);
            let cells = self.cells.iter().filter(|(_, count)| (from..to).contains(count));
            let percent = |step: u64| (step as f64 + 0.5) * 100.0 / STEPS as f64;
            Series::new(name, Mark::Dots, cells.map(|(&(time, at), _)| (percent(time), percent(at))).collect())
        };
        (0..CLASSES.len()).map(class).filter(|series| !series.points.is_empty()).collect()
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let mut outcome = Outcome::default();
    for trace in traces::all(context) {
        let heat = count(&*trace.source, context.seed)?;
        outcome.figures.push(Figure {
            name: format!("{NAME}-{}", trace.name),
            title: format!("{}: accesses by time and address (Figure 15)", trace.name),
            x: Axis::linear("time (% of the I/Os)"),
            y: Axis::linear("address (% of the span)"),
            series: heat.series(),
        });
        let id = format!("{}: accesses to the most used twentieth", trace.name);
        let row = Row::new(id, "%", Better::Higher).paper_at_least(50.0).paper_config(heat.hottest_twentieth());
        // A generated load is as skewed as it was asked to be.
        let made = "not judged: the load is made so; the paper: \"highly skewed\", more than half";
        outcome.rows.push(if context.block_trace.is_none() { row.note(made) } else { row });
    }
    Ok(outcome)
}
