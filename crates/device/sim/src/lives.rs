//! The fate of a drive from one life of a store to the next, drawn from a seed: a life's faults and end, and the wear
//! of the medium in between. Tests of engines run chains of such lives.
//!
//! **Owns** the draw. **Knows nothing of** a store's promises under it, but tells the kind of the faults ([`Harm`]).

use std::ops::Range;
use std::time::Duration;

use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, ZoneState, ZonedDevice};

use crate::command::CommandKind;
use crate::cut::Survival;
use crate::device::SimDevice;
use crate::faults::{Fault, FaultRule, Faults, Trigger};
use crate::medium::Medium;
use crate::seeds::Random;

/// End of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power fails.
    PowerCut(Survival),
    /// The process is killed; the power may fail in a later life, with nothing flushed in between.
    Kill,
}

/// The worst effect of the faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Nothing that a store may notice.
    #[default]
    None,
    /// Reads failed that will succeed later.
    Passing,
    /// Bytes are lost, visibly: blocks that cannot be read, zones that are offline.
    Lasting,
    /// Bytes are wrong, and the drive does not report it: at the end of the written blocks that looks like a torn
    /// write.
    Silent,
}

/// One life: its faults, and its end.
#[derive(Clone, Debug)]
pub struct Life {
    /// Faults of commands, from the first of opening on.
    pub faults: Faults,
    /// The command at which it ends, if it is not over before.
    pub last_command: u64,
    /// Its end.
    pub end: End,
    /// The worst effect of its faults on a store.
    pub harm: Harm,
}

impl Life {
    /// A life on a drive with these zones in which faults may happen; it ends within `commands`.
    pub fn draw(random: &mut Random, data: &Range<u32>, zones: u32, commands: u64) -> Self {
        Self::draw_up_to(Harm::Silent, random, data, zones, commands)
    }

    /// As [`draw`](Self::draw), with faults whose effect is `most` at worst.
    pub fn draw_up_to(most: Harm, random: &mut Random, data: &Range<u32>, zones: u32, commands: u64) -> Self {
        let spared = (0..zones).filter(|zone| !data.contains(zone)).map(ZoneId);
        let mut rules = Vec::new();
        let mut harm = Harm::None;
        // None, one or two kinds at once.
        for _ in 0..[0, 1, 1, 2][random.below(4) as usize] {
            let (rule, of_these) = loop {
                let drawn = rule_of_a_kind(random);
                if drawn.1 <= most {
                    break drawn;
                }
            };
            rules.push(rule);
            harm = harm.max(of_these);
        }
        let end = match random.below(4) {
            0 => End::Kill,
            1 => End::PowerCut(Survival::AnySubset),
            _ => End::PowerCut(Survival::Prefix),
        };
        Self { faults: Faults::new(rules).sparing(spared), last_command: random.below(commands), end, harm }
    }

    /// The drive in this life. Commands that hang complete at last.
    pub fn begin(&self, rt: &Runtime, medium: Medium) -> SimDevice {
        let device = SimDevice::resume(rt, medium);
        device.set_faults(self.faults.clone());
        device.power_off_at(self.last_command);
        let (sleeper, hung) = (rt.clone(), device.clone());
        // For longer than any life takes; not for ever, so that an engine that waits for ever is seen.
        rt.spawn_detached(async move {
            for _ in 0..10_000 {
                sleeper.sleep(HANGS_FOR).await;
                hung.release_hung();
            }
        });
        device
    }

    /// The medium after this life.
    pub fn end(&self, device: &SimDevice, seed: u64) -> Medium {
        match self.end {
            End::Kill => device.kill(),
            End::PowerCut(drawn) => {
                let survival = drawn.on(device.geometry());
                Medium::from(&device.crash_image_with(seed, survival))
            }
        }
    }
}

/// Time that a command hangs.
const HANGS_FOR: Duration = Duration::from_millis(200);

