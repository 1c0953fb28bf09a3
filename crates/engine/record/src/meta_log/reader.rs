//! Reading a metazone: one write of the log after the other, each checked as a whole, one lost block of it made anew.
//!
//! Every record says which blocks its write has, and a parity block follows them. So any record of a write leads to the
//! parity of a block that is lost. Where a write's first block is lost, and with it perhaps the only header, the sum of
//! the blocks behind it becomes that very block when the parity is reached, which its checksum then says.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_zoned::{DeviceError, ZonedDevice};

use crate::frame::{Expect, HEADER_SIZE, Header, Place};
use crate::meta_log::format::{END, JOURNAL, LINK, LogInfo, PART, Parity, START, WRITE_BLOCKS_MAX, head_position};
use crate::reading::read_each;
use crate::zone_head::ZONE_HEAD;

/// Blocks of one zone that are tried one by one: a drive takes seconds for each that it cannot read.
const UNREADABLE_MAX: usize = 64;

/// Blocks read at once while a lost head is looked for.
const RESCUE_WINDOW: u32 = 64;

/// A record of the log that passed its checks.
pub(super) struct LogEntry {
    pub(super) header: Header,
    pub(super) info: LogInfo,
    pub(super) payload: Bytes,
}

/// Contents of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Nothing was written, or nothing that says it is this log's: its first write was torn.
    Blank,
    /// Records of a life.
    Live {
        /// The life.
        epoch: u64,
        /// The position of its first record, where the head says so.
        first: Option<u64>,
    },
    /// Blocks of it cannot be read, and no other says what it holds.
    Unknown,
}

/// The next thing in a zone.
pub(super) enum Step {
    /// One write, whole.
    Write {
        records: Vec<LogEntry>,
        /// The block that was made anew, or the parity block if that is the bad one.
        mended: Option<u32>,
        /// Whether its parity block was written.
        closed: bool,
    },
    /// Blocks `from` to `to` hold no write that can be made whole.
    Lost {
        from: u32,
        to: u32,
        /// Whether a block among them cannot be read.
        unreadable: bool,
    },
    /// All that was written has been read.
    End,
}

/// How far a write reaches, where it lies, and its first block, if that had to be made anew.
struct Shape {
    blocks: u32,
    place: Place,
    first: Option<Bytes>,
}

/// Why the records of a write fail their checks: these of its blocks may be the bad one.
struct Suspects(std::ops::Range<usize>);

pub(super) struct ZoneReader {
    dev: Rc<dyn ZonedDevice>,
    store: StoreId,
    zone: ZoneId,
    epoch: Option<u64>,
    /// Blocks written.
    written: u32,
    /// The block at which the next write begins.
    next: u32,
    window: u32,
    /// Blocks from `next` on; `None` cannot be read.
    loaded: VecDeque<Option<Bytes>>,
    unreadable: usize,
    /// Records before this position were durable: any header says so, also one of a write that is not whole (LOG-5).
    durable: Cell<u64>,
    /// Blocks read from the device.
    pub(super) blocks_read: u64,
}

impl ZoneReader {
    /// A reader of the first `written` blocks of a zone, `window` at a time.
    pub(super) fn new(dev: &Rc<dyn ZonedDevice>, store: StoreId, zone: ZoneId, written: u32, window: u32) -> Self {
        let (dev, loaded) = (dev.clone(), VecDeque::new());
        let durable = Cell::new(0);
        Self { dev, store, zone, epoch: None, written, next: 0, window, loaded, unreadable: 0, durable, blocks_read: 0 }
    }

    /// From now on only records of this life count.
    pub(super) fn of_life(self, epoch: u64) -> Self {
        Self { epoch: Some(epoch), ..self }
    }

    /// What the zone holds: its head says so, or, where that is lost, any record.
    pub(super) async fn life(&mut self) -> Result<Life, DeviceError> {
        if self.written == 0 {
            return Ok(Life::Blank);
        }
        self.window = 1;
        self.load(1).await?;
        if let Some(header) = self.header(0) {
            return Ok(life_of(&header));
        }
        self.window = RESCUE_WINDOW;
        if let Some(first) = self.rebuilt_first().await?.and_then(|shape| shape.first)
            && let Some(header) = self.decode(&first, 0)
        {
            return Ok(life_of(&header));
        }
        for block in 1..self.written {
            self.load(block + 1).await?;
            if let Some(header) = self.header(block) {
                return Ok(life_of(&header));
            }
            if self.unreadable > UNREADABLE_MAX {
                break;
            }
        }
        Ok(if self.unreadable > 0 { Life::Unknown } else { Life::Blank })
    }

