//! Loads that stand for the paper's traces, none of which is here, or a trace of the user's own.
//!
//! | stands for | of | writes | sizes, in the mean | sequential | hot | from |
//! |---|---|---:|---:|---:|---|---|
//! | src2_2 | MSR Cambridge, source control | 98 % | 51 KiB | 60 % | 95 % in 1/64 of the span | "write-heavy"; TL2 takes it at 100 MB/s |
//! | src1_2 | the same, another volume | 75 % | 34 KiB | 40 % | 90 % in 1/128 | "highly skewed" (Figure 15) |
//! | wdev_0 | the same, a test web server | 80 % | 8 KiB | 20 % | 90 % in 1/256 | "highly skewed"; 10 us count (Figure 12) |
//!
//! Sizes and the last two shares are assumed, after what is remembered of the traces' published tables; order, span and skew after the
//! paper's words and Figure 15. The first share is fitted: 100 MB/s with one I/O of 51 KiB outstanding leave half a millisecond for each, so
//! that hardly one in fifty can be a read at random. A figure of one of them stands for no more than "such a load".

use std::path::Path;
use std::sync::Arc;

use crate::context::Context;
use crate::error::LabError;
use crate::load::fitted::Fitted;
use crate::load::replay::Pace;
use crate::trace::input::{Input, Selection};
use crate::trace::io::Source;
use crate::trace::looped::Looped;
use crate::trace::own;

/// The load that most of the paper's figures are of.
pub(super) const SRC2_2: &str = "src2_2";

/// Another one, where policies of cleaning differ most.
pub(super) const SRC1_2: &str = "src1_2";

/// The one in which hardly anything is written twice.
pub(super) const ARCHIVE: &str = "H1-R6Lv1";

/// The one with small writes.
pub(super) const WDEV_0: &str = "wdev_0";

/// Outstanding I/Os, and the drive's write cache. (FSTL, Figures 5, 6 and 11.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) depth: u32,
    pub(super) write_cache: bool,
}

/// One outstanding, every write durable.
pub(super) const ONE: Mode =
    Mode { name: "qd1", words: "one outstanding, write cache off", depth: 1, write_cache: false };

/// Two of them.
pub(super) const TWO: Mode =
    Mode { name: "qd2", words: "two outstanding, write cache off", depth: 2, write_cache: false };

/// One, in a volatile cache.
pub(super) const CACHED: Mode =
    Mode { name: "qd1-cached", words: "one outstanding, write cache on", depth: 1, write_cache: true };

/// All of them.
pub(super) const MODES: [Mode; 3] = [ONE, TWO, CACHED];

/// Eight, in a volatile cache: how ext4 writes back what programs wrote to memory.
const RECORDED: Mode =
    Mode { name: "recorded", words: "as ext4 had it, eight outstanding, write cache on", depth: 8, write_cache: true };

/// Those of a pace of the user's own, which the depths are not for.
const PACED: [Mode; 2] = [
    Mode { name: "uncached", words: "write cache off", ..ONE },
    Mode { name: "cached", words: "write cache on", ..CACHED },
];

/// A load, and the modes in which it is replayed.
#[derive(Clone)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) source: Arc<dyn Source>,
    pub(super) modes: Vec<Mode>,
    /// A pace of the user's own, in place of the modes' depths.
    pub(super) pace: Option<Pace>,
}

/// The loads of a run.
pub(super) fn all(context: &Context) -> Vec<Trace> {
    let ios = context.scale.pick(2_000, 40_000, 600_000);
    let span: u64 = context.scale.pick(2 << 30, 8 << 30, 64 << 30);
    let [src2_2, src1_2, wdev_0] = fitted(ios, span, 1);
    of(context, vec![(src2_2, &MODES), (src1_2, &[ONE, CACHED]), (wdev_0, &[ONE, CACHED])])
}

