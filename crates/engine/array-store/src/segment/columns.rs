//! Reading slice by slice, where too few fragments are whole: slices are the columns of the code, and what is bad of each
//! fragment lies elsewhere as a rule.
//!
//! It reads all that is there, and block by block where a drive fails a longer read: only for what cannot be had otherwise.
//!
//! # Invariants
//! - AS-READ-3: a slice can be had if it verifies, or as many others of its row do as the code has data fragments; of
//!   whichever fragments, and whatever of them is bad elsewhere.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_erasure::Coder;
use shingle_record::{SLICE_SIZE, slices};
use shingle_zoned::{DeviceErrorKind, DeviceResult};

use super::read::{Fault, FaultKind, Source};
use super::shape::Piece;

/// Bytes of each fragment that are looked at together.
const WINDOW: u32 = 256 * SLICE as u32;

const SLICE: usize = SLICE_SIZE;

/// Reads of a block before it counts as unreadable.
const TRIES: usize = 3;

/// Unreadable blocks of a fragment after which no more are read one by one: a drive may take seconds for each.
const UNREADABLE_MAX: usize = 64;

/// A range of a fragment, as far as it can be had.
#[derive(Default)]
pub(crate) struct Columns {
    /// Zeros where it cannot.
    pub(crate) bytes: Vec<u8>,
    /// Numbers of the slices that cannot.
    pub(crate) lost: BTreeSet<u32>,
    /// Fragments that lack slices in the rows of those for now: their blocks cannot be read, or their drives are not there.
    pub(crate) unread: BTreeSet<usize>,
}

/// The rows of a segment, as far as they are not whole.
#[derive(Default)]
pub(crate) struct Rows {
    /// Slices of data that cannot be had, by fragment and number; and the fragments that may give back slices of their rows
    /// once their drives are there, with the good ones of those.
    pub(crate) lost: BTreeMap<(usize, u32), Hope>,
    /// Fragments with bad slices in rows that others make up for.
    pub(crate) mendable: BTreeSet<usize>,
    /// Fragments with bad slices.
    pub(crate) bad: BTreeSet<usize>,
}

/// State of a row with too few good slices.
#[derive(Clone)]
pub(crate) struct Hope {
    pub(crate) good: usize,
    /// Fragments on drives that are not there.
    pub(crate) away: Vec<usize>,
}

/// A slice of a fragment as it was read.
#[derive(Clone)]
enum Slice {
    Good(Bytes),
    Bad,
    /// Its drive is there and does not give it.
    Unread,
    /// Its drive is not there.
    Away,
}

impl Rows {
    /// State of the rows in which a piece of data is lost.
    pub(crate) fn hopes(&self, piece: &Piece) -> impl Iterator<Item = &Hope> {
        let (first, behind) = (piece.range.start / SLICE as u32, piece.range.end.div_ceil(SLICE as u32));
        self.lost.range((piece.fragment, first)..(piece.fragment, behind)).map(|(_, hope)| hope)
    }
}

impl Slice {
    fn good(&self) -> Option<&[u8]> {
        if let Self::Good(bytes) = self { Some(bytes) } else { None }
    }
}

/// Blocks that each fragment may still fail to give one by one.
struct Patience(Vec<RefCell<usize>>);

impl Patience {
    fn new(fragments: usize) -> Self {
        Self(vec![RefCell::new(UNREADABLE_MAX); fragments])
    }

    fn of(&self, fragment: usize) -> usize {
        self.0.get(fragment).map_or(0, |left| *left.borrow())
    }

    fn set(&self, fragment: usize, left: usize) {
        if let Some(slot) = self.0.get(fragment) {
            slot.replace(left);
        }
    }
}