    /// The next write.
    ///
    /// # Errors
    /// Only if the device is gone.
    pub(super) async fn step(&mut self) -> Result<Step, DeviceError> {
        if self.next >= self.written {
            return Ok(Step::End);
        }
        let from = self.next;
        let Some(shape) = self.shape().await? else {
            let (to, torn) = self.next_write().await?;
            return Ok(if torn { self.tear() } else { self.lose(to) });
        };
        let end = from + shape.blocks;
        self.load(end.saturating_add(1).min(self.written)).await?;
        if end > self.written {
            return Ok(self.tear());
        }
        let closed = end < self.written;
        let parity = if closed { self.block(end).cloned() } else { None };
        let mended_first = shape.first.is_some();
        let mut data: Vec<Option<Bytes>> = self.loaded.iter().take(shape.blocks as usize).cloned().collect();
        if let (Some(first), Some(slot)) = (&shape.first, data.first_mut()) {
            *slot = Some(first.clone());
        }
        let Some((records, mended)) = self.whole(&shape.place, data, parity.as_ref(), closed) else {
            return Ok(if closed { self.lose(end + 1) } else { self.tear() });
        };
        let mended = if mended_first { Some(from) } else { mended.map(|block| from + block as u32) };
        self.skip((end + 1).min(self.written));
        Ok(Step::Write { records, mended, closed })
    }

    /// How far the write that begins at `next` reaches.
    async fn shape(&mut self) -> Result<Option<Shape>, DeviceError> {
        let from = self.next;
        self.load(from + 1).await?;
        if let Some((info, place)) = self.header(from).map(|header| (LogInfo::decode(&header.info), header.place))
            && info.first == from
            && (1..=WRITE_BLOCKS_MAX).contains(&info.blocks)
        {
            return Ok(Some(Shape { blocks: info.blocks, place, first: None }));
        }
        self.rebuilt_first().await
    }

    /// The lost first block of a write, from all the others and their parity: the end of the write is where the sum of
    /// the blocks becomes a header that says so. Of a zone's first write the records behind its head say which life it is of.
    async fn rebuilt_first(&mut self) -> Result<Option<Shape>, DeviceError> {
        let from = self.next;
        let mut sum = Parity::unpadded();
        let mut epoch = self.epoch;
        let limit = self.written.min(from.saturating_add(WRITE_BLOCKS_MAX + 1));
        for at in from + 1..limit {
            self.load(at + 1).await?;
            let Some(block) = self.block(at) else { return Ok(None) };
            sum.add(block);
            epoch = epoch.or_else(|| Some(self.header(at)?.place.epoch));
            let Some(epoch) = epoch else { continue };
            let place = Place { store: self.store, epoch, zone: self.zone, block: from };
            let mut first = Parity::of(&place);
            first.add(sum.bytes());
            if let Some(header) = self.decode(first.bytes(), from) {
                let info = LogInfo::decode(&header.info);
                if (info.first, info.blocks) == (from, at - from) && header.place.epoch == epoch {
                    return Ok(Some(Shape { blocks: info.blocks, place, first: Some(first.block()) }));
                }
            }
        }
        Ok(None)
    }

    /// Where the next write begins, behind one that cannot be made whole; the end of what was written if there is none. And
    /// whether this one reaches beyond that end: the shortest has a record and its parity.
    async fn next_write(&mut self) -> Result<(u32, bool), DeviceError> {
        let from = self.next;
        if from + 1 == self.written {
            return Ok((self.written, true));
        }
        for at in from + 1..self.written {
            self.load(at + 1).await?;
            if let Some(info) = self.header(at).map(|header| LogInfo::decode(&header.info)) {
                let next = if info.first > from { info.first.min(at) } else { from + info.blocks + 1 };
                let torn = info.first == from && next > self.written;
                return Ok((next.max(from + 1).min(self.written), torn));
            }
            if self.unreadable > UNREADABLE_MAX {
                break;
            }
        }
        Ok((self.written, false))
    }

    /// Gives up the last write, of which blocks were never written: so it was not acknowledged, whatever cannot be read of it.
    fn tear(&mut self) -> Step {
        let (from, to) = (self.next, self.written);
        self.skip(to);
        Step::Lost { from, to, unreadable: false }
    }

    /// Goes on at `to`, past blocks that are lost.
    fn lose(&mut self, to: u32) -> Step {
        let from = self.next;
        let unreadable = self.loaded.iter().take((to - from) as usize).any(Option::is_none);
        self.skip(to);
        Step::Lost { from, to, unreadable }
    }

    fn skip(&mut self, to: u32) {
        self.loaded.drain(..((to - self.next) as usize).min(self.loaded.len()));
        self.next = to;
    }

