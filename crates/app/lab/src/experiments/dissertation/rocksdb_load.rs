//! RocksDB's load: a recording, and the sizes that go with it.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::calls::own;
use crate::calls::record::{Call, FileNumber, Kind, Recording, Use};
use crate::context::Context;
use crate::error::LabError;

/// The paper's sizes for tables of 256 MiB: 2 GiB of memory beside RocksDB, and a cache of 25 GiB in the drive-managed disk.
const PAPER_TABLE_MIB: u64 = 256;
const PAPER_MEMORY_MIB: u64 = 2 << 10;

/// RocksDB asks for room for a table and a tenth more.
const ASKED: f64 = 1.1;

/// A load of file calls.
#[derive(Clone)]
pub(super) struct Load {
    /// Its name.
    pub(super) name: String,
    pub(super) recording: Rc<Recording>,
    /// MiB of a table at most: those of a zone.
    pub(super) table_mib: u32,
}

impl Load {
    /// The one of the context: the user's own, or the built-in one, of which a smaller scale takes the beginning.
    pub(super) fn of(context: &Context) -> Result<Self, LabError> {
        let (name, recording) = match &context.call_trace {
            Some(own) => ("a recording of one's own".to_owned(), (**own).clone()),
            None => {
                let share = context.scale.pick(0.06, 0.5, 1.0);
                (own::NAME.to_owned(), own::recording()?.beginning(share))
            }
        };
        let asked =
            recording.calls.iter().filter(|call| recording.is(call) == Use::Table).filter_map(|call| match call.kind {
                Kind::Expect(bytes) => Some(bytes),
                _ => None,
            });
        let table =
            asked.max().ok_or_else(|| LabError("the recording makes no tables: it is none of RocksDB".to_owned()))?;
        let table_mib = (table as f64 / ASKED / f64::from(1 << 20)).round().clamp(4.0, 1024.0) as u32;
        Ok(Self { name, recording: Rc::new(recording), table_mib })
    }

    /// Bytes of all files at most at a time.
    pub(super) fn most_bytes(&self) -> u64 {
        let mut sizes = vec![0u64; self.recording.files.len()];
        let (mut now, mut most) = (0u64, 0);
        for call in &self.recording.calls {
            match call.kind {
                Kind::Append(bytes) | Kind::Was(bytes) => {
                    sizes[call.file as usize] += bytes;
                    now += bytes;
                }
                Kind::Delete => now -= std::mem::take(&mut sizes[call.file as usize]),
                _ => {}
            }
            now -= call.replaces.map_or(0, |file| std::mem::take(&mut sizes[file as usize]));
            most = most.max(now);
        }
        most
    }

    /// Bytes of the zones that logs and tables have, each of its own, over those of all files (section 5.4.1): when the inserts end, and when
    /// all is done.
    pub(super) fn own_zones(&self) -> (f64, f64) {
        let zone = self.zone_of_a_table();
        let calls = &self.recording.calls;
        let logged = |call: &Call| matches!(call.kind, Kind::Append(_)) && self.recording.is(call) == Use::Log;
        let inserted = calls.iter().rposition(logged).map_or(0, |last| last + 1);
        let over = |calls: &[Call]| {
            let mut sizes = BTreeMap::new();
            for call in calls {
                match call.kind {
                    Kind::Append(bytes) => *sizes.entry(call.file).or_insert(0u64) += bytes,
                    Kind::Delete => drop(sizes.remove(&call.file)),
                    _ => {}
                }
            }
            let whole = |(file, bytes): (&FileNumber, &u64)| {
                let is = self.recording.files.get(*file as usize).map_or(Use::Other, |file| file.is);
                if matches!(is, Use::Log | Use::Table) { bytes.next_multiple_of(zone) } else { *bytes }
            };
            sizes.iter().map(whole).sum::<u64>() as f64 / sizes.values().sum::<u64>().max(1) as f64
        };
        (over(calls.get(..inserted).unwrap_or_default()), over(calls))
    }

    fn table_sizes(&self) -> BTreeMap<FileNumber, u64> {
        let mut sizes = BTreeMap::new();
        for call in &self.recording.calls {
            if let (Kind::Append(bytes), Use::Table) = (&call.kind, self.recording.is(call)) {
                *sizes.entry(call.file).or_insert(0u64) += bytes;
            }
        }
        sizes
    }

    /// Bytes of a zone for one table: 99 of a hundred fit. Few are longer, by whatever RocksDB could not part, and take several zones.
    fn zone_of_a_table(&self) -> u64 {
        let mut sizes: Vec<u64> = self.table_sizes().into_values().collect();
        sizes.sort_unstable();
        let at = (sizes.len() * 99 / 100).min(sizes.len().saturating_sub(1));
        sizes.get(at).copied().unwrap_or(1).max(1)
    }

    /// Bytes of such zones, over those of the tables in them, where each table has zones of its own.
    pub(super) fn padded(&self) -> f64 {
        let (sizes, zone) = (self.table_sizes(), self.zone_of_a_table());
        let padded: u64 = sizes.values().map(|size| size.next_multiple_of(zone)).sum();
        padded as f64 / sizes.values().sum::<u64>().max(1) as f64
    }

    /// The paper's sizes over those of this load.
    fn part(&self) -> f64 {
        PAPER_TABLE_MIB as f64 / f64::from(self.table_mib)
    }

    /// Memory for files beside RocksDB, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        ((PAPER_MEMORY_MIB << 20) as f64 / self.part()) as u64
    }

    /// A size of the paper's in the measure of this load.
    pub(super) fn scaled(&self, size: u32) -> u32 {
        ((f64::from(size) / self.part()).round() as u32).max(1)
    }
}
