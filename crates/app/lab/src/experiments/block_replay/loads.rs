//! Loads of the experiment: generated ones, or a trace of the user's.

use std::sync::Arc;

use crate::context::Context;
use crate::load::generate::{Generated, Order};
use crate::load::replay::Pace;
use crate::trace::io::Source;

/// I/Os and their pace.
pub(super) struct Load {
    /// Stem of the names of its grid and figures.
    pub(super) name: String,
    /// Its subject, in words.
    pub(super) title: String,
    pub(super) source: Arc<dyn Source>,
    pub(super) pace: Pace,
    /// The drives' volatile caches are on.
    pub(super) write_cache: bool,
}

/// Synchronous writes, each at its own place, and from standard scale on more of them than media caches hold.
pub(super) const RANDOM: &str = "random";

/// Overwrites in order, past the cache.
pub(super) const STREAM: &str = "stream";

/// Writes as they come.
pub(super) const ARRIVALS: &str = "arrivals";

/// Overwrites of which few places get most, with reads between.
const ZIPF: &str = "zipf";

const GIB: u64 = 1 << 30;

/// The loads of a run.
pub(super) fn all(context: &Context) -> Vec<Load> {
    if let Some(trace) = &context.block_trace {
        let paces = trace.pace.map_or(vec![Pace::Open, Pace::Depth(1), Pace::Depth(31)], |pace| vec![pace]);
        let load = |pace: Pace| Load {
            name: format!("trace-{}", pace.to_string().replace(':', "-")),
            title: format!("{}, {}", trace.source.name(), words(pace)),
            source: trace.source.clone(),
            pace,
            write_cache: false,
        };
        return paces.into_iter().map(load).collect();
    }
    let generated = |name: &str, title: &str, pace, write_cache, load: Generated| Load {
        name: name.to_owned(),
        title: format!("{title}, {}", words(pace)),
        source: Arc::new(Generated { name: name.to_owned(), ..load }),
        pace,
        write_cache,
    };
    let writes = Generated {
        name: String::new(),
        order: Order::Random,
        ios: 0,
        bytes: 4 << 10,
        reads_percent: 0,
        fua_percent: 0,
        size: 3 << 40,
        span: 3 << 40,
        gap: 0,
    };
    let of = |quick, standard, full| context.scale.pick(quick, standard, full);
    vec![
        generated(
            RANDOM,
            "Writes of 4 KiB at random, volatile caches off",
            Pace::Depth(1),
            false,
            Generated { ios: of(500, 36_000, 40_000), ..writes.clone() },
        ),
        generated(
            STREAM,
            "Overwrites of 4 MiB in order, volatile caches on",
            Pace::Depth(4),
            true,
            Generated {
                order: Order::Sequential,
                bytes: 4 << 20,
                ios: of(500, 4_000, 20_000),
                span: of(GIB, 8 * GIB, 40 * GIB),
                ..writes.clone()
            },
        ),
        generated(
            ZIPF,
            "Overwrites of 16 KiB by Zipf's law in 64 GiB, 30 % reads, volatile caches off",
            Pace::Depth(31),
            false,
            Generated {
                order: Order::Zipf,
                bytes: 16 << 10,
                ios: of(5_000, 50_000, 500_000),
                reads_percent: 30,
                span: 64 * GIB,
                ..writes.clone()
            },
        ),
        generated(
            ARRIVALS,
            "Writes of 8 KiB at random, a tenth of them durable, 100 a second, volatile caches on",
            Pace::Open,
            true,
            Generated { bytes: 8 << 10, ios: of(2_000, 40_000, 300_000), fua_percent: 10, gap: 10_000_000, ..writes },
        ),
    ]
}

fn words(pace: Pace) -> String {
    match pace {
        Pace::Open => "as they arrive".to_owned(),
        Pace::Closed => "in a closed loop".to_owned(),
        Pace::Depth(1) => "one at a time".to_owned(),
        Pace::Depth(depth) => format!("{depth} outstanding"),
    }
}
