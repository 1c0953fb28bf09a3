//! Recovery step by step, and the damage it found.

use std::fmt;
use std::time::Duration;

use shingle_base::{ByteSize, ChunkId, ZoneId};

use crate::types::Unread;

/// One of the four steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// Its time.
    pub time: Duration,
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Zones looked into.
    pub zones: u64,
    /// Checkpoints, checkpoint parts, journal entries or records found.
    pub found: u64,
}

/// Something that is lost or cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The chunk it is part of, where that is known.
    pub chunk: Option<ChunkId>,
    /// The zone it lies in, where that is known.
    pub zone: Option<ZoneId>,
    /// Description of the damage.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chunk) = self.chunk {
            write!(f, "chunk {chunk}: ")?;
        }
        if let Some(zone) = self.zone {
            write!(f, "{zone}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Report of opening a store. (SMRstore, section 5.6; Figure 21 shows the same steps.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Step 1: the newest complete checkpoint.
    pub find: StepReport,
    /// Step 2: loading it.
    pub load: StepReport,
    /// Step 3: replaying the journal.
    pub replay: StepReport,
    /// Step 4: scanning data zones.
    pub scan: StepReport,
    /// Bytes of the checkpoint itself; what was read to load it also holds journal.
    pub checkpoint_bytes: u64,
    /// Progress marks among the journal's entries, and the blocks that recovery need not scan thanks to them.
    pub marks: (u64, u64),
    /// Chunks there are now.
    pub chunks: u64,
    /// Zones whose last record was torn by the power cut; what was torn had not been acknowledged.
    pub torn: Vec<ZoneId>,
    /// Bad blocks of superblock and metadata log that others make up for: nothing is lost.
    pub mended: Vec<Damage>,
    /// Losses.
    pub damage: Vec<Damage>,
    /// Blocks could not be read, or a zone is away, and what acknowledged records they hold is not known: a later
    /// opening may see more (CS-REC-8). Bytes that rotted hide nothing, and neither do holes that are left of earlier
    /// losses.
    pub hidden: bool,
    /// It would be hidden, but this opening gave it up ([`accept_loss`](crate::Options::accept_loss)): `damage` says what.
    pub accepted: bool,
    /// The blocks that could not be read, of zones that had to be.
    pub unread: Vec<Unread>,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [
            ("find the checkpoint", &self.find, "checkpoints"),
            ("load it", &self.load, "parts"),
            ("replay the journal", &self.replay, "entries"),
            ("scan data zones", &self.scan, "records"),
        ];
        for (name, step, things) in steps {
            writeln!(
                f,
                "{name:<20} {:>9.3} s  {:>6} zones  {:>10} read  {:>9} {things}",
                step.time.as_secs_f64(),
                step.zones,
                ByteSize(step.read_bytes).to_string(),
                step.found,
            )?;
        }
        let counted = |count: usize, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
        let (torn, damaged) = (counted(self.torn.len(), "torn zone"), counted(self.damage.len(), "damaged place"));
        write!(f, "{}, {torn}, {damaged}", counted(self.chunks as usize, "chunk"))
    }
}