    /// The records of a write that begins at `place`, and which of its blocks was bad (its parity is the one behind the last); `None` if more
    /// than one is.
    fn whole(
        &self,
        place: &Place,
        mut data: Vec<Option<Bytes>>,
        parity: Option<&Bytes>,
        closed: bool,
    ) -> Option<(Vec<LogEntry>, Option<usize>)> {
        let mut missing = data.iter().enumerate().filter(|(_, block)| block.is_none()).map(|(at, _)| at);
        let (first_missing, second) = (missing.next(), missing.next());
        if second.is_some() {
            return None;
        }
        if let Some(lost) = first_missing {
            let others = data.iter().flatten();
            data[lost] = Some(sum_of(place, others.chain([parity?])));
        }
        let mut blocks: Vec<Bytes> = data.into_iter().flatten().collect();
        let suspects = match self.parse(place.block, &blocks) {
            Ok(records) => {
                let sound = || parity.is_some_and(|block| *block == sum_of(place, &blocks));
                let bad_parity = closed && first_missing.is_none() && !sound();
                return Some((records, first_missing.or(bad_parity.then_some(blocks.len()))));
            }
            Err(Suspects(suspects)) => suspects,
        };
        // One block is rotten, and which of them it is the checksums say once it is right.
        let parity = parity.filter(|_| first_missing.is_none())?;
        for suspect in suspects {
            let others = blocks.iter().enumerate().filter(|&(at, _)| at != suspect).map(|(_, block)| block);
            let remade = sum_of(place, others.chain([parity]));
            let rotten = std::mem::replace(&mut blocks[suspect], remade);
            if let Ok(records) = self.parse(place.block, &blocks) {
                return Some((records, Some(suspect)));
            }
            blocks[suspect] = rotten;
        }
        None
    }

    /// Takes a write's blocks apart into records.
    fn parse(&self, from: u32, blocks: &[Bytes]) -> Result<Vec<LogEntry>, Suspects> {
        let mut records = Vec::new();
        let mut at = 0;
        while let Some(first) = blocks.get(at) {
            let header = self.decode(first, from + at as u32).ok_or(Suspects(at..at + 1))?;
            let info = LogInfo::decode(&header.info);
            let next = at + header.blocks().0 as usize;
            let of_this_write = (info.first, info.blocks as usize) == (from, blocks.len());
            let Some(parts) = blocks.get(at..next).filter(|_| of_this_write) else { return Err(Suspects(0..0)) };
            let bytes = if let [one] = parts { one.clone() } else { Bytes::from(parts.concat()) };
            if header.verify_payload(&bytes).is_err() {
                return Err(Suspects(at..next));
            }
            let payload = bytes.slice(HEADER_SIZE..HEADER_SIZE + header.length as usize);
            records.push(LogEntry { header, info, payload });
            at = next;
        }
        Ok(records)
    }

    /// The log's header in the first bytes of `bytes`, if they are that of a record at `block`.
    fn decode(&self, bytes: &[u8], block: u32) -> Option<Header> {
        let expect = Expect { store: Some(self.store), epoch: self.epoch, at: Some((self.zone, block)) };
        let header = Header::decode(bytes, &expect).ok()?;
        let known = match header.kind {
            JOURNAL | START | PART | END | LINK => block > 0,
            ZONE_HEAD => block == 0,
            _ => false,
        };
        (known && !header.sliced).then_some(header)
    }

    fn header(&self, block: u32) -> Option<Header> {
        let header = self.decode(self.block(block)?, block)?;
        self.durable.set(self.durable.get().max(durable_before(&header)));
        Some(header)
    }

    /// The position before which every record was durable once, as far as headers tell that were read.
    pub(super) fn durable(&self) -> u64 {
        self.durable.get()
    }

    fn block(&self, block: u32) -> Option<&Bytes> {
        self.loaded.get((block - self.next) as usize)?.as_ref()
    }

    /// Reads on until all blocks before `to` are there.
    async fn load(&mut self, to: u32) -> Result<(), DeviceError> {
        loop {
            let have = self.next + self.loaded.len() as u32;
            if have >= to {
                return Ok(());
            }
            let length = (to - have).max(self.window.min(self.written - have));
            if self.unreadable > UNREADABLE_MAX {
                self.loaded.extend((0..length).map(|_| None));
                continue;
            }
            let at = self.dev.geometry().start_of(self.zone) + Blocks(u64::from(have));
            let blocks = read_each(&self.dev, at, length, UNREADABLE_MAX - self.unreadable).await?;
            self.blocks_read += u64::from(length);
            self.unreadable += blocks.iter().filter(|block| block.is_none()).count();
            self.loaded.extend(blocks);
        }
    }
}

fn life_of(header: &Header) -> Life {
    let first = (header.kind == ZONE_HEAD).then(|| head_position(&header.info));
    Life::Live { epoch: header.place.epoch, first }
}

/// The position before which every record was durable when the write was begun that `header` is of (LOG-5).
fn durable_before(header: &Header) -> u64 {
    let info = LogInfo::decode(&header.info);
    match header.kind {
        ZONE_HEAD => head_position(&header.info),
        LINK => info.position.saturating_add(1),
        // Records before it in its write have a block each at least.
        _ => info.position.saturating_sub(u64::from(header.place.block.saturating_sub(info.first))),
    }
}

/// The parity of blocks; of all but one of a write and their parity, the one that is missing.
fn sum_of<'a>(place: &Place, blocks: impl IntoIterator<Item = &'a Bytes>) -> Bytes {
    let mut sum = Parity::of(place);
    blocks.into_iter().for_each(|block| sum.add(block));
    sum.block()
}