/// A rule for faults of one kind, and their worst effect.
fn rule_of_a_kind(random: &mut Random) -> (FaultRule, Harm) {
    let rate = |kind, share, fault| FaultRule { trigger: Trigger::Rate(kind, share), fault };
    let number = random.below(40);
    let nth = |kind, fault| FaultRule { trigger: Trigger::Nth(kind, number), fault };
    let (write, read) = (CommandKind::Write, CommandKind::Read);
    match random.below(22) {
        0 => (rate(write, 0.03, Fault::WriteError), Harm::None),
        1 => (nth(write, Fault::ZoneReadOnly), Harm::None),
        2 => (rate(CommandKind::Reset, 0.1, Fault::CommandError), Harm::None),
        3 => (rate(CommandKind::Reset, 0.1, Fault::ZoneReadOnly), Harm::None),
        4 => (rate(CommandKind::Manage, 0.05, Fault::CommandError), Harm::None),
        5 => (rate(write, 0.03, Fault::CommandError), Harm::None),
        6 => (rate(write, 0.03, Fault::Hang), Harm::None),
        7 => (rate(read, 0.02, Fault::Hang), Harm::None),
        8 => (rate(read, 0.05, Fault::ReadError), Harm::Passing),
        9 => (rate(CommandKind::Report, 0.1, Fault::ReadError), Harm::Passing),
        10 => (nth(write, Fault::ZoneOffline), Harm::Lasting),
        11 => (nth(read, Fault::ZoneOffline), Harm::Lasting),
        12 => (rate(write, 0.02, Fault::BitFlip), Harm::Silent),
        13 => (nth(write, Fault::TornWrite), Harm::Silent),
        14 => (nth(write, Fault::Misdirected), Harm::Silent),
        15 => (rate(read, 0.02, Fault::BitFlip), Harm::Silent),
        16 => (rate(write, 0.03, Fault::FailedAfterEffect), Harm::None),
        17 => (rate(CommandKind::Reset, 0.1, Fault::FailedAfterEffect), Harm::None),
        18 => (rate(CommandKind::Manage, 0.1, Fault::FailedAfterEffect), Harm::None),
        19 => (
            rate([write, CommandKind::Reset, CommandKind::Manage][random.below(3) as usize], 0.04, Fault::HangBefore),
            Harm::None,
        ),
        20 => (nth(CommandKind::Flush, Fault::FlushLost), Harm::None),
        _ => (nth(write, Fault::ZoneLosesCache), Harm::Lasting),
    }
}

/// A life whose drive cannot read all of any zone while it is opened, and has no faults behind that.
#[derive(Clone, Debug)]
pub struct BlindOpening {
    life: Life,
    /// `None`: nothing is hidden, and nothing fails.
    hidden: Option<Random>,
}

impl BlindOpening {
    /// One that ends within `commands`; the `last` of a chain sees all, and has no end of its own.
    pub fn draw(random: &mut Random, zones: u32, commands: u64, last: bool) -> Self {
        let life = Life::draw_up_to(Harm::None, random, &(0..0), zones, commands);
        let hidden = (!last && random.chance(0.7)).then(|| Random::new(random.number()));
        let last_command = if last { u64::MAX } else { life.last_command };
        Self { life: Life { faults: Faults::default(), last_command, ..life }, hidden }
    }

    /// True if the opening sees all.
    pub fn sees_all(&self) -> bool {
        self.hidden.is_none()
    }

    /// The drive, to be opened.
    pub fn begin(&self, rt: &Runtime, medium: Medium) -> SimDevice {
        medium.heal();
        let mut hidden = self.hidden.clone();
        let faults = hidden.as_mut().map(|random| {
            hide(random, &medium);
            unreliable_reads(random)
        });
        let device = self.life.begin(rt, medium);
        device.set_faults(faults.unwrap_or_default());
        device
    }

    /// From now on the drive reads all.
    pub fn opened(&self, device: &SimDevice) {
        device.set_faults(Faults::default());
        device.medium().heal();
    }

    /// The medium after this life.
    pub fn end(&self, device: &SimDevice, seed: u64) -> Medium {
        self.life.end(device, seed)
    }
}

