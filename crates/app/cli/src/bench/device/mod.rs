//! The device layer beside fio: sequential writes of 1 MiB and random reads of 4 KiB, on an emulated drive in a file, or on
//! a drive that is named. Both sides do the same commands, and each round measures both, one behind the other.

pub(super) mod fio;

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use clap::Args;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ByteSize, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{CreateOptions, FileDevice, Geometry, GeometrySpec, ZoneInfo, ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::{ZonedModel, describe, is_node};

use self::fio::Job;
use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::confirm::confirm;
use crate::failure::{Failure, Outcome};
use crate::scratch::Scratch;
use crate::{device, output};

const MIB: u64 = 1 << 20;
/// Writers side by side, each in zones of its own: one write at a time goes to a zone.
const WRITERS: u64 = 4;
/// Bytes that each of them writes in a round, in whole zones.
const WRITER_BYTES: u64 = 64 * MIB;
/// Writes between two flushes. As with fio, none follows the last.
const FLUSH_EVERY: u64 = 16;
/// Reads outstanding.
const READERS: u64 = 32;
/// Reads in a round.
const READS: u64 = 16_384;
const ROUNDS: usize = 5;

/// Place of the measurement.
#[derive(Args)]
pub(crate) struct Where {
    /// For `device`: a zoned block device, of which adjacent empty zones are used, at least four [default: a file in
    /// --dir].
    #[arg(long, value_name = "DRIVE")]
    device: Option<PathBuf>,
    /// For `device` without a node, and `rocksdb`: the directory of the measured files [default: the one for temporary files].
    #[arg(long, value_name = "DIR", conflicts_with = "device")]
    dir: Option<PathBuf>,
    /// For `device`: do not ask.
    #[arg(long)]
    yes: bool,
}

impl Where {
    pub(crate) fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }
}

/// Files or drives to measure, on either side.
struct Bed {
    /// The drive for us, and the file or drive for fio.
    ours: PathBuf,
    fios: PathBuf,
    zoned: bool,
    /// The first zone used, and the zones of each writer.
    first: u32,
    each: u32,
    zone_bytes: u64,
    /// Writable bytes of a zone.
    capacity_bytes: u64,
}

pub(crate) fn run(place: &Where) -> Outcome<Vec<Figure>> {
    match &place.device {
        Some(node) => {
            let bed = bed_of_node(node)?;
            fio::find()?;
            let (first, last) = (bed.first, bed.first + bed.each * WRITERS as u32 - 1);
            let what = format!(
                "{}: zones {first} to {last}, which are empty, will be written and reset. Let nothing else use the drive meanwhile.",
                node.display()
            );
            confirm(place.yes, &what)?;
            still_empty(&bed)?;
            let figures = measure(&bed);
            reset(&bed)?;
            figures
        }
        None => {
            fio::find()?;
            let folder = place.dir.clone().unwrap_or_else(std::env::temp_dir);
            let scratch = Scratch::new(&folder)?;
            measure(&bed_of_files(&scratch.0)?)
        }
    }
}

fn bed_of_files(folder: &Path) -> Outcome<Bed> {
    let (ours, fios) = (folder.join("drive.shingle"), folder.join("fio"));
    let spec = GeometrySpec {
        zone_size: ByteSize(WRITER_BYTES),
        conventional_zones: 0,
        ..GeometrySpec::hm_smr(ByteSize(16 * WRITER_BYTES))
    };
    FileDevice::create(&ours, &spec.build()?, CreateOptions::default())?;
    Ok(Bed { ours, fios, zoned: false, first: 0, each: 1, zone_bytes: WRITER_BYTES, capacity_bytes: WRITER_BYTES })
}

