//! Rows of RocksDB on disks, and their goals.

use std::collections::BTreeMap;

use super::rocksdb_load::Load;
use super::rocksdb_systems::{ASYNC, CACHED, CMR, DM_SMR, OURS, Run, SYNC};
use crate::context::{Context, Scale};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};

/// Seconds of the paper's runs. (Figure 5.7 and section 5.5.)
const PAPER_S: [(&str, f64); 5] = [(CMR, 2100.0), (DM_SMR, 3900.0), (SYNC, 4800.0), (ASYNC, 3000.0), (CACHED, 2500.0)];

/// Tolerance of ratios: bars are read to 100 s, and the load's sizes are a quarter.
const TOLERANCE: f64 = 0.25;

/// Zones that the paper's run needed, over those of its database of 31 GiB: at the end of the inserts, and once all compactions are done.
/// (Section 5.5.7)
const PAPER_SPACE: (f64, f64) = (42.0 / 31.0, 33.75 / 31.0);

/// Runs by system.
#[derive(Default)]
pub(super) struct Found {
    order: Vec<String>,
    runs: BTreeMap<String, Run>,
}

impl Found {
    pub(super) fn take(&mut self, system: &str, run: Run) {
        self.order.push(system.to_owned());
        self.runs.insert(system.to_owned(), run);
    }

    fn seconds(&self, system: &str) -> f64 {
        self.runs.get(system).map_or(f64::NAN, |run| run.course.seconds)
    }

    fn over_cmr(&self, system: &str) -> f64 {
        self.seconds(system) / self.seconds(CMR)
    }

    /// Times of all systems, over that of the conventional disk.
    pub(super) fn bars(&self, name: &str) -> Figure {
        let bars = (0..).zip(&self.order).map(|(at, system)| (f64::from(at), self.over_cmr(system))).collect();
        let paper = (0..).zip(&self.order).filter_map(|(at, system)| {
            let found = PAPER_S.iter().find(|(name, _)| name == system)?;
            Some((f64::from(at), found.1 / PAPER_S[0].1))
        });
        Figure {
            name: format!("{name}-time"),
            title: "RocksDB's inserts: time over that of the conventional disk (Figure 5.7)".to_owned(),
            x: Axis::of_names("system", self.order.clone()),
            y: Axis::linear("time over CMR"),
            series: vec![
                Series::new("here", Mark::Bars, bars),
                Series::new("dissertation", Mark::Paper, paper.collect()),
            ],
        }
    }
}

/// All rows.
pub(super) fn rows(found: &Found, load: &Load, context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    let judged = |row: Row| match context.scale {
        Scale::Quick if context.call_trace.is_none() => {
            row.note("not judged: the load ends before its compactions count")
        }
        _ => row.judged(),
    };
    for (system, seconds) in PAPER_S.into_iter().skip(1) {
        let row = Row::new(format!("time of {system}, over CMR"), "x", Better::Lower)
            .paper(seconds / PAPER_S[0].1, TOLERANCE)
            .paper_config(found.over_cmr(system));
        rows.push(judged(row));
    }
    rows.push(judged(
        Row::new(format!("time of {OURS}, over CMR"), "x", Better::Lower)
            .paper_shown(2500.0 / 2100.0)
            .ours(found.over_cmr(OURS))
            .goal(1.0)
            .note("the paper's best beside it"),
    ));
    // The beginning of a load ends before its compactions.
    let whole = context.scale == Scale::Full || context.call_trace.is_some();
    rows.extend(space(found, load).into_iter().take(if whole { 2 } else { 1 }).map(judged));
    rows
}

/// Room that zones take, over the files in them.
fn space(found: &Found, load: &Load) -> Vec<Row> {
    let zone_bytes = f64::from(load.table_mib) * f64::from(1 << 20);
    let ours = |pick: fn(&Run) -> f64| {
        let run = found.runs.get(OURS)?;
        let seen =
            |points: &[(f64, f64)]| points.iter().take_while(|point| point.0 <= pick(run)).last().map(|point| point.1);
        Some(seen(&run.zones)? * zone_bytes / seen(&run.live)?)
    };
    let lazy = "ours keeps zones with dead tables until zones run short";
    let row = |id: &str, paper: f64, found: f64, ours: Option<f64>| {
        let row = Row::new(id, "x", Better::Lower).paper(paper, 0.15).paper_config(found).goal(paper).note(lazy);
        ours.map_or(row.clone(), |ours| row.ours(ours))
    };
    let own = load.own_zones();
    vec![
        row(
            "room of zones over the database, at the end of the inserts",
            PAPER_SPACE.0,
            own.0,
            ours(|run| run.course.seconds),
        ),
        row(
            "room of zones over the database, once compactions are done",
            PAPER_SPACE.1,
            own.1,
            ours(|run| run.course.all_seconds),
        ),
    ]
}
