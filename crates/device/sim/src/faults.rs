//! Faults on demand, at chosen commands.

use shingle_base::{Blocks, ZoneId};

use crate::command::CommandKind;
use crate::seeds::Random;

/// Fault of a command. See `docs/fault-model.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The read or the report fails, this once. Blocks that stay unreadable are made by
    /// [`Medium::fail_reads`](crate::Medium::fail_reads).
    ReadError,
    /// The write fails; a random part of it, from its front, has landed.
    WriteError,
    /// The command fails and changes nothing. A flush is [lost](Self::FlushLost).
    CommandError,
    /// The command takes its whole effect, and fails all the same.
    FailedAfterEffect,
    /// The same: the file system that holds the drive is full.
    HostFull,
    /// The write fails for the same reason; a random part of it, from its front, has landed, and the write pointer is behind that. A drive in a
    /// file does better: it takes both back, durably (ZD-FD-6), which is [`HostFull`](Self::HostFull).
    HostFullInside,
    /// The write succeeds, but one bit of it is wrong on the medium; the read does, but one bit of the answer is wrong.
    BitFlip,
    /// The write succeeds, but its last blocks hold garbage.
    TornWrite,
    /// The write succeeds and moves the write pointer, but the bytes lie elsewhere: the blocks hold another place's
    /// bytes. A read succeeds with another place's bytes.
    Misdirected,
    /// The zone turns read-only, and the command fails.
    ZoneReadOnly,
    /// The same; and some of the last writes of the zone that no flush has covered cannot be read from then on.
    ZoneLosesCache,
    /// The zone goes offline, and the command fails.
    ZoneOffline,
    /// The flush fails with `Gone`, as does every later command (ZD-DEV-4), and the next life begins as after a power cut.
    FlushLost,
    /// The command takes a thousand times as long.
    Slow,
    /// The command never completes, until [`SimDevice::release_hung`](crate::SimDevice::release_hung).
    Hang,
    /// The same, and the write or the change of the zone takes effect no earlier than it completes, whether or not its caller still
    /// waits for it.
    HangBefore,
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// At the command of this number, counted over all kinds from 0.
    Command(u64),
    /// At the command of this number among its kind, from 0.
    Nth(CommandKind, u64),
    /// At every command of the kind in the zone.
    Zone(CommandKind, ZoneId),
    /// At every command of the kind with this probability.
    Rate(CommandKind, f64),
}

/// A fault and when it happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultRule {
    /// When.
    pub trigger: Trigger,
    /// The fault.
    pub fault: Fault,
}

/// Rules of a device, and the faults they injected.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<FaultRule>,
    /// Zones that are left alone.
    spared: Vec<ZoneId>,
    /// Injected faults: command number, zone, fault.
    injected: Vec<(u64, Option<ZoneId>, Fault)>,
    counts: [u64; CommandKind::COUNT],
}

impl Faults {
    /// Faults by these rules.
    pub fn new(rules: impl IntoIterator<Item = FaultRule>) -> Self {
        Self { rules: rules.into_iter().collect(), ..Self::default() }
    }

    /// No fault hits these zones.
    #[must_use]
    pub fn sparing(mut self, zones: impl IntoIterator<Item = ZoneId>) -> Self {
        self.spared.extend(zones);
        self
    }

    /// Without the rules of this fault.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.rules.retain(|rule| rule.fault != fault);
        self
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Faults injected so far: command number, zone, fault.
    pub fn injected(&self) -> &[(u64, Option<ZoneId>, Fault)] {
        &self.injected
    }

    /// The fault that hits a command, if one does.
    pub(crate) fn hit(
        &mut self,
        number: u64,
        kind: CommandKind,
        zone: Option<ZoneId>,
        random: &mut Random,
    ) -> Option<Fault> {
        let nth = self.counts[kind as usize];
        self.counts[kind as usize] += 1;
        if zone.is_some_and(|zone| self.spared.contains(&zone)) {
            return None;
        }
        let rule = self.rules.iter().find(|rule| match rule.trigger {
            Trigger::Command(at) => at == number,
            Trigger::Nth(of, at) => of == kind && at == nth,
            Trigger::Zone(of, at) => of == kind && Some(at) == zone,
            Trigger::Rate(of, share) => of == kind && random.chance(share),
        })?;
        self.injected.push((number, zone, rule.fault));
        Some(rule.fault)
    }
}

/// Blocks that land when a write of `blocks` fails half-way: fewer than all.
pub(crate) fn landed(blocks: Blocks, random: &mut Random) -> Blocks {
    Blocks(random.below(blocks.0.max(1)))
}