/// Adjacent empty zones, so that no data is lost.
fn bed_of_node(name: &Path) -> Outcome<Bed> {
    shingle_runtime::real::run(|rt| async move {
        let node = device::find(name, &rt).await?;
        // fio would write to the file or ordinary drive itself, and not to its emulated zones.
        if is_node(&node) && describe(&node)?.zoned == ZonedModel::None || node.is_file() {
            let name = name.display();
            return Err(Failure::new(format!(
                "{name}: this is no zoned block device; without --device an emulated drive in a file of its own is measured \
                 (--dir says where)"
            )));
        }
        let device = device::open(&node, &rt).await?;
        let geometry: Geometry = device.geometry().clone();
        let capacity_bytes = geometry.zone_capacity.bytes() / MIB * MIB;
        if capacity_bytes == 0 {
            return Err(Failure::new("a zone of this drive has no room for 1 MiB"));
        }
        let zones = device.report(ZoneId(0), geometry.zone_count).await?;
        let (first, length) = longest_empty_run(&zones);
        let wanted = WRITER_BYTES.div_ceil(capacity_bytes) as u32;
        let each = wanted.min(length / WRITERS as u32);
        if each == 0 {
            return Err(Failure::new(no_room(name, first, length)));
        }
        if each < wanted {
            note!(
                "only {length} zones beside each other are empty (from zone {first}): each round writes {} instead of {}",
                ByteSize(u64::from(each) * WRITERS * capacity_bytes),
                ByteSize(u64::from(wanted) * WRITERS * capacity_bytes),
            );
        }
        let zone_bytes = geometry.zone_size.bytes();
        Ok(Bed { ours: node.clone(), fios: node, zoned: true, first, each, zone_bytes, capacity_bytes })
    })?
}

/// The longest run of empty zones, the first of several: its start and length.
fn longest_empty_run(zones: &[ZoneInfo]) -> (u32, u32) {
    let runs = zones.chunk_by(|one, next| (one.state == ZoneState::Empty) == (next.state == ZoneState::Empty));
    let empty = runs.filter(|run| run.first().is_some_and(|zone| zone.state == ZoneState::Empty));
    let longest = empty.rev().max_by_key(|run| run.len());
    longest.map_or((0, 0), |run| (run.first().map_or(0, |zone| zone.zone.0), run.len() as u32))
}

fn no_room(name: &Path, first: u32, length: u32) -> String {
    let name = name.display();
    let found = match length {
        0 => "none is".to_owned(),
        1 => format!("only zone {first} is"),
        _ => format!("at most {length} are, zones {first} to {}", first + length - 1),
    };
    format!(
        "{name}: {WRITERS} zones beside each other must be empty, one for each writer, and {found}. `shingle drive report \
         {name}` shows which hold what; make room among those that nobody needs (`shingle drive reset {name} FIRST-LAST`)"
    )
}

fn measure(bed: &Bed) -> Outcome<Vec<Figure>> {
    let mut progress = output::Progress::new();
    let (mut writes, mut fio_writes, mut reads, mut fio_reads) = (vec![], vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        progress.show(&format!("round {} of {ROUNDS}", round + 1));
        reset(bed)?;
        fio_writes.push(bed.fio_write().run()?);
        if !bed.zoned {
            forget(&bed.fios)?;
        }
        fio_reads.push(bed.fio_read().run()? / BLOCK_SIZE as f64);
        reset(bed)?;
        let (write, read) = shingle_runtime::real::run(|rt| ours(rt, bed))??;
        writes.push(write);
        reads.push(read);
    }
    Ok(vec![
        Figure { id: "sequential_write_1mib", unit: "bytes/s", value: median(writes), limit: median(fio_writes) },
        Figure { id: "random_read_4kib", unit: "reads/s", value: median(reads), limit: median(fio_reads) },
    ])
}

impl Bed {
    fn writer_bytes(&self) -> u64 {
        self.capacity_bytes * u64::from(self.each)
    }

    fn zones(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (self.first..self.first + self.each * WRITERS as u32).map(ZoneId)
    }

    fn fio_write(&self) -> Job<'_> {
        Job {
            path: &self.fios,
            pattern: "write",
            block_bytes: MIB,
            jobs: WRITERS,
            depth: 1,
            offset_bytes: u64::from(self.first) * self.zone_bytes,
            range_bytes: u64::from(self.each) * self.zone_bytes,
            job_bytes: self.writer_bytes(),
            flush_every: FLUSH_EVERY,
            zoned: self.zoned,
        }
    }

    fn fio_read(&self) -> Job<'_> {
        Job {
            pattern: "randread",
            block_bytes: BLOCK_SIZE as u64,
            jobs: 1,
            depth: READERS,
            range_bytes: u64::from(self.each) * WRITERS * self.zone_bytes,
            job_bytes: READS * BLOCK_SIZE as u64,
            flush_every: 0,
            ..self.fio_write()
        }
    }
}

