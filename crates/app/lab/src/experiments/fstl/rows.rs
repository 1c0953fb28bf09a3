//! Rows of the replays, and their goals.

use std::collections::BTreeMap;

use super::systems::{DRIVE, TL1, TL1_PAPER, TL2, ZDM};
use super::traces::{CACHED, Mode, ONE, SRC2_2, TWO};
use crate::context::Scale;
use crate::report::grid::Grid;
use crate::report::row::{Better, Row};
use crate::rig::host::Host;

/// Throughput and the longest I/O, by trace, mode and system.
#[derive(Default)]
pub(super) struct Found(BTreeMap<(String, &'static str, String), (f64, f64)>);

impl Found {
    /// Takes in the rows of a grid.
    pub(super) fn take(&mut self, trace: &str, mode: Mode, grid: &Grid, host: Host) {
        for row in &grid.rows {
            let value = |measure| grid.values(&row.system, host, measure).first().copied().unwrap_or(f64::NAN);
            let key = (trace.to_owned(), mode.name, row.system.clone());
            self.0.insert(key, (value("throughput"), value("longest")));
        }
    }

    fn of(&self, trace: &str, mode: Mode, system: &str) -> (f64, f64) {
        self.0.get(&(trace.to_owned(), mode.name, system.to_owned())).copied().unwrap_or((f64::NAN, f64::NAN))
    }

    fn ratio(&self, trace: &str, mode: Mode, one: &str, other: &str) -> f64 {
        self.of(trace, mode, one).0 / self.of(trace, mode, other).0
    }
}

/// The paper's factors of TL1 over the drive: Figure 5, section V-A.
const FACTORS: [(Mode, f64); 3] = [(ONE, 2.0), (TWO, 10.0), (CACHED, 3.0)];

/// Largest factor between the paper's factor and that of a load which is only like the paper's.
pub(super) const LIKE: f64 = 1.5;

/// All rows.
pub(super) fn rows(found: &Found, scale: Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    for (mode, factor) in FACTORS {
        let id = format!("{SRC2_2}: TL1 over drive-managed, {}", mode.words);
        let row = Row::new(id, "x", Better::Higher)
            .paper_factor(factor, LIKE)
            .paper_config(found.ratio(SRC2_2, mode, TL1_PAPER, DRIVE))
            .ours(found.ratio(SRC2_2, mode, TL1, DRIVE))
            .goal(factor);
        rows.push(row.note("the load is only like the paper's").judged());
    }
    for trace in ["src1_2", "wdev_0"] {
        let row = Row::new(format!("{trace}: TL1 over drive-managed, {}", ONE.words), "x", Better::Higher)
            .paper_factor(2.0, LIKE)
            .paper_config(found.ratio(trace, ONE, TL1_PAPER, DRIVE))
            .ours(found.ratio(trace, ONE, TL1, DRIVE))
            .goal(2.0);
        rows.push(row.note("Figure 6: \"roughly twice\"").judged());
    }
    for (mode, _) in FACTORS {
        let row = Row::new(format!("{SRC2_2}: longest I/O of TL1, {}", mode.words), "ms", Better::Lower)
            .paper_config(found.of(SRC2_2, mode, TL1_PAPER).1)
            .ours(found.of(SRC2_2, mode, TL1).1)
            .goal(1000.0);
        rows.push(row.note("the paper: all but one under a second").judged());
    }
    let longest =
        Row::new(DRIVE_WAITS, "ms", Better::Lower).paper_at_least(1000.0).paper_config(found.of(SRC2_2, ONE, DRIVE).1);
    rows.push(match scale {
        Scale::Quick => longest.note("not judged: so few writes fill no cache"),
        _ => longest.note("the paper: one to five seconds").judged(),
    });
    let over = |other: &str| found.ratio(SRC2_2, CACHED, TL2, other);
    let tl2 = Row::new(format!("{SRC2_2}: TL2 over TL1, {}", CACHED.words), "x", Better::Higher);
    let tl2 = tl2.paper_factor(100.0 / 67.0, LIKE).paper_config(over(TL1_PAPER)).ours(over(TL1)).goal(1.5);
    rows.push(match scale {
        Scale::Quick => tl2.note("not judged: so few writes fill no cache of TL1's"),
        _ => tl2.note("before TL2 cleans; the paper: 100 and 67 MB/s").judged(),
    });
    for trace in [SRC2_2, "src1_2", "wdev_0"] {
        let ratio = found.ratio(trace, CACHED, TL2, ZDM);
        let row = Row::new(format!("{trace}: TL2 over ZDM, {}", CACHED.words), "x", Better::Higher);
        let note = "Figure 11: TL2 is ahead, by the kernel's work for each I/O, which costs nothing here";
        rows.push(row.paper_at_least(1.0).paper_config(ratio).note(note).judged());
    }
    let throughput = found.of(SRC2_2, CACHED, TL2).0;
    let row = Row::new(format!("{SRC2_2}: TL2, {}", CACHED.words), "MB/s", Better::Higher).paper_config(throughput);
    rows.push(Row { paper: Some(100.0), ..row }.note("not judged: another trace").judged());
    rows
}

/// Id of the row of the drive's longest I/O.
pub(super) const DRIVE_WAITS: &str = "src2_2: longest I/O of the drive-managed drive";
