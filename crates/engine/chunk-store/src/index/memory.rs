//! Memory of the index, counted from capacities: the same on every machine.

use crate::state::StoreState;
use crate::types::Stream;

/// Index memory of one stream's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMemory {
    /// Chunks.
    pub chunks: u64,
    /// Their records.
    pub records: u64,
    /// Runs of equal records.
    pub runs: u64,
    /// Groups: a chunk has one in each zone it lies in, and more where it comes back to one.
    pub groups: u64,
    /// Bytes of groups that are not in their chunk's entry of the table.
    pub group_bytes: u64,
    /// Bytes of records that are not in their group.
    pub record_bytes: u64,
}

/// Bytes of memory by structure; allocator overhead aside. (SMRstore, section 6.5.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexMemory {
    /// By stream, in the order of [`Stream::ALL`].
    pub streams: [StreamMemory; 3],
    /// Entries of the chunk table, with those that wait for a chunk. A chunk's first run is in it.
    pub table_bytes: u64,
    /// Order of chunks by id, for lookups.
    pub order_bytes: u64,
    /// Lists of the chunks in a zone, beyond those in the zone table itself.
    pub resident_bytes: u64,
    /// The zone table, whose size depends on the drive alone.
    pub zone_bytes: u64,
}

impl IndexMemory {
    /// The figures of one stream.
    pub fn stream(&self, stream: Stream) -> &StreamMemory {
        &self.streams[Stream::ALL.iter().position(|&other| other == stream).unwrap_or(0)]
    }

    fn sum(&self, of: impl Fn(&StreamMemory) -> u64) -> u64 {
        self.streams.iter().map(of).sum()
    }

    /// Chunks of all streams.
    pub fn chunks(&self) -> u64 {
        self.sum(|stream| stream.chunks)
    }

    /// Records of all streams.
    pub fn records(&self) -> u64 {
        self.sum(|stream| stream.records)
    }

    /// Runs of all streams.
    pub fn runs(&self) -> u64 {
        self.sum(|stream| stream.runs)
    }

    /// Bytes that all chunks share equally: everything but the zone table, groups and records.
    fn shared_bytes(&self) -> u64 {
        self.table_bytes + self.order_bytes + self.resident_bytes
    }

    /// Everything that grows with chunks and records.
    pub fn total_bytes(&self) -> u64 {
        self.shared_bytes() + self.sum(|stream| stream.group_bytes + stream.record_bytes)
    }

    /// Bytes a chunk, beside its records.
    pub fn chunk_bytes(&self) -> f64 {
        (self.shared_bytes() + self.sum(|stream| stream.group_bytes)) as f64 / self.chunks().max(1) as f64
    }

    /// Bytes a record.
    pub fn record_bytes(&self) -> f64 {
        self.sum(|stream| stream.record_bytes) as f64 / self.records().max(1) as f64
    }

    /// Bytes a chunk of one stream, beside its records, with its share of what all have in common.
    pub fn chunk_bytes_of(&self, stream: Stream) -> f64 {
        let of = self.stream(stream);
        self.shared_bytes() as f64 / self.chunks().max(1) as f64 + of.group_bytes as f64 / of.chunks.max(1) as f64
    }

    /// Bytes a record of one stream.
    pub fn record_bytes_of(&self, stream: Stream) -> f64 {
        let of = self.stream(stream);
        of.record_bytes as f64 / of.records.max(1) as f64
    }
}

impl StoreState {
    /// Counts the index's memory; takes a look at every chunk.
    pub(crate) fn index_memory(&self) -> IndexMemory {
        let (table, order) = self.chunks.bytes();
        let (zones, residents) = self.zones.bytes();
        let mut memory = IndexMemory {
            table_bytes: table as u64,
            order_bytes: order as u64,
            resident_bytes: residents as u64,
            zone_bytes: zones as u64,
            ..IndexMemory::default()
        };
        for (_, chunk) in self.chunks.after(None) {
            let Some(at) = Stream::ALL.iter().position(|&stream| stream == chunk.stream) else { continue };
            let of = &mut memory.streams[at];
            let (group_bytes, record_bytes) = chunk.groups.heap_bytes();
            of.chunks += 1;
            of.groups += chunk.groups.len() as u64;
            of.group_bytes += group_bytes as u64;
            of.record_bytes += record_bytes as u64;
            for group in chunk.groups.iter() {
                of.records += group.len() as u64;
                of.runs += group.runs().count() as u64;
            }
        }
        memory
    }
}
