//! Lanes, by a small engine: it writes numbered pieces raw, goes on in another zone where one fails, and knows the place of each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zone_kit::{Command, Lane, Reset, Writer, ZoneCommands, ZoneTable, write_lane};
use shingle_zoned::{DeviceError, Geometry, MemoryDevice, ZonedDevice};

const ZONES: u32 = 96;
const ZONE_BLOCKS: u32 = 32;
const LANES: usize = 3;
const COMMAND_BLOCKS: u32 = 8;

/// So many blocks, all of them filled with a number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: u8,
    blocks: u32,
}

type Placed = (Piece, ZoneId, u32);

struct Raw {
    rt: Runtime,
    commands: ZoneCommands,
    table: RefCell<ZoneTable<()>>,
    lanes: RefCell<Vec<Lane<Piece, ()>>>,
    /// Pieces that are written, by lane, in the order in which they landed.
    landed: RefCell<[Vec<Placed>; LANES]>,
    under_way: [Cell<bool>; LANES],
    stopped: Cell<bool>,
}

impl Raw {
    fn new(rt: &Runtime, device: &SimDevice) -> Rc<Self> {
        let mut table = ZoneTable::new(&(0..ZONES));
        (0..ZONES).for_each(|zone| table.add_free(ZoneId(zone), false));
        Rc::new(Self {
            rt: rt.clone(),
            commands: ZoneCommands::new(rt, Rc::new(device.clone())),
            table: RefCell::new(table),
            lanes: RefCell::new(std::iter::repeat_with(Lane::default).take(LANES).collect()),
            landed: RefCell::default(),
            under_way: Default::default(),
            stopped: Cell::new(false),
        })
    }

    fn send(self: &Rc<Self>, lane: usize, piece: Piece) {
        if self.lanes.borrow_mut()[lane].push([piece]) {
            self.rt.spawn_detached(write_lane(self.clone(), lane));
        }
    }

