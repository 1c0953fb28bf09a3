//! Recorded commands on a modelled drive, and the same load through the project's own engine there.
//!
//! A recorded command is given to the drive when no more commands are under way than when it was recorded: so a command
//! that waited for another waits here, too, without a guess as to which one. Commands that change a sequential zone
//! follow each other, as any kernel has it for disks. Between commands no time passes: the file system's own computing
//! is free.
//!
//! # Invariants
//! - LAB-PLAY-1: commands are given in the order in which they were recorded, and each zone's are executed in it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_runtime::{Instant, Runtime};
use shingle_sim::SimDevice;
use shingle_zoned::{DeviceResult, ZoneOp, ZonedDevice};
use tokio::sync::Notify;

use super::recording::{Action, Command, Line, Trace};
use crate::error::LabError;
use crate::load::lanes::{self, Moment};
use crate::load::script::Streams;
use crate::rig::engine::{EngineTarget, Setup};
use crate::rig::host::{Host, HostDevice};

/// Blocks of zeros to write from.
const ZEROS: u64 = 256;

/// Bytes between two marks.
const MARK_BYTES: u64 = 32 << 20;

/// Progress of a run at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    /// Since the load began.
    pub at: Duration,
    /// Bytes of the load that were acknowledged.
    pub appended: u64,
    /// Bytes written to the drive.
    pub written: u64,
    /// Zones reset.
    pub resets: u64,
}

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Moments, the beginning first.
    pub marks: Vec<Mark>,
    /// When deletion began.
    pub full: Mark,
    /// Reads that were left out, since their blocks were never written: a fresh file system looks at some.
    pub reads_left_out: u64,
    /// Times that the load was told that no space is left.
    pub no_space: u64,
    /// The load came to its end.
    pub complete: bool,
}

impl Course {
    /// The start of the steady state: two thirds of the bytes appended after deletion began are there.
    pub fn settled(&self) -> Mark {
        let last = self.last();
        let from = self.full.appended + (last.appended - self.full.appended) * 2 / 3;
        self.marks.iter().copied().find(|mark| mark.appended >= from).unwrap_or(last)
    }

    fn last(&self) -> Mark {
        self.marks.last().copied().unwrap_or_default()
    }

