//! RocksDB on an emulated zoned drive in a file, beside RocksDB on the file system that holds the file: Debian's own `db_bench`, both sides
//! in turns, with the same options.
//!
//! Both sides have caches outside RocksDB's own: ours is bounded (`SHINGLE_ROCKSDB_CACHE_MIB`), the other is the kernel's page cache. Goals:
//! not slower in any load, and 1.5 times the rate of synchronous writes with 8 threads.

mod program;
mod sides;

use std::path::Path;

use self::program::Load;
use self::sides::Sides;
use crate::bench::figure::{Figure, median};
use crate::failure::Outcome;
use crate::scratch::Scratch;

const ROUNDS: usize = 3;

/// Loads of a round, in this order: each finds what those before it left.
const LOADS: [Load; 10] = [
    Load { id: "fillseq", name: "fillseq", fresh: true, threads: 1, sync: false, seconds: None },
    Load { id: "fillrandom", name: "fillrandom", fresh: true, threads: 1, sync: false, seconds: None },
    Load { id: "overwrite", name: "overwrite", fresh: false, threads: 1, sync: false, seconds: None },
    Load { id: "readrandom", name: "readrandom", fresh: false, threads: 1, sync: false, seconds: None },
    Load { id: "readwhilewriting", name: "readwhilewriting", fresh: false, threads: 4, sync: false, seconds: Some(5) },
    Load { id: "fillseq_sync", name: "fillseq", fresh: true, threads: 1, sync: true, seconds: Some(5) },
    Load { id: "fillrandom_sync", name: "fillrandom", fresh: true, threads: 1, sync: true, seconds: Some(5) },
    Load { id: "overwrite_sync", name: "overwrite", fresh: false, threads: 1, sync: true, seconds: Some(5) },
    Load { id: "overwrite_sync_8", name: "overwrite", fresh: false, threads: 8, sync: true, seconds: Some(5) },
    Load {
        id: "readwhilewriting_sync",
        name: "readwhilewriting",
        fresh: false,
        threads: 4,
        sync: true,
        seconds: Some(5),
    },
];

/// Rates of all loads, on the drive and on the file system, in files below `directory`.
pub(crate) fn run(directory: Option<&Path>) -> Outcome<Vec<Figure>> {
    let temporary = std::env::temp_dir();
    let scratch = Scratch::new(directory.unwrap_or(&temporary))?;
    let sides = Sides::new(&scratch.0)?;
    let mut rates: [[Vec<f64>; 2]; LOADS.len()] = Default::default();
    for round in 0..ROUNDS {
        for (load, rates) in LOADS.iter().zip(&mut rates) {
            // Neither side always comes second, when the machine is still busy with the first one's writes.
            let (first, second) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            for side in [first, second] {
                rates[side].push(sides.run(side, load)?);
            }
        }
    }
    let figure = |(load, [ours, theirs]): (&Load, [Vec<f64>; 2])| Figure {
        id: load.id,
        unit: "operations/s",
        value: median(ours),
        limit: median(theirs),
    };
    Ok(LOADS.iter().zip(rates).map(figure).collect())
}