impl Source<'_> {
    /// A range of a fragment, of whole slices, from its own good ones and those that others give back. (AS-READ-3)
    pub(crate) async fn columns(&self, coder: &RefCell<Coder>, fragment: usize, range: &Range<u32>) -> Columns {
        let patience = Patience::new(self.members.len());
        let mut columns = Columns::default();
        for window in windows(range) {
            let own = self.slices_of(fragment, &window, &patience).await;
            let lacking = |(_, slice): &(usize, &Slice)| slice.good().is_none();
            let mut rows = own.iter().enumerate().filter(lacking).map(|(row, _)| row as u32);
            let Some(first) = rows.next() else {
                own.iter().filter_map(Slice::good).for_each(|slice| columns.bytes.extend_from_slice(slice));
                continue;
            };
            let last = rows.next_back().unwrap_or(first);
            let at = |row: u32| window.start + row * SLICE as u32;
            let others = (0..self.members.len()).filter(|other| *other != fragment);
            let wanted = at(first)..at(last + 1);
            let (wanted, patience) = (&wanted, &patience);
            let others = others.map(|other| async move { (other, self.slices_of(other, wanted, patience).await) });
            let others = join_all(others).await;
            for (row, slice) in own.iter().enumerate() {
                if let Some(slice) = slice.good() {
                    columns.bytes.extend_from_slice(slice);
                    continue;
                }
                let of = |slices: &[Slice]| slices.get(row - first as usize).cloned().unwrap_or(Slice::Away);
                let others: Vec<(usize, Slice)> = others.iter().map(|(other, slices)| (*other, of(slices))).collect();
                match self.computed_slice(coder, fragment, &others) {
                    Some(bytes) => columns.bytes.extend_from_slice(&bytes),
                    None => {
                        columns.bytes.resize(columns.bytes.len() + SLICE, 0);
                        columns.lost.insert(at(row as u32) / SLICE as u32);
                        let all = others.iter().map(|(other, slice)| (*other, slice)).chain([(fragment, slice)]);
                        let unread = all.filter(|(_, slice)| matches!(slice, Slice::Unread | Slice::Away));
                        columns.unread.extend(unread.map(|(other, _)| other));
                    }
                }
            }
        }
        columns
    }

    /// Looks at all slices of all fragments.
    pub(crate) async fn rows(&self) -> Rows {
        let patience = Patience::new(self.members.len());
        let code = self.shape.code();
        let mut rows = Rows::default();
        for window in windows(&(0..self.shape.fragment_length())) {
            let all = (0..self.members.len()).map(|fragment| self.slices_of(fragment, &window, &patience));
            let all = join_all(all).await;
            for row in 0..window.len() / SLICE {
                let column = |fragment: usize| all.get(fragment).and_then(|slices| slices.get(row));
                let those = |wanted: fn(&Slice) -> bool| {
                    let is = move |fragment: &usize| column(*fragment).is_none_or(wanted);
                    (0..self.members.len()).filter(is).collect::<Vec<usize>>()
                };
                let lacking = those(|slice| slice.good().is_none());
                rows.bad.extend(&lacking);
                let good = self.members.len() - lacking.len();
                if good >= code.data() {
                    rows.mendable.extend(lacking);
                    continue;
                }
                let hope = Hope { good, away: those(|slice| matches!(slice, Slice::Away)) };
                let number = window.start / SLICE as u32 + row as u32;
                let data = lacking.into_iter().filter(|fragment| *fragment < code.data());
                rows.lost.extend(data.map(|fragment| ((fragment, number), hope.clone())));
            }
        }
        rows
    }

    fn computed_slice(&self, coder: &RefCell<Coder>, wanted: usize, others: &[(usize, Slice)]) -> Option<Vec<u8>> {
        let good = others.iter().filter_map(|(other, slice)| Some((*other, slice.good()?)));
        let present: Vec<(usize, &[u8])> = good.take(self.shape.code().data()).collect();
        if present.len() < self.shape.code().data() {
            return None;
        }
        coder.borrow_mut().reconstruct(&present, &[wanted]).ok()?.pop()
    }

    /// The slices of a range of a fragment.
    async fn slices_of(&self, fragment: usize, range: &Range<u32>, patience: &Patience) -> Vec<Slice> {
        let all = |slice: Slice| vec![slice; range.len() / SLICE];
        let Some(dev) = self.drives.usable(self.members[fragment].drive) else { return all(Slice::Away) };
        let plan = self.plan(range);
        let (raw, unread) = match self.blocks(fragment, range).await {
            Ok(raw) => (raw, BTreeSet::new()),
            Err(Fault { kind: FaultKind::Away, .. }) => return all(Slice::Unread),
            Err(_) => self.one_by_one(fragment, plan.first_block(), plan.blocks(), patience).await,
        };
        if !dev.geometry().keeps_payload {
            return all(Slice::Good(super::hollow::zeros(SLICE)));
        }
        let good = slices(&plan, &raw, self.chunk(fragment), 0).enumerate().map(|(number, slice)| match slice {
            Ok(bytes) => Slice::Good(raw.slice_ref(bytes)),
            Err(_) if touches(&unread, range.start / SLICE as u32 + number as u32, plan.first_block()) => Slice::Unread,
            Err(_) => Slice::Bad,
        });
        good.collect()
    }

    /// Blocks of a fragment's record, each by itself: zeros for those that cannot be read, and which those are.
    async fn one_by_one(
        &self,
        fragment: usize,
        first: Blocks,
        count: Blocks,
        patience: &Patience,
    ) -> (Bytes, BTreeSet<u64>) {
        let (mut raw, mut unread) = (BytesMut::new(), BTreeSet::new());
        for block in 0..count.0 {
            let found = match patience.of(fragment) {
                0 => None,
                left => {
                    let (found, left) = self.one(fragment, first + Blocks(block), left).await;
                    patience.set(fragment, left);
                    found
                }
            };
            match found {
                Some(bytes) => raw.extend_from_slice(&bytes),
                None => {
                    unread.insert(block);
                    raw.resize(raw.len() + Blocks(1).bytes() as usize, 0);
                }
            }
        }
        (raw.freeze(), unread)
    }

    /// A block of a fragment's record, and how many more may fail.
    async fn one(&self, fragment: usize, block: Blocks, left: usize) -> (Option<Bytes>, usize) {
        for _ in 0..TRIES {
            match self.record_blocks(fragment, block, Blocks(1)).await {
                Some(Ok(bytes)) => return (Some(bytes), left),
                Some(Err(error)) if is_of_the_block(&error.kind) => {}
                _ => return (None, 0),
            }
        }
        (None, left - 1)
    }

    /// `None` if the drive is not there, or does not answer in time.
    async fn record_blocks(&self, fragment: usize, block: Blocks, count: Blocks) -> Option<DeviceResult<Bytes>> {
        let member = self.members[fragment];
        let dev = self.drives.usable(member.drive)?;
        let at = dev.geometry().start_of(member.zone) + Blocks(u64::from(self.place.block)) + block;
        self.answer(member.drive, dev, at, count).await.1
    }
}

/// Another block of the drive may be readable.
fn is_of_the_block(kind: &DeviceErrorKind) -> bool {
    matches!(kind, DeviceErrorKind::ReadFailed | DeviceErrorKind::System(_))
}

/// True if slice `number` lies in one of those blocks, which are counted from the record's block `first`.
fn touches(blocks: &BTreeSet<u64>, number: u32, first: Blocks) -> bool {
    let place = shingle_record::slice_place(number);
    let block = |byte: usize| (byte / shingle_base::BLOCK_SIZE) as u64 - first.0;
    blocks.range(block(place.start)..=block(place.end - 1)).next().is_some()
}

/// A range in pieces that are looked at one after the other.
fn windows(range: &Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let end = range.end;
    range.clone().step_by(WINDOW as usize).map(move |start| start..end.min(start.saturating_add(WINDOW)))
}
