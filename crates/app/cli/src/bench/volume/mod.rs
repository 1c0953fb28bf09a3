//! A volume in memory over NBD, beside nbdkit's memory plugin: both in turns, with the same client, and on the same processors. And the
//! time of opening a volume.
//!
//! nbdkit's plugin copies bytes to memory, and back. A volume also journals each write and verifies each read. Goals: 0.7 of
//! its rate for reads, 0.5 for writes.

mod drive;
mod load;
mod recovery;
mod servers;

use crate::bench::device::fio;
use crate::bench::figure::{Figure, median};
use crate::bench::volume::load::Load;
use crate::bench::volume::servers::{Nbdkit, Ours};
use crate::failure::Outcome;
use crate::scratch::Scratch;

/// Bytes of the exports.
const SIZE: u64 = 512 << 20;
const ROUNDS: usize = 3;

/// Loads of a round, in this order: random reads find what random writes left.
const LOADS: [(&str, &str, Load); 4] = [
    ("write_1mib", "bytes/s", Load { pattern: "write", block_bytes: 1 << 20, bytes: 2 * SIZE }),
    ("read_1mib", "bytes/s", Load { pattern: "read", block_bytes: 1 << 20, bytes: 4 * SIZE }),
    ("write_4kib", "requests/s", Load { pattern: "randwrite", block_bytes: 4 << 10, bytes: SIZE / 2 }),
    ("read_4kib", "requests/s", Load { pattern: "randread", block_bytes: 4 << 10, bytes: SIZE / 2 }),
];

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    fio::find()?;
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let nbdkit = Nbdkit::start(&scratch.0, SIZE)?;
    let ours = Ours::start(&scratch.0, SIZE)?;
    let mut rates: [[Vec<f64>; 2]; 4] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, unit, load), rates) in LOADS.iter().zip(&mut rates) {
            let unit_bytes = if *unit == "bytes/s" { 1 } else { load.block_bytes };
            for (socket, rates) in [&ours.socket, &nbdkit.socket].into_iter().zip(rates) {
                rates.push(load.run(socket, SIZE, &scratch.0)? / unit_bytes as f64);
            }
        }
    }
    ours.stop();
    drop(nbdkit);
    let figures = LOADS.iter().zip(rates).map(|((id, unit, _), [ours, theirs])| Figure {
        id,
        unit,
        value: median(ours),
        limit: median(theirs),
    });
    let mut figures: Vec<_> = figures.collect();
    figures.extend(recovery::run()?);
    Ok(figures)
}
