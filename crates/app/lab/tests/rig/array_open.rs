//! Opening an array of 60 drives after an unclean stop: time, with the processor's, commands of each drive, and memory.
//!
//! Tests of their own process, since memory and processor time are counted for all of it; one after the other.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;

use shingle_array_store::IndexPlace;
use shingle_lab::rig::opening::{Image, Large, Opening};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Cost of an opening.
#[derive(Debug)]
struct Taken {
    opening: Opening,
    processor_s: f64,
    /// The most that was allocated when a drive got a command, and at the end.
    bytes: usize,
}

/// Processor time of this process so far.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

struct IndexFile(PathBuf);

impl IndexFile {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
    }
}

impl Drop for IndexFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open(large: &Large, image: &Image, dead: &[usize]) -> Taken {
    let index = IndexFile::new("index");
    let region = Region::new(ALLOCATOR);
    let most = Rc::new(Cell::new(0));
    let probe = {
        let most = most.clone();
        Rc::new(move || {
            let change = region.change();
            most.set(most.get().max(change.bytes_allocated.saturating_sub(change.bytes_deallocated)));
        })
    };
    let began = processor_s();
    let opening = large.open_without(image, dead, IndexPlace::File(index.0.clone()), probe).unwrap();
    Taken { opening, processor_s: processor_s() - began, bytes: most.get() }
}

/// Bytes that a set may take in memory, with the few parts that it has here; half of it are seven bases of superblocks, which
/// the modelled drives keep. Of 372,000 sets that is 446 MB.
const BYTES_A_SET: usize = 1200;

/// Opens one array in `every` zones, and holds what each drive was asked for against what it has to be.
fn bounded(every: u32) -> Taken {
    let large = Large::new(every).unwrap().with_few_parts();
    let image = large.image(1).unwrap();
    let taken = open(&large, &image, &[]);
    let opening = &taken.opening;
    println!("{taken:?}");
    assert!(opening.sets > image.sets && opening.report.damage.is_empty(), "{opening:?}");
    assert!(opening.report.objects >= image.laid.covered.0 + image.laid.tail.0 - 1, "{opening:?}");
    // Nothing is looked at that the snapshot covers, and each drive reads its share of the others, and a table of all sets at most.
    assert!(opening.report.sets_examined < image.sets / 10, "{opening:?}");
    let table = opening.sets as u64 * 90 / 4096;
    let share = opening.report.sets_examined as u64 * 4 / 60;
    assert!(opening.commands <= 40 + table / 16 + share, "{} commands of one drive: {opening:?}", opening.commands);
    assert!(opening.blocks <= 400 + 2 * table + share * 8, "{} blocks of one drive: {opening:?}", opening.blocks);
    taken
}

/// AS-GATHER-2: memory follows the number of sets, not that of drives times sets, and no drive reads more than a table or two.
#[test]
fn what_an_opening_takes_follows_the_number_of_sets() {
    let _one = ONE_AT_A_TIME.lock();
    let (small, large) = (bounded(120), bounded(24));
    let more = large.opening.sets - small.opening.sets;
    let each = large.bytes.saturating_sub(small.bytes) / more;
    println!("{each} bytes for each of {more} sets");
    assert!(each <= BYTES_A_SET, "{each} bytes for each of {more} sets");
}

/// The whole array, 60 drives of 20 TB: `make array-open`
#[test]
#[ignore = "a measurement: it takes minutes, and several GB for the drives"]
fn an_array_of_60_drives_of_20_tb_is_opened_in_70_s() {
    let _one = ONE_AT_A_TIME.lock();
    let every = std::env::var("SHINGLE_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(1);
    let large = Large::new(every).unwrap();
    let began = processor_s();
    let image = large.image(1).unwrap();
    println!("laid down in {:.1} s: {:?}", processor_s() - began, image.laid);
    let taken = open(&large, &image, &[]);
    println!("{taken:?}");
    let seconds = taken.opening.drives.as_secs_f64() + taken.processor_s;
    println!("{seconds:.1} s, {:.0} MiB", taken.bytes as f64 / f64::from(1 << 20));
    assert!(taken.opening.report.damage.is_empty());
    assert!(taken.bytes <= 2 << 30 && seconds <= 70.0, "{seconds:.1} s, {} bytes", taken.bytes);
}
