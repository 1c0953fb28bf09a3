//! Reading a metazone write by write: each is checked as a whole, and one lost block of it is made anew.
//!
//! Every record names the blocks of its write, and a parity block follows them. So any record of a write leads to the
//! parity of a block that is lost. If a write's first block is lost, and with it perhaps the only header, blocks are
//! added up until the sum has a good checksum: that is the first block, and the last block added is the parity.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_zoned::{DeviceError, ZonedDevice};

use crate::header::{Expect, Form, HEADER_SIZE, Header, RecordPlace};
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

/// Generation of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Nothing was written, or nothing that shows this log's id: its first write was torn.
    Blank,
    /// Read off its head or a record.
    Known {
        /// Sequence number of the zone's head.
        epoch: u64,
        /// Position of its first record, if the head is readable.
        first: Option<u64>,
    },
    /// Blocks of it cannot be read, and no other has its generation.
    Unknown,
}

/// The next thing in a zone.
pub(super) enum Step {
    /// One write, whole.
    Write {
        records: Vec<LogEntry>,
        /// The block that was made anew, or the parity block if that is the bad one.
        mended: Option<u32>,
        /// Its parity block was written.
        closed: bool,
    },
    /// Blocks `from` to `to` hold no write that can be made whole.
    Lost {
        from: u32,
        to: u32,
        /// A block among them cannot be read.
        unreadable: bool,
    },
    /// All written blocks have been read.
    End,
}

/// Place and length of a write, and its first block, if that had to be made anew.
struct Shape {
    blocks: u32,
    place: RecordPlace,
    first: Option<Bytes>,
}

/// Blocks of a write whose records fail their checks: one of these may be the bad one.
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
    /// Records before this position were durable: any header says so, even of a write that is not whole (RC-LOG-5).
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

    /// Takes only records of this generation from now on.
    pub(super) fn of_generation(self, epoch: u64) -> Self {
        Self { epoch: Some(epoch), ..self }
    }

    /// Generation of the zone and its first position: from its head, or from any record if the head is lost.
    pub(super) async fn generation(&mut self) -> Result<Generation, DeviceError> {
        if self.written == 0 {
            return Ok(Generation::Blank);
        }
        self.window = 1;
        self.load(1).await?;
        if let Some(header) = self.header(0) {
            return Ok(generation_of(&header));
        }
        self.window = RESCUE_WINDOW;
        if let Some(first) = self.rebuilt_first().await?.and_then(|shape| shape.first)
            && let Some(header) = self.decode(&first, 0)
        {
            return Ok(generation_of(&header));
        }
        for block in 1..self.written {
            self.load(block + 1).await?;
            if let Some(header) = self.header(block) {
                return Ok(generation_of(&header));
            }
            if self.unreadable > UNREADABLE_MAX {
                break;
            }
        }
        Ok(if self.unreadable > 0 { Generation::Unknown } else { Generation::Blank })
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

    /// Place and length of the write that begins at `next`.
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

    /// Makes the lost first block of a write anew, from all the others and their parity: the write ends where the sum
    /// of the blocks becomes a header that agrees. In a zone's first write the records behind its head tell the
    /// generation.
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
            let place = RecordPlace { store: self.store, epoch, zone: self.zone, block: from };
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

    /// Start of the next write, behind one at `next` that cannot be made whole, or the end of the written blocks if
    /// there is none; and true if the write at `next` reaches beyond that end (no write is shorter than two blocks).
    async fn next_write(&mut self) -> Result<(u32, bool), DeviceError> {
        let from = self.next;
        if from + 1 == self.written {
            return Ok((self.written, true));
        }
        for at in from + 1..self.written {
            self.load(at + 1).await?;
            if let Some(info) = self.header(at).map(|header| LogInfo::decode(&header.info)) {
                let next = if info.first > from {
                    info.first.min(at)
                } else {
                    from.saturating_add(info.blocks).saturating_add(1)
                };
                let torn = info.first == from && next > self.written;
                return Ok((next.max(from + 1).min(self.written), torn));
            }
            if self.unreadable > UNREADABLE_MAX {
                break;
            }
        }
        Ok((self.written, false))
    }

    /// Gives up the last write, of which blocks were never written: it was not acknowledged, even if some of its blocks
    /// are unreadable.
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

    /// Records of a write that begins at `place`, and its bad block, if any (the parity is the one behind the last);
    /// `None` if more than one is bad.
    fn whole(
        &self,
        place: &RecordPlace,
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
        // One block is rotten; the checksums tell which one it is, once it is made anew.
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
            // A copy: a slice would keep all that was read with it, which is a hundred times as much for a journal's entries.
            let payload = Bytes::copy_from_slice(&bytes[HEADER_SIZE..HEADER_SIZE + header.length as usize]);
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
        (known && header.form == Form::Plain).then_some(header)
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

fn generation_of(header: &Header) -> Generation {
    let first = (header.kind == ZONE_HEAD).then(|| head_position(&header.info));
    Generation::Known { epoch: header.place.epoch, first }
}

/// Every record before this position was durable when the write of `header` began (RC-LOG-5).
fn durable_before(header: &Header) -> u64 {
    let info = LogInfo::decode(&header.info);
    match header.kind {
        ZONE_HEAD => head_position(&header.info),
        LINK => info.position.saturating_add(1),
        // Records before it in its write have a block each at least.
        _ => info.position.saturating_sub(u64::from(header.place.block.saturating_sub(info.first))),
    }
}

/// Parity of blocks; given all but one of a write's blocks and their parity, the missing one.
fn sum_of<'a>(place: &RecordPlace, blocks: impl IntoIterator<Item = &'a Bytes>) -> Bytes {
    let mut sum = Parity::of(place);
    blocks.into_iter().for_each(|block| sum.add(block));
    sum.block()
}