    /// Bytes a second until deletion began.
    pub fn fill_bytes_s(&self) -> f64 {
        self.full.appended as f64 / self.full.at.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Bytes a second in steady state.
    pub fn settled_bytes_s(&self) -> f64 {
        let (from, to) = (self.settled(), self.last());
        (to.appended - from.appended) as f64 / (to.at - from.at).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The share of the throughput that deletion costs.
    pub fn loss(&self) -> f64 {
        1.0 - self.settled_bytes_s() / self.fill_bytes_s()
    }

    /// Bytes written to the drive for each byte of the load while it was filled, and in steady state.
    pub fn write_amplification(&self) -> (f64, f64) {
        let over =
            |from: Mark, to: Mark| (to.written - from.written) as f64 / ((to.appended - from.appended) as f64).max(1.0);
        (over(Mark::default(), self.full), over(self.settled(), self.last()))
    }

    /// Zones reset for each zone's worth of the load, since deletion began.
    pub fn resets_per_zone(&self, zone_bytes: u64) -> f64 {
        let last = self.last();
        let zones = (last.appended - self.full.appended) as f64 / zone_bytes as f64;
        (last.resets - self.full.resets) as f64 / zones.max(f64::MIN_POSITIVE)
    }

    /// Bytes appended since deletion began.
    pub fn churned(&self) -> u64 {
        self.last().appended - self.full.appended
    }

    /// Refuses a recording without a fill, or one that ended with it.
    fn checked(self) -> Result<Self, LabError> {
        if self.full.at.is_zero() || self.complete && self.settled().at >= self.last().at {
            return Err(LabError("the run has no fill, or nothing after it".to_owned()));
        }
        Ok(self)
    }
}

/// Notes moments of a run.
struct Recorder {
    rt: Runtime,
    device: Rc<SimDevice>,
    began: Cell<Option<(Instant, Mark)>>,
    course: RefCell<Course>,
}

impl Recorder {
    fn new(rt: &Runtime, device: &Rc<SimDevice>) -> Self {
        Self { rt: rt.clone(), device: device.clone(), began: Cell::new(None), course: RefCell::default() }
    }

    /// `appended` bytes are acknowledged; the first time is the beginning.
    fn mark(&self, appended: u64) -> Mark {
        let counts = self.device.counts();
        let now = self.rt.now();
        let (began, zero) = self.began.get().unwrap_or_else(|| {
            let zero = Mark { written: counts.writes.1, resets: counts.resets, ..Mark::default() };
            self.began.set(Some((now, zero)));
            (now, zero)
        });
        let mark = Mark {
            at: now.since(began),
            appended,
            written: Blocks(counts.writes.1 - zero.written).bytes(),
            resets: counts.resets - zero.resets,
        };
        self.course.borrow_mut().marks.push(mark);
        mark
    }
}

/// Plays a recording on a drive of its shape, each command when no more are under way than in the recording, or than
/// `at_least`, whichever is more. `progress` gets the share of it that is done.
///
/// # Errors
/// The recording breaks the rules of zones, or is incomplete.
pub async fn play(
    rt: &Runtime,
    device: Rc<SimDevice>,
    trace: &Trace,
    at_least: u32,
    mut progress: impl FnMut(f64),
) -> Result<Course, LabError> {
    let recorder = Recorder::new(rt, &device);
    let player = Rc::new(Player {
        device,
        zeros: AlignedBuf::zeroed(Blocks(ZEROS)).freeze(),
        outstanding: Cell::new(0),
        completed: Notify::new(),
        failed: RefCell::default(),
    });
    let geometry = player.device.geometry().clone();
    let mut zones: BTreeMap<ZoneId, Tail> = BTreeMap::new();
    let mut appended = 0;
    for (number, line) in trace.lines.iter().enumerate() {
        let command = match *line {
            Line::Appended(bytes) => {
                appended = bytes;
                recorder.mark(bytes);
                progress(number as f64 / trace.lines.len() as f64);
                continue;
            }
            Line::Full => {
                let full = recorder.mark(appended);
                recorder.course.borrow_mut().full = full;
                continue;
            }
            Line::NoSpace => {
                recorder.course.borrow_mut().no_space += 1;
                continue;
            }
            Line::End => {
                recorder.course.borrow_mut().complete = true;
                continue;
            }
            Line::Command(command) => command,
        };
        while player.outstanding.get() > command.outstanding.max(at_least) {
            player.completed.notified().await;
        }
        if let Some(failed) = player.failed.borrow_mut().take() {
            return Err(failed);
        }
        let zone = geometry.zone_of(Lba(command.at)).unwrap_or_default();
        let sequential = !geometry.is_conventional(zone);
        let tail = zones.entry(zone).or_default();
        if sequential && !tail.takes(&command, geometry.start_of(zone).0) {
            recorder.course.borrow_mut().reads_left_out += 1;
            continue;
        }
        let before = if sequential { tail.follow(command.action) } else { Order::default() };
        player.outstanding.set(player.outstanding.get() + 1);
        rt.spawn_detached(player.clone().execute(zone, command, before));
    }
    while player.outstanding.get() > 0 {
        player.completed.notified().await;
    }
    if let Some(failed) = player.failed.borrow_mut().take() {
        return Err(failed);
    }
    recorder.course.take().checked()
}

/// Commands under way in a sequential zone.
#[derive(Default)]
struct Tail {
    /// Blocks written, once all given commands are executed.
    written: u64,
    /// Told when the last command that changes the zone is executed.
    last: Option<Rc<Notified>>,
    /// Told when the reads since are: no zone is reset under them.
    reads: Vec<Rc<Notified>>,
}

/// Notice that a command is executed.
#[derive(Default)]
struct Notified {
    done: Cell<bool>,
    notify: Notify,
}

/// Commands that a command waits for, and the notice of its execution.
#[derive(Default)]
struct Order {
    after: Vec<Rc<Notified>>,
    tell: Option<Rc<Notified>>,
}

impl Tail {
    /// Notes a command; `false` for a read of unwritten blocks.
    fn takes(&mut self, command: &Command, start: u64) -> bool {
        match command.action {
            Action::Read(blocks) => return command.at - start + u64::from(blocks) <= self.written,
            Action::Append(blocks) => self.written += u64::from(blocks),
            Action::Zone(ZoneOp::Reset) => self.written = 0,
            _ => {}
        }
        true
    }

    fn follow(&mut self, action: Action) -> Order {
        let tell = Rc::new(Notified::default());
        let mut after = Vec::from_iter(self.last.clone());
        if let Action::Read(_) = action {
            self.reads.retain(|read| !read.done.get());
            self.reads.push(tell.clone());
        } else {
            after.append(&mut self.reads);
            self.last = Some(tell.clone());
        }
        Order { after, tell: Some(tell) }
    }
}

struct Player {
    device: Rc<SimDevice>,
    zeros: Bytes,
    outstanding: Cell<u32>,
    completed: Notify,
    failed: RefCell<Option<LabError>>,
}

impl Player {
    async fn execute(self: Rc<Self>, zone: ZoneId, command: Command, turn: Order) {
        for after in turn.after {
            while !after.done.get() {
                after.notify.notified().await;
            }
            // Others may wait for the same one.
            after.notify.notify_one();
        }
        if let Err(error) = self.give(zone, command).await {
            let what = format!("{command:?} failed: {error}; is this the recording of a zoned drive?");
            self.failed.borrow_mut().get_or_insert(LabError(what));
        }
        if let Some(tell) = turn.tell {
            tell.done.set(true);
            tell.notify.notify_one();
        }
        self.outstanding.set(self.outstanding.get() - 1);
        self.completed.notify_one();
    }

    async fn give(&self, zone: ZoneId, Command { action, at, .. }: Command) -> DeviceResult<()> {
        match action {
            Action::Write(blocks) => self.device.write(Lba(at), self.data(blocks)).await,
            Action::Append(blocks) => self.device.append(zone, self.data(blocks)).await.map(drop),
            Action::Read(blocks) => self.device.read(Lba(at), Blocks(u64::from(blocks))).await.map(drop),
            Action::Zone(op) => self.device.manage(zone, op).await,
            Action::Flush => self.device.flush().await,
        }
    }

    fn data(&self, blocks: u32) -> Vec<Bytes> {
        let mut left = u64::from(blocks);
        let mut pieces = Vec::new();
        while left > 0 {
            let part = left.min(ZEROS);
            pieces.push(self.zeros.slice(..Blocks(part).bytes() as usize));
            left -= part;
        }
        pieces
    }
}

/// Runs the load itself through the chunk store, each lane's next step when its last one is acknowledged.
///
/// # Errors
/// The first call that failed.
pub async fn engine(
    rt: &Runtime,
    device: Rc<SimDevice>,
    streams: &Streams,
    seed: u64,
    progress: impl Fn(f64) + 'static,
) -> Result<Course, LabError> {
    let host = HostDevice::new(Host::linux_6_10(), device.clone());
    let target = Rc::new(EngineTarget::format(rt, host, Setup::Ours.options()).await?);
    let recorder = Rc::new(Recorder::new(rt, &device));
    recorder.mark(0);
    let all = (streams.full + streams.churn) as f64;
    let heard = recorder.clone();
    let tell = move |moment| match moment {
        Moment::Appended(bytes) => {
            heard.mark(bytes);
            progress(bytes as f64 / all);
        }
        Moment::Full(bytes) => {
            let full = heard.mark(bytes);
            heard.course.borrow_mut().full = full;
        }
    };
    lanes::run(rt, target, streams, seed, MARK_BYTES, Rc::new(tell)).await?;
    recorder.course.borrow_mut().complete = true;
    recorder.course.take().checked()
}

#[cfg(test)]
mod tests {
    use shingle_sim::Sim;

    use super::*;
    use crate::rig::drives::LabDrive;

    fn command(action: Action, at: u64, outstanding: u32) -> Line {
        Line::Command(Command { action, at, outstanding })
    }

    fn course(lines: Vec<Line>) -> Result<Course, LabError> {
        let drive = LabDrive::new("st20000nm001j")?.every(800);
        let geometry = drive.geometry();
        let trace = Trace {
            name: "some".to_owned(),
            zone_blocks: geometry.zone_size.0,
            zones: geometry.zone_count,
            conventional: geometry.conventional_zones,
            lines,
        };
        Sim::new(1).run(move |rt| async move {
            let device = drive.device(&rt, drive.blank());
            play(&rt, device, &trace, 0, |_| {}).await
        })
    }

    /// LAB-PLAY-1: commands of a zone come in order, with any others under way; flushes end; unwritten blocks are not read.
    #[test]
    fn commands_of_a_zone_follow_each_other() {
        let zone = 65_536 * 2;
        let mut lines = vec![Line::Appended(0)];
        for round in 1..=20 {
            let queued = [Action::Append(256), Action::Append(1), Action::Flush, Action::Read(257), Action::Read(258)];
            lines.extend(queued.map(|action| command(action, zone, 30)));
            lines.push(command(Action::Zone(ZoneOp::Reset), zone, 30));
            lines.push(Line::Appended(round << 20));
            if round == 10 {
                lines.push(Line::Full);
            }
        }
        lines.push(Line::End);
        let course = course(lines).unwrap();
        assert_eq!(course.reads_left_out, 20);
        let last = course.last();
        assert!(last.written > 0 && last.resets > 0 && course.fill_bytes_s() > 0.0, "{course:?}");
    }

    #[test]
    fn one_command_at_a_time_is_slower_than_many() {
        let lines = |outstanding| {
            let mut lines = vec![Line::Appended(0), Line::Full];
            let reads = (0..200).map(|read| command(Action::Read(1), read * 7_919 % 60_000, outstanding));
            lines.extend(reads);
            lines.push(Line::Appended(1 << 20));
            lines
        };
        let seconds = |outstanding| {
            let mut lines = lines(outstanding);
            // The beginning is a moment after the start, so that there is a fill.
            lines.insert(1, command(Action::Write(1), 0, 0));
            lines.insert(2, command(Action::Read(1), 0, 0));
            course(lines).unwrap().last().at
        };
        assert!(seconds(0) * 2 > seconds(31) * 3, "{:?} and {:?}", seconds(0), seconds(31));
    }
}
