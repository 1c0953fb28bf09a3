//! The multi-stream load as a list of steps, the same for stores of any speed.
//!
//! [`multistream`](super::multistream) paces streams by the clock, so that a store that falls behind gets another mix.
//! To compare real file systems, each recorded on a machine of another speed, the order is fixed here: the stream
//! furthest behind its share of the bytes goes next.
//!
//! # Invariants
//! - LAB-SCR-1: the same streams and seed give the same steps.
//! - LAB-SCR-2: a chunk's steps are all on one lane, in order: appends from 0 to its end, then perhaps its deletion.

use std::collections::VecDeque;

use shingle_chunk_store::Stream;
use shingle_sim::Random;

use super::lengths::LENGTHS;
use super::multistream::{Class, classes};
use super::table3::ROWS;

/// Bytes of a request.
pub const IO_BYTES: u64 = 1 << 20;

/// Zones that Table 3's chunks are made for.
const ZONE_BYTES: u64 = 256 << 20;

/// Streams, and their totals.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The streams. Rates are shares here.
    pub classes: Vec<Class>,
    /// Bytes that are stored when deletion begins, and held from then.
    pub full: u64,
    /// Bytes appended from then on.
    pub churn: u64,
}

impl Streams {
    /// Table 3 on a drive with zones of `zone_bytes`: chunks as large in proportion to zones as there. (SMRstore, Table 3.)
    pub fn table_3(zone_bytes: u64, full: u64, churn: u64) -> Self {
        let mut classes = classes(LENGTHS[0], 1.0);
        for (class, row) in classes.iter_mut().zip(&ROWS) {
            // In zones so small, a chunk's headers and checksums take up to a 64th of it.
            let data = (row.chunk_mib - row.chunk_mib / 64) << 20;
            let bytes = data as f64 / ZONE_BYTES as f64 * zone_bytes as f64;
            class.chunk_bytes = (bytes as u64).next_multiple_of(4096);
        }
        Self { classes, full, churn }
    }
}

/// One step of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appends to a chunk, which the first one creates and the last one seals.
    Append {
        /// Its lane.
        lane: usize,
        /// The chunk.
        chunk: u64,
        /// Its stream.
        stream: Stream,
        /// Its length so far.
        offset: u64,
        /// Bytes to append.
        bytes: u32,
        /// The chunk is complete then.
        last: bool,
    },
    /// Deletes a complete chunk.
    Delete {
        /// Its lane.
        lane: usize,
        /// The chunk.
        chunk: u64,
    },
}

impl Step {
    /// Its lane.
    pub fn lane(&self) -> usize {
        match *self {
            Self::Append { lane, .. } | Self::Delete { lane, .. } => lane,
        }
    }
}

/// A chunk that is written.
#[derive(Clone, Copy)]
struct Tail {
    chunk: u64,
    offset: u64,
    limit: u64,
}

/// A stream's files.
struct Source {
    class: Class,
    /// Its first lane, and its number of lanes.
    lanes: (usize, usize),
    files: Vec<Option<Tail>>,
    cursor: usize,
    issued: u64,
}

/// A complete chunk.
#[derive(Clone, Copy)]
struct Sealed {
    chunk: u64,
    lane: usize,
    bytes: u64,
}

/// The steps.
pub struct Script {
    sources: Vec<Source>,
    full: u64,
    churn: u64,
    lanes: usize,
    random: Random,
    next_chunk: u64,
    sealed: Vec<Sealed>,
    stored: u64,
    churned: Option<u64>,
    queued: VecDeque<Step>,
}

impl Script {
    /// The steps of these streams.
    pub fn new(streams: &Streams, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut lanes = 0;
        let mut sources = Vec::new();
        let mut next_chunk = 1;
        for &class in &streams.classes {
            // A cached class writes one chunk at a time.
            let files = if class.cache.is_some() { 1 } else { class.files.max(1) as usize };
            let count = files.min(class.depth.max(1) as usize);
            let mut start = |chunk| {
                // Files do not all come to the ends of their chunks at once.
                let requests = class.chunk_bytes.div_ceil(IO_BYTES);
                let limit = ((1 + random.below(requests)) * IO_BYTES).min(class.chunk_bytes);
                Some(Tail { chunk, offset: 0, limit: if files > 1 { limit } else { class.chunk_bytes } })
            };
            let tails = (next_chunk..).take(files).map(&mut start).collect();
            next_chunk += files as u64;
            sources.push(Source { class, lanes: (lanes, count), files: tails, cursor: 0, issued: 0 });
            lanes += count;
        }
        let (full, churn) = (streams.full, streams.churn);
        let (sealed, queued) = (Vec::new(), VecDeque::new());
        Self { sources, full, churn, lanes, random, next_chunk, sealed, stored: 0, churned: None, queued }
    }

