//! RocksDB's load: a recording, and the sizes that go with it.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::calls::own;
use crate::calls::record::{Call, FileNumber, Kind, Recording, Use};
use crate::context::Context;
use crate::error::LabError;

/// Bytes that the paper's load appends to logs: 150 million pairs of 20 and 400 bytes, each with 23 bytes of heads.
const PAPER_LOGGED: u64 = 150_000_000 * 443;

/// The paper's memory beside RocksDB, and tables that it holds.
const PAPER_MEMORY_MIB: u64 = 2 << 10;
const TABLES_IN_MEMORY: u64 = 8;

/// RocksDB asks for room for a memtable and a tenth more when it flushes; a compaction asks for as much as twice the table.
const ASKED: f64 = 1.1;

/// A load of file calls.
#[derive(Clone)]
pub(super) struct Load {
    /// Its name.
    pub(super) name: String,
    pub(super) recording: Rc<Recording>,
    /// MiB of a table, as it is set up: those of a zone.
    pub(super) table_mib: u32,
    /// The paper's load over this one's whole.
    part: f64,
}

impl Load {
    /// The one of the context: the user's own, or the built-in one, of which a smaller scale takes the beginning.
    pub(super) fn of(context: &Context) -> Result<Self, LabError> {
        let (name, whole, share) = match &context.call_trace {
            Some(own) => ("a recording of one's own".to_owned(), (**own).clone(), 1.0),
            None => (own::NAME.to_owned(), own::recording()?, context.scale.pick(0.06, 0.5, 1.0)),
        };
        // The first table is that of a flush, as large as all are to be.
        let asked = whole.calls.iter().find_map(|call| match call.kind {
            Kind::Expect(bytes) if whole.is(call) == Use::Table => Some(bytes),
            _ => None,
        });
        let table = asked.ok_or_else(|| LabError("the recording makes no tables: it is none of RocksDB".to_owned()))?;
        let table_mib = (table as f64 / ASKED / f64::from(1 << 20)).round().clamp(4.0, 1024.0) as u32;
        let part = PAPER_LOGGED as f64 / whole.appended(Use::Log).max(1) as f64;
        let recording = if share < 1.0 { whole.beginning(share) } else { whole };
        Ok(Self { name, recording: Rc::new(recording), table_mib, part })
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

    /// Memory for files beside RocksDB, in bytes: as much for each pair as the paper's, and a few tables of a short load.
    pub(super) fn memory_bytes(&self) -> u64 {
        let of_pairs = ((PAPER_MEMORY_MIB << 20) as f64 / self.part) as u64;
        of_pairs.max((TABLES_IN_MEMORY * u64::from(self.table_mib)) << 20)
    }

    /// A size of the paper's in the measure of this load.
    pub(super) fn scaled(&self, size: u32) -> u32 {
        ((f64::from(size) / self.part).round() as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Scale;

    #[test]
    fn the_built_in_recording_is_a_quarter_of_the_papers_load_at_every_scale() {
        for scale in [Scale::Quick, Scale::Standard, Scale::Full] {
            let load = Load::of(&Context::new(1, scale, Rc::new(|_, _| {}))).unwrap();
            assert_eq!(load.table_mib, 64, "{scale}");
            assert_eq!((load.scaled(256), load.scaled(250_000)), (64, 62_513), "{scale}");
            let memory_mib = load.memory_bytes() as f64 / f64::from(1 << 20);
            assert!((511.0..513.0).contains(&memory_mib), "{scale}: {memory_mib} MiB");
        }
    }
}
