//! Rows of Filebench, and their goals.

use std::collections::BTreeMap;

use super::rows::LIKE;
use super::systems::{DRIVE, TL1, TL1_PAPER, TL2, ZDM};
use crate::context::Scale;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::Grid;
use crate::report::row::{Better, Row};
use crate::rig::host::Host;

pub(super) const RANDOM: &str = "randomwrite";
pub(super) const STREAM: &str = "singlestreamwrite";
pub(super) const SERVER: &str = "fileserver";
pub(super) const SYNCED: &str = "fileserver-fsync";
pub(super) const MAIL: &str = "varmail";

/// Least factor that is taken for "significantly": the paper's figures are bars without numbers.
const SIGNIFICANT: f64 = 1.2;

/// Largest factor that is taken for "drastically slower".
const DRASTIC: f64 = 0.5;

/// Throughput of each system, by load.
#[derive(Default)]
pub(super) struct Found {
    loads: Vec<&'static str>,
    systems: Vec<String>,
    throughput: BTreeMap<(&'static str, String), f64>,
}

impl Found {
    /// Takes in the rows of a grid.
    pub(super) fn take(&mut self, load: &'static str, grid: &Grid, host: Host) {
        self.loads.push(load);
        self.systems = grid.rows.iter().map(|row| row.system.clone()).collect();
        for system in &self.systems {
            let value = grid.values(system, host, "throughput").first().copied().unwrap_or(f64::NAN);
            self.throughput.insert((load, system.clone()), value);
        }
    }

    fn of(&self, load: &'static str, system: &str) -> f64 {
        self.throughput.get(&(load, system.to_owned())).copied().unwrap_or(f64::NAN)
    }

    fn over(&self, load: &'static str, one: &str, other: &str) -> f64 {
        self.of(load, one) / self.of(load, other)
    }

    /// Bars of all systems, by load.
    pub(super) fn figure(&self, name: &str) -> Figure {
        let bars = |system: &String| {
            let points = (0..).zip(&self.loads).map(|(at, load)| (f64::from(at), self.of(load, system)));
            Series::new(system, Mark::Bars, points.collect())
        };
        Figure {
            name: format!("{name}-throughput"),
            title: "Filebench on each layer (Figures 8 and 13)".to_owned(),
            x: Axis::of_names("load", self.loads.iter().map(|&load| load.to_owned()).collect()),
            y: Axis::linear("throughput (MB/s)"),
            series: self.systems.iter().map(bars).collect(),
        }
    }
}

/// All rows.
pub(super) fn rows(found: &Found, scale: Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |row: Row| {
        rows.push(match scale {
            Scale::Quick => row.note("not judged: so short a run fills no cache"),
            _ => row.judged(),
        });
    };
    let over_drive = |load: &'static str| {
        let row = Row::new(format!("{load}: TL1 over drive-managed"), "x", Better::Higher);
        row.paper_config(found.over(load, TL1_PAPER, DRIVE)).ours(found.over(load, TL1, DRIVE))
    };
    let random =
        "Figure 8: \"significantly\"; here write-back keeps up with one thread's calls on every system but dm-zoned";
    for (load, note) in [(RANDOM, random), (MAIL, "Figure 8: \"significantly\"")] {
        add(over_drive(load).paper_at_least(SIGNIFICANT).note(note));
    }
    add(over_drive(SERVER).paper_factor(1.0, 1.25).note("Figure 8: \"almost identical\""));
    let stream = "Figure 8: \"drastically slower\"; here a zone of which all was overwritten is free without a merge";
    add(over_drive(STREAM).paper_at_most(DRASTIC).goal(1.0).note(stream));
    for (system, configured, factor) in [(TL1, TL1_PAPER, 0.5), (DRIVE, DRIVE, 0.05)] {
        let row = Row::new(format!("{SYNCED}: {system} over {SERVER}"), "x", Better::Higher).paper_factor(factor, LIKE);
        let of = |system: &str| found.of(SYNCED, system) / found.of(SERVER, system);
        add(row.paper_config(of(configured)).note("TL1 \"drops by half\", the drive \"by a factor of 20\""));
    }
    for load in [RANDOM, STREAM, SERVER] {
        let row = Row::new(format!("{load}: TL2 over ZDM"), "x", Better::Higher).paper_at_most(1.0);
        let note = "Figure 13: ZDM is ahead, by data that it keeps in the kernel's memory; here it keeps none";
        add(row.paper_config(found.over(load, TL2, ZDM)).note(note));
    }
    for load in [MAIL, SYNCED] {
        let row = Row::new(format!("{load}: TL2 over ZDM"), "x", Better::Higher).paper_at_least(1.0);
        add(row.paper_config(found.over(load, TL2, ZDM)).note("Figure 13: TL2 is ahead where programs sync"));
    }
    rows
}