/// Refuses zones that somebody has written to since they were chosen.
fn still_empty(bed: &Bed) -> Outcome {
    shingle_runtime::real::run(|rt| async move {
        let device = device::open(&bed.ours, &rt).await?;
        let zones = device.report(ZoneId(bed.first), bed.each * WRITERS as u32).await?;
        match zones.iter().find(|zone| zone.state != ZoneState::Empty) {
            Some(zone) => Err(Failure::new(format!("zone {} is empty no more: nothing was done", zone.zone.0))),
            None => Ok(()),
        }
    })?
}

/// Empties the used zones; in files nothing of fio's is left either.
fn reset(bed: &Bed) -> Outcome {
    if !bed.zoned {
        let _ = std::fs::remove_file(&bed.fios);
    }
    shingle_runtime::real::run(|rt| async move {
        let device = device::open(&bed.ours, &rt).await?;
        for zone in bed.zones() {
            device.manage(zone, ZoneOp::Reset).await?;
        }
        device.flush().await?;
        Ok(())
    })?
}

/// Bytes written a second and reads a second, through the device.
async fn ours(rt: Runtime, bed: &Bed) -> Outcome<(f64, f64)> {
    let device = device::open(&bed.ours, &rt).await?;
    let began = limit::now();
    let zones: Vec<ZoneId> = bed.zones().collect();
    let writers: Vec<_> = zones
        .chunks(bed.each as usize)
        .map(|zones| rt.spawn(write(device.clone(), zones.to_vec(), bed.capacity_bytes)))
        .collect();
    for writer in writers {
        writer.await??;
    }
    let write = (bed.writer_bytes() * WRITERS) as f64 / began.elapsed().as_secs_f64();
    device.flush().await?;
    if !bed.zoned {
        forget(&bed.ours)?;
    }
    let next = Rc::new(Cell::new(0x2545_F491_4F6C_DD1Du64));
    let blocks = bed.capacity_bytes / BLOCK_SIZE as u64;
    let began = limit::now();
    let readers: Vec<_> = (0..READERS)
        .map(|_| rt.spawn(read(device.clone(), next.clone(), bed.first, zones.len() as u64, blocks)))
        .collect();
    for reader in readers {
        reader.await??;
    }
    Ok((write, READS as f64 / began.elapsed().as_secs_f64()))
}

async fn write(device: Rc<dyn ZonedDevice>, zones: Vec<ZoneId>, capacity: u64) -> Outcome {
    let mut data = AlignedBuf::zeroed(Blocks(MIB / BLOCK_SIZE as u64));
    data.iter_mut().zip((0..=250u8).cycle()).for_each(|(byte, value)| *byte = value);
    let data: Bytes = data.freeze();
    let mut written = 0;
    for zone in zones {
        let start = device.geometry().start_of(zone);
        for piece in 0..capacity / MIB {
            let at = start + Blocks(piece * MIB / BLOCK_SIZE as u64);
            if written > 0 && written % FLUSH_EVERY == 0 {
                device.flush().await?;
            }
            device.write(at, vec![data.clone()]).await?;
            written += 1;
        }
    }
    Ok(())
}

async fn read(device: Rc<dyn ZonedDevice>, next: Rc<Cell<u64>>, first: u32, zones: u64, blocks: u64) -> Outcome {
    for _ in 0..READS / READERS {
        let mut state = next.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        next.set(state);
        let zone = ZoneId(first + (state % zones) as u32);
        let at: Lba = device.geometry().start_of(zone) + Blocks((state >> 16) % blocks);
        std::hint::black_box(device.read(at, Blocks(1)).await?);
    }
    Ok(())
}

/// Lets the page cache forget a file, so that reads are reads.
fn forget(path: &Path) -> Outcome {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(std::io::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_of_empty_zones_is_found() {
        let zones = |text: &str| -> Vec<ZoneInfo> {
            let state = |letter| if letter == '.' { ZoneState::Empty } else { ZoneState::Full };
            let zone = |(number, letter)| ZoneInfo {
                zone: ZoneId(number),
                state: state(letter),
                start: Lba(0),
                capacity: Blocks(1),
                written: Blocks(0),
            };
            (0..).zip(text.chars()).map(zone).collect()
        };
        let cases = [("", (0, 0)), ("##", (0, 0)), ("#.#..#", (3, 2)), ("..#..", (0, 2)), ("#...", (1, 3))];
        for (text, run) in cases {
            assert_eq!(longest_empty_run(&zones(text)), run, "{text}");
        }
        assert!(no_room(Path::new("/dev/x"), 3, 2).contains("at most 2 are, zones 3 to 4"));
    }
}