    /// Number of lanes: each does its steps in order, beside the others.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    fn delete(&mut self) {
        while self.stored > self.full && !self.sealed.is_empty() {
            let at = self.random.below(self.sealed.len() as u64) as usize;
            let Sealed { chunk, lane, bytes } = self.sealed.swap_remove(at);
            self.stored -= bytes;
            self.churned.get_or_insert(0);
            self.queued.push_back(Step::Delete { lane, chunk });
        }
    }

    fn append(&mut self) -> Option<Step> {
        let behind = |source: &&mut Source| source.issued as f64 / source.class.rate;
        let source = self.sources.iter_mut().min_by(|a, b| behind(a).total_cmp(&behind(b)))?;
        let file = source.cursor % source.files.len();
        source.cursor += 1;
        let lane = source.lanes.0 + file % source.lanes.1;
        let mut fresh = || {
            self.next_chunk += 1;
            Tail { chunk: self.next_chunk - 1, offset: 0, limit: source.class.chunk_bytes }
        };
        let slot = source.files.get_mut(file)?;
        let mut tail = slot.take().unwrap_or_else(&mut fresh);
        let bytes = IO_BYTES.min(tail.limit - tail.offset);
        let Tail { chunk, offset, .. } = tail;
        tail.offset += bytes;
        let last = tail.offset == tail.limit;
        *slot = (!last).then_some(tail);
        source.issued += bytes;
        let stream = source.class.stream;
        self.stored += bytes;
        if let Some(churned) = &mut self.churned {
            *churned += bytes;
        }
        if last {
            self.sealed.push(Sealed { chunk, lane, bytes: tail.limit });
            self.delete();
        }
        Some(Step::Append { lane, chunk, stream, offset, bytes: bytes as u32, last })
    }
}

impl Iterator for Script {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.queued.pop_front() {
            return Some(step);
        }
        if self.churned.is_some_and(|churned| churned >= self.churn) {
            return None;
        }
        self.append()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn streams() -> Streams {
        Streams::table_3(8 << 20, 512 << 20, 256 << 20)
    }

    /// LAB-SCR-1 and LAB-SCR-2, and no more is stored than should be.
    #[test]
    fn every_chunk_is_written_to_its_end_on_one_lane_and_deleted_after_it() {
        let steps: Vec<Step> = Script::new(&streams(), 3).collect();
        assert_eq!(steps, Script::new(&streams(), 3).collect::<Vec<_>>());
        assert_ne!(steps, Script::new(&streams(), 4).collect::<Vec<_>>());
        let mut chunks: BTreeMap<u64, (usize, u64, bool)> = BTreeMap::new();
        let (mut stored, mut deleted) = (0u64, 0);
        for step in steps {
            match step {
                Step::Append { lane, chunk, offset, bytes, last, .. } => {
                    let known = chunks.entry(chunk).or_insert((lane, 0, false));
                    assert_eq!((known.0, known.1, known.2), (lane, offset, false), "{step:?}");
                    *known = (lane, offset + u64::from(bytes), last);
                    stored += u64::from(bytes);
                }
                Step::Delete { lane, chunk } => {
                    let (wrote, bytes, complete) = chunks.remove(&chunk).unwrap();
                    assert!(complete && wrote == lane, "{step:?}");
                    stored -= bytes;
                    deleted += 1;
                }
            }
            assert!(stored <= (512 + 16) << 20, "{stored}");
        }
        assert!(deleted > 20, "{deleted}");
    }

    #[test]
    fn streams_have_their_shares_of_the_bytes() {
        let streams = streams();
        let mut bytes = BTreeMap::new();
        for step in Script::new(&streams, 1) {
            if let Step::Append { stream, bytes: more, .. } = step {
                *bytes.entry(format!("{stream:?}")).or_insert(0.0) += f64::from(more);
            }
        }
        let all: f64 = bytes.values().sum();
        let rates: f64 = streams.classes.iter().map(|class| class.rate).sum();
        let meta = streams.classes.iter().find(|class| class.stream == Stream::Meta).unwrap();
        assert!((bytes["Meta"] / all - meta.rate / rates).abs() < 0.01, "{bytes:?}");
    }
}