/// The loads that TL1 cleans with each policy: each writes about twice what its cache holds, and cold addresses get their I/Os in bursts, as
/// from somebody who goes through many files; their length is assumed. With zones of the cache: the paper's 27 GB at full scale, and
/// half of that for the load with small writes, which would take too long to fill it.
pub(super) fn of_cleaning(context: &Context) -> Vec<(Trace, u32)> {
    let scale = context.scale;
    let span: u64 = scale.pick(2 << 30, 8 << 30, 128 << 30);
    let [src2_2, src1_2, wdev_0] = fitted(0, span, scale.pick(100, 1_000, 16_000));
    let archive = Fitted {
        name: ARCHIVE.to_owned(),
        writes_percent: 95,
        sizes: vec![(128, 1), (256, 1), (512, 6)],
        sequential_percent: 95,
        hot_percent: 0,
        ..src2_2.clone()
    };
    let cache = scale.pick(2, 6, 100);
    let loads = [
        (src2_2, scale.pick(2_000, 60_000, 1_000_000), cache),
        (src1_2, scale.pick(2_000, 80_000, 1_700_000), cache),
        (wdev_0, scale.pick(2_000, 80_000, 1_700_000), cache / 2),
        (archive, scale.pick(500, 7_500, 125_000), cache),
    ];
    if context.block_trace.is_some() {
        return of(context, Vec::new()).into_iter().map(|trace| (trace, cache)).collect();
    }
    let modes: &[Mode] = &[CACHED];
    let load = |(load, ios, cache)| {
        let load = Fitted { ios, ..load };
        of(context, vec![(load, modes)]).into_iter().map(move |trace| (trace, cache))
    };
    loads.into_iter().flat_map(load).collect()
}

/// Filebench's loads as recorded of ext4 on a volume, each so many times over: alone they are short beside a cache.
pub(super) fn of_filebench(context: &Context) -> Result<Vec<Trace>, LabError> {
    let times = context.scale.pick(1, 4, 40);
    let load = |name: &str| {
        let input = Input::new(Path::new(name), &Selection::default())?;
        let source = Arc::new(Looped::new(Arc::new(input), times));
        Ok(Trace { name: name.to_owned(), source, modes: vec![RECORDED], pace: None })
    };
    own::FILEBENCH.into_iter().map(load).collect()
}

/// Loads in their modes, or the user's trace in all of them.
fn of(context: &Context, loads: Vec<(Fitted, &[Mode])>) -> Vec<Trace> {
    if let Some(trace) = &context.block_trace {
        let name = trace.source.name().to_owned();
        let modes = if trace.pace.is_some() { PACED.to_vec() } else { MODES.to_vec() };
        return vec![Trace { name, source: trace.source.clone(), modes, pace: trace.pace }];
    }
    let trace = |(load, modes): (Fitted, &[Mode])| Trace {
        name: load.name.clone(),
        source: Arc::new(load),
        modes: modes.to_vec(),
        pace: None,
    };
    loads.into_iter().map(trace).collect()
}

/// Loads that stand for src2_2, src1_2 and wdev_0.
fn fitted(ios: u64, span: u64, burst: u64) -> [Fitted; 3] {
    let small_and_large = |small: u64, large: u64| vec![(4, small), (8, small), (32, small), (64, large)];
    let src2_2 = Fitted {
        name: SRC2_2.to_owned(),
        ios,
        span,
        writes_percent: 98,
        sizes: small_and_large(8, 76),
        sequential_percent: 60,
        hot_percent: 95,
        burst,
        hot: span / 64,
    };
    let src1_2 = Fitted {
        name: SRC1_2.to_owned(),
        writes_percent: 75,
        sizes: small_and_large(21, 37),
        sequential_percent: 40,
        hot_percent: 90,
        hot: span / 128,
        ..src2_2.clone()
    };
    let wdev_0 = Fitted {
        name: WDEV_0.to_owned(),
        writes_percent: 80,
        sizes: vec![(4, 70), (8, 20), (32, 10)],
        sequential_percent: 20,
        hot_percent: 90,
        hot: span / 256,
        ..src2_2.clone()
    };
    [src2_2, src1_2, wdev_0]
}
