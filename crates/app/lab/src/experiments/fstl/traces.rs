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

use std::sync::Arc;

use crate::context::Context;
use crate::load::fitted::Fitted;
use crate::load::replay::Pace;
use crate::trace::io::Source;

/// The load that most of the paper's figures are of.
pub(super) const SRC2_2: &str = "src2_2";

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
    if let Some(trace) = &context.block_trace {
        let name = trace.source.name().to_owned();
        return vec![Trace { name, source: trace.source.clone(), modes: MODES.to_vec(), pace: trace.pace }];
    }
    let ios = context.scale.pick(2_000, 40_000, 600_000);
    let span: u64 = context.scale.pick(2 << 30, 8 << 30, 64 << 30);
    let small_and_large = |small: u64, large: u64| vec![(4, small), (8, small), (32, small), (64, large)];
    let trace = |name: &str, modes: &[Mode], load: Fitted| Trace {
        name: name.to_owned(),
        source: Arc::new(Fitted { name: name.to_owned(), ios, span, ..load }),
        modes: modes.to_vec(),
        pace: None,
    };
    let load = Fitted {
        name: String::new(),
        ios,
        span,
        writes_percent: 98,
        sizes: small_and_large(8, 76),
        sequential_percent: 60,
        hot_percent: 95,
        hot: span / 64,
    };
    vec![
        trace(SRC2_2, &MODES, load.clone()),
        trace(
            "src1_2",
            &[ONE, CACHED],
            Fitted {
                writes_percent: 75,
                sizes: small_and_large(21, 37),
                sequential_percent: 40,
                hot_percent: 90,
                hot: span / 128,
                ..load.clone()
            },
        ),
        trace(
            WDEV_0,
            &[ONE, CACHED],
            Fitted {
                writes_percent: 80,
                sizes: vec![(4, 70), (8, 20), (32, 10)],
                sequential_percent: 20,
                hot_percent: 90,
                hot: span / 256,
                ..load
            },
        ),
    ]
}