    async fn settle(&self) {
        while self.lanes.borrow().iter().any(Lane::is_busy) {
            self.rt.sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Writer for Raw {
    type Piece = Piece;
    type Own = ();
    type Draft = (ZoneId, Vec<(Piece, u32)>, u32);
    type Failure = DeviceError;

    fn commands(&self) -> &ZoneCommands {
        &self.commands
    }

    fn lane<R>(&self, lane: usize, step: impl FnOnce(&mut Lane<Piece, ()>) -> R) -> R {
        step(&mut self.lanes.borrow_mut()[lane])
    }

    fn tidy(&self, lane: usize) {
        if self.stopped.get() {
            self.lanes.borrow_mut()[lane].queue.clear();
        }
    }

    async fn ready(self: &Rc<Self>, lane: usize) -> Result<Option<ZoneId>, DeviceError> {
        let zone = self.lanes.borrow()[lane].zone;
        let next = zone.and_then(|zone| Some(self.table.borrow().get(zone)?.next));
        match zone.zip(next) {
            Some((zone, next)) if next + 4 <= ZONE_BLOCKS => return Ok(Some(zone)),
            Some((zone, _)) => self.leave(lane, zone).await?,
            None => {
                let zone = self.table.borrow_mut().take_free().expect("a free zone");
                self.table.borrow_mut().open(zone, lane as u8, 1 + u64::from(zone.0));
                self.lanes.borrow_mut()[lane].zone = Some(zone);
            }
        }
        Ok(None)
    }

    fn draft(&self, lane: usize, zone: ZoneId) -> Option<Command<Self::Draft>> {
        assert!(!self.under_way[lane].replace(true), "ZK-LANE-3");
        let queue = &mut self.lanes.borrow_mut()[lane].queue;
        let from = self.table.borrow().get(zone)?.next;
        let (mut end, mut pieces, mut data) = (from, Vec::new(), Vec::<Bytes>::new());
        while let Some(piece) = queue.pop_front_if(|piece| end + piece.blocks <= ZONE_BLOCKS.min(from + COMMAND_BLOCKS))
        {
            let mut block = AlignedBuf::zeroed(Blocks(u64::from(piece.blocks)));
            block.fill(piece.number);
            data.push(block.freeze());
            pieces.push((piece, end));
            end += piece.blocks;
        }
        Some(Command { zone, from, data, draft: (zone, pieces, end) })
    }

    async fn landed(self: &Rc<Self>, lane: usize, (zone, pieces, end): Self::Draft) -> Result<(), DeviceError> {
        self.under_way[lane].set(false);
        self.table.borrow_mut().advance(zone, end, true);
        let placed = pieces.into_iter().map(|(piece, block)| (piece, zone, block));
        self.landed.borrow_mut()[lane].extend(placed);
        Ok(())
    }

    fn undo(&self, lane: usize, (_, pieces, _): Self::Draft) -> Vec<Piece> {
        self.under_way[lane].set(false);
        pieces.into_iter().map(|(piece, _)| piece).collect()
    }

    fn note_failure(&self, zone: ZoneId, broken: bool, counts: bool) -> u32 {
        self.table.borrow_mut().note_failure(zone, broken, counts)
    }

    async fn leave(self: &Rc<Self>, lane: usize, zone: ZoneId) -> Result<(), DeviceError> {
        self.table.borrow_mut().close(zone);
        self.lanes.borrow_mut()[lane].zone = None;
        self.commands.release(zone, || true).await;
        Ok(())
    }

    fn stop(&self, gone: DeviceError) -> DeviceError {
        self.stopped.set(true);
        gone
    }

    fn gave_up(self: &Rc<Self>, _: usize, _: DeviceError) -> bool {
        true
    }

    fn idle(self: &Rc<Self>, _: usize) {}
}

fn device(rt: &Runtime) -> SimDevice {
    SimDevice::new(rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(u64::from(ZONE_BLOCKS)), ZONES, 0, 8)))
}

/// ZK-LANE-1, ZK-LANE-2, ZK-LANE-3, ZK-CMD-1: every piece lands once, in the order of its lane, and is where the engine thinks it is.
#[test]
fn pieces_land_in_order_whatever_fails() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let device = device(&rt);
            let (write, rate) = (CommandKind::Write, |fault, rate| (fault, rate));
            let kinds = [
                rate(Fault::WriteError, 0.1),
                rate(Fault::CommandError, 0.1),
                rate(Fault::HostFull, 0.05),
                rate(Fault::HostFullInside, 0.02),
                rate(Fault::ZoneReadOnly, 0.02),
            ];
            let rule = |(fault, rate)| FaultRule { trigger: Trigger::Rate(write, rate), fault };
            device.set_faults(Faults::new(kinds.map(rule)));
            let raw = Raw::new(&rt, &device);
            let mut sent: [Vec<u8>; LANES] = Default::default();
            for number in 1..=120_u8 {
                let lane = (rt.random() % LANES as u64) as usize;
                sent[lane].push(number);
                raw.send(lane, Piece { number, blocks: 1 + (rt.random() % 4) as u32 });
                if rt.random().is_multiple_of(3) {
                    rt.sleep(Duration::from_micros(rt.random() % 2_000)).await;
                }
            }
            raw.settle().await;
            let landed = raw.landed.take();
            let image = device.image();
            for (lane, landed) in landed.iter().enumerate() {
                let numbers: Vec<u8> = landed.iter().map(|(piece, ..)| piece.number).collect();
                assert_eq!(numbers, sent[lane], "seed {seed}: lane {lane}");
                for (piece, zone, block) in landed {
                    let at = image.geometry().start_of(*zone) + Blocks(u64::from(*block));
                    let found = image.read_now(at, Blocks(u64::from(piece.blocks)));
                    let held = found.is_ok_and(|bytes| bytes.iter().all(|byte| *byte == piece.number));
                    assert!(held, "seed {seed}: {piece:?} is not at block {block} of {zone}");
                }
            }
            assert!(device.counts().writes.0 < 200, "seed {seed}: pieces that come together share commands");
        });
    }
}

