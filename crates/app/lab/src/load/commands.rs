//! Plain commands on a modelled drive, with no store above it: measures the simulator itself, whose speed decides the
//! time of an experiment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_base::{AlignedBuf, Blocks, ZoneId};
use shingle_drive_model::{Command, Drive, Op};
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{Geometry, ZoneOp, ZonedDevice};

use crate::error::LabError;
use crate::rig::drives::LabDrive;

/// Kind of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// Writes of 512 KiB, one behind the other, through zone after zone.
    SequentialWrites,
    /// Reads of 4 KiB anywhere on the drive.
    RandomReads,
    /// Either, with equal chances.
    Mix,
}

impl Commands {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SequentialWrites, Self::RandomReads, Self::Mix];
}

/// Commands outstanding.
const DEPTH: u64 = 32;

/// Blocks of a write.
const WRITE: u64 = 128;

/// A load on the shingled drive of the papers: chooses the next command.
struct Load {
    commands: Commands,
    random: Random,
    /// The drive's first half of sequential zones is for writes, everything behind it for reads.
    written: Blocks,
    first_write: Blocks,
    first_read: Blocks,
    end: Blocks,
}

impl Load {
    fn new(commands: Commands, geometry: &Geometry, seed: u64) -> Self {
        let zones = |zone: u32| Blocks(geometry.zone_size.0 * u64::from(zone));
        Self {
            commands,
            random: Random::new(seed),
            written: Blocks::ZERO,
            first_write: zones(geometry.conventional_zones),
            first_read: zones(first_read_zone(geometry)),
            end: geometry.blocks(),
        }
    }

    fn next(&mut self) -> Command {
        let writes = match self.commands {
            Commands::SequentialWrites => true,
            Commands::RandomReads => false,
            Commands::Mix => self.random.below(2) == 0,
        };
        if writes {
            let at = (self.first_write + self.written).0;
            self.written += Blocks(WRITE);
            return Command { op: Op::Write, at, blocks: WRITE, opens: false };
        }
        let at = self.first_read.0 + self.random.below(self.end.0 - self.first_read.0);
        Command { op: Op::Read, at, blocks: 1, opens: false }
    }
}

/// First zone with readable blocks.
fn first_read_zone(geometry: &Geometry) -> u32 {
    geometry.conventional_zones + (geometry.zone_count - geometry.conventional_zones) / 2
}

/// Prepared commands: the measured part begins with [`Ready::run`].
pub struct Ready {
    drive: LabDrive,
    commands: Commands,
    count: u64,
    seed: u64,
}

impl Ready {
    /// `count` commands.
    ///
    /// # Errors
    /// None, as long as the built-in profile exists.
    pub fn new(commands: Commands, count: u64, seed: u64) -> Result<Self, LabError> {
        Ok(Self { drive: LabDrive::new("st20000nm001j")?, commands, count, seed })
    }

    /// Sends the commands through device, medium and model in virtual time, and returns its nanoseconds.
    ///
    /// `begun` is called when all is prepared.
    ///
    /// # Errors
    /// A command failed.
    pub fn run(&self, begun: impl FnOnce() + 'static) -> Result<u64, LabError> {
        let (drive, commands, count, seed) = (self.drive.clone(), self.commands, self.count, self.seed);
        Sim::new(seed).run(move |rt| async move {
            let medium = drive.blank();
            let geometry = medium.geometry().clone();
            for zone in first_read_zone(&geometry)..geometry.zone_count {
                medium.manage(ZoneId(zone), ZoneOp::Finish).await.map_err(|error| LabError(error.to_string()))?;
            }
            let device = drive.device(&rt, medium);
            let load = Rc::new(RefCell::new(Load::new(commands, &geometry, seed)));
            let left = Rc::new(Cell::new(count));
            begun();
            let workers: Vec<_> =
                (0..DEPTH).map(|_| rt.spawn(worker(device.clone(), load.clone(), left.clone()))).collect();
            for worker in workers {
                worker.await.map_err(|error| LabError(error.to_string()))??;
            }
            Ok(rt.now().nanos)
        })
    }

    /// Gives the same number of commands to the model alone, as long as `begun` lets it, and returns the nanoseconds that
    /// the modelled drive took.
    pub fn run_model(&self, begun: impl FnOnce()) -> u64 {
        let mut load = Load::new(self.commands, &self.drive.geometry(), self.seed);
        let mut drive = Drive::new(&self.drive.profile, 1);
        let (mut now, mut begun_count, mut done) = (0, 0, Vec::new());
        begun();
        while begun_count < DEPTH.min(self.count) {
            drive.submit(now, begun_count, load.next());
            begun_count += 1;
        }
        while let Some(event) = drive.next_event() {
            now = event;
            drive.advance(now, &mut done);
            for id in done.drain(..) {
                if begun_count < self.count {
                    drive.submit(now, id, load.next());
                    begun_count += 1;
                }
            }
        }
        now
    }
}

/// Keeps one command outstanding.
async fn worker(device: Rc<SimDevice>, load: Rc<RefCell<Load>>, left: Rc<Cell<u64>>) -> Result<(), LabError> {
    let zeros = AlignedBuf::zeroed(Blocks(WRITE)).freeze();
    while left.get() > 0 {
        left.set(left.get() - 1);
        let Command { op, at, blocks, .. } = load.borrow_mut().next();
        let (at, blocks) = (shingle_base::Lba(at), Blocks(blocks));
        let done = match op {
            Op::Write => device.write(at, vec![zeros.clone()]).await,
            _ => device.read(at, blocks).await.map(drop),
        };
        done.map_err(|error| LabError(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device adds no time to the model's: only the opening of a zone by its first write.
    #[test]
    fn commands_take_the_models_time() {
        let ready = |commands| Ready::new(commands, 3000, 1).unwrap();
        for commands in Commands::ALL {
            assert_eq!(ready(commands).run(|| {}).unwrap(), ready(commands).run(|| {}).unwrap());
        }
        let reads = ready(Commands::RandomReads);
        let (through, alone) = (reads.run(|| {}).unwrap() as f64, reads.run_model(|| {}) as f64);
        assert!((through / alone - 1.0).abs() < 0.05, "{through} and {alone} ns");
    }
}