/// Hides blocks of any zone until the medium is [healed](Medium::heal): heads and ends above all, and now and then all of a zone.
fn hide(random: &mut Random, medium: &Medium) {
    let image = medium.image();
    let geometry = image.geometry().clone();
    let share = [0.05, 0.2, 0.6][random.below(3) as usize];
    for zone in (0..geometry.zone_count).map(ZoneId) {
        let written =
            if geometry.is_conventional(zone) { geometry.zone_capacity.0 } else { image.zone(zone).written.0 };
        if written == 0 || !random.chance(share) {
            continue;
        }
        let (from, blocks) = match random.below(5) {
            0 => (0, 1),
            1 => (written - 1, 1),
            2 => (0, written),
            _ => (random.below(written), 1),
        };
        medium.fail_reads(geometry.start_of(zone) + Blocks(from), Blocks(blocks), None);
    }
}

/// Reads and reports that fail now and then, and go well if they are tried again.
fn unreliable_reads(random: &mut Random) -> Faults {
    let share = [0.0, 0.05, 0.3][random.below(3) as usize];
    let rule = |kind, share| FaultRule { trigger: Trigger::Rate(kind, share), fault: Fault::ReadError };
    Faults::new([rule(CommandKind::Read, share), rule(CommandKind::Report, share / 4.0)])
}

/// A code and drives for an array of few drives; the seed decides them.
#[derive(Clone, Debug)]
pub struct ArrayShape {
    /// Data fragments of a stripe.
    pub data: u8,
    /// Parity fragments of a stripe.
    pub parity: u8,
    /// Bytes of data in a full segment.
    pub segment_length: u32,
    /// At least one for each fragment.
    pub drives: Vec<Geometry>,
}

impl ArrayShape {
    /// One in four arrays has drives for two stripes side by side.
    pub fn draw(random: &mut Random) -> Self {
        let (data, parity) = [(2, 1), (3, 2), (5, 1), (1, 1), (4, 3)][random.below(5) as usize];
        let drives = u64::from(data + parity) * (1 + u64::from(random.chance(0.25))) + random.below(3);
        let zone = Blocks(40 + random.below(30));
        let zones = 14 + random.below(8) as u32;
        let geometry = |random: &mut Random| match random.below(3) {
            0 => Geometry { volatile_cache: true, ..Geometry::hm_smr(zone, zones, random.below(2) as u32, 12) },
            1 => Geometry::zns(zone, zone - Blocks(random.below(6)), zones, 10, 12),
            _ => Geometry::hm_smr(zone, zones, 0, 12),
        };
        let drives = (0..drives).map(|_| geometry(random)).collect();
        Self { data, parity, segment_length: [8_000, 20_000, 50_000][random.below(3) as usize], drives }
    }
}

/// Wears the medium while no store uses it, in zones of `data`: blocks that cannot be read, for a time or until all
/// are healed; rot; a zone that turns read-only or goes offline.
pub fn wear(random: &mut Random, medium: &Medium, geometry: &Geometry, data: &Range<u32>) -> Harm {
    let zone = ZoneId(data.start + random.below(u64::from(data.end - data.start)) as u32);
    let written = medium.image().zone(zone).written;
    if written == Blocks::ZERO {
        return Harm::None;
    }
    let at = geometry.start_of(zone) + Blocks(random.below(written.0));
    match random.below(12) {
        0 => medium.fail_reads(at, Blocks(1), Some(1 + random.below(8) as u32)),
        1 => medium.fail_reads(at, Blocks(1), None),
        2 => {
            medium.rot(at, random.number());
            return Harm::Silent;
        }
        3 => {
            medium.set_state(zone, ZoneState::ReadOnly);
            return Harm::None;
        }
        4 => medium.set_state(zone, ZoneState::Offline),
        5 | 6 => {
            medium.heal();
            return Harm::None;
        }
        _ => return Harm::None,
    }
    Harm::Lasting
}