/// ZK-LANE-3: what comes while a command is under way goes out with the next.
#[test]
fn pieces_join_the_next_command() {
    Sim::new(1).run(|rt| async move {
        let device = device(&rt);
        let raw = Raw::new(&rt, &device);
        raw.send(0, Piece { number: 1, blocks: 1 });
        rt.yield_now().await;
        (2..=9).for_each(|number| raw.send(0, Piece { number, blocks: 1 }));
        raw.settle().await;
        assert_eq!((device.counts().writes.0, raw.landed.borrow()[0].len()), (2, 9));
    });
}

/// A write that never succeeds in a zone leaves it; one that the host has no room for does not, for as long as that takes (ZK-CMD-2).
#[test]
fn a_full_host_costs_no_zone() {
    for (fault, left) in [(Fault::CommandError, true), (Fault::HostFull, false)] {
        Sim::new(1).run(move |rt| async move {
            let device = device(&rt);
            let rule = FaultRule { trigger: Trigger::Zone(CommandKind::Write, ZoneId(0)), fault };
            device.set_faults(Faults::new([rule]));
            let raw = Raw::new(&rt, &device);
            raw.send(0, Piece { number: 1, blocks: 1 });
            rt.sleep(Duration::from_secs(60)).await;
            let zone = raw.lanes.borrow()[0].zone;
            assert_eq!(zone, Some(ZoneId(u32::from(left))), "{fault:?}");
            if !left {
                assert!(raw.lanes.borrow()[0].is_busy());
                device.set_faults(Faults::default());
            }
            raw.settle().await;
            assert_eq!(raw.landed.borrow()[0].len(), 1);
        });
    }
}

/// ZK-CMD-1: no second write of which a part landed is tried in its place, where it cannot succeed.
#[test]
fn a_write_that_landed_in_part_goes_elsewhere_at_once() {
    let mut seen = [false; 2];
    for seed in seeds(20) {
        let elsewhere = Sim::new(seed).run(move |rt| async move {
            let device = device(&rt);
            let rule = FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault: Fault::WriteError };
            device.set_faults(Faults::new([rule]));
            let raw = Raw::new(&rt, &device);
            raw.send(0, Piece { number: 1, blocks: 4 });
            raw.settle().await;
            let [(_, zone, block)] = raw.landed.borrow()[0][..] else { panic!("seed {seed}: one piece") };
            assert_eq!((device.counts().writes.0, block), (2, 0), "seed {seed}");
            zone != ZoneId(0)
        });
        seen[usize::from(elsewhere)] = true;
    }
    assert_eq!(seen, [true; 2], "parts of all lengths landed");
}

/// The engine's end ends the wait for a full host (ZK-CMD-2), and a drive that is gone ends everything.
#[test]
fn nothing_waits_for_ever_at_the_end() {
    Sim::new(1).run(|rt| async move {
        let device = device(&rt);
        let reset = |fault| FaultRule { trigger: Trigger::Zone(CommandKind::Reset, ZoneId(3)), fault };
        device.set_faults(Faults::new([reset(Fault::HostFull)]));
        let raw = Raw::new(&rt, &device);
        let resetting = rt.spawn({
            let raw = raw.clone();
            async move { raw.commands.reset(ZoneId(3)).await }
        });
        rt.sleep(Duration::from_secs(30)).await;
        raw.commands.end();
        assert_ne!(resetting.await.unwrap().unwrap(), Reset::Done);
        device.set_faults(Faults::new([reset(Fault::CommandError)]));
        assert_ne!(raw.commands.reset(ZoneId(3)).await.unwrap(), Reset::Done);
        device.set_faults(Faults::default());
        assert_eq!(raw.commands.reset(ZoneId(3)).await.unwrap(), Reset::Done);
        (1..=20).for_each(|number| raw.send(0, Piece { number, blocks: 1 }));
        device.power_off_at(0);
        raw.settle().await;
        assert!(raw.stopped.get() && raw.landed.borrow()[0].is_empty());
        assert!(raw.commands.reset(ZoneId(4)).await.is_err());
    });
}
