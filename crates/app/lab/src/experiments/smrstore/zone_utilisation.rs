//! Utilisation of zones. (SMRstore, Figures 18 and 20.)

use super::by_length::{self, ByLength};
use super::placement::{COMBINATIONS, combination};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::multistream::MultiStreamResult;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "zone-utilisation",
        question: "Are zones wholly alive or wholly dead, so that GC has nothing to move?",
        setup: "Every closed zone, garbage included, at the end of the multi-stream load's deletion at 80 %. Each with four lengths of chunks, with the first seed; ours behind \
                Linux 6.10, and behind the paper's 4.19 as all others.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// The row.
const WHAT: &str = "closed zones >= 99 % or <= 1 % live, 80 % full";

/// The share of closed zones that are at least 99 % or at most 1 % live.
fn decided(run: &MultiStreamResult) -> f64 {
    let Some(last) = run.samples.last() else { return 0.0 };
    let all = &last.state.utilisation;
    let decided = all.iter().filter(|&&live| !(0.01..0.99).contains(&live)).count();
    decided as f64 / all.len().max(1) as f64
}

/// The share of zones with at most that many percent live, for every percent.
fn distribution(run: &MultiStreamResult) -> Vec<(f64, f64)> {
    let mut all = run.samples.last().map(|last| last.state.utilisation.clone()).unwrap_or_default();
    all.sort_by(f32::total_cmp);
    let share = |percent: u32| {
        let below = all.partition_point(|&live| f64::from(live) * 100.0 <= f64::from(percent) + 1e-6);
        (f64::from(percent), below as f64 / all.len().max(1) as f64)
    };
    (0..=100).map(share).collect()
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let (mut series, mut remarks) = (Vec::new(), Vec::new());
    let percent = |run: &MultiStreamResult| decided(run) * 100.0;
    for (name, placement) in COMBINATIONS {
        let found = combination(context, name, placement, Host::linux_4_19())?;
        let chosen = found.chosen();
        remarks.push(format!("{name}: {:.1} % of closed zones are wholly live or dead", percent(chosen)));
        series.push(Series::new(name, Mark::Line, distribution(chosen)));
    }
    let behind = |setup: Setup, host: Host| ByLength::behind(context, Store::Engine(setup), host, 0.8);
    let (old, new) = (Host::linux_4_19(), Host::linux_6_10());
    let (paper, ours_old, ours) = (behind(Setup::Paper, old)?, behind(Setup::Ours, old)?, behind(Setup::Ours, new)?);
    series.push(Series::new(Setup::Ours.name(), Mark::Line, distribution(ours.chosen())));
    let other = Row::new(format!("{WHAT}, {}", old.name), "%", Better::Higher).paper_config(paper.values(percent)[0]);
    let other = by_length::ours(other, &ours_old.values(percent));
    let row = Row::new(WHAT, "%", Better::Higher).paper_at_least(50.0);
    let row = row.goal(95.0).note(
        "several chunks of OSS GC Wr 2 and of metadata, 6 % of the bytes, share a zone and die one by one; a chunk that finds no empty zone \
         lies in two; the paper: most; a zone with one live chunk of 252 MiB is 98.4 % live",
    );
    let row = by_length::ours(by_length::paper(row, &paper.values(percent)), &ours.values(percent));
    let rows = vec![row.judged(), other];
    let figure = Figure {
        name: "zone-utilisation".to_owned(),
        title: "Live share of closed zones (SMRstore, Figures 18 and 20)".to_owned(),
        x: Axis::linear("live (%)"),
        y: Axis::linear("share of zones (CDF)"),
        series,
    };
    Ok(Outcome { rows, figures: vec![figure], remarks, ..Outcome::default() })
}
