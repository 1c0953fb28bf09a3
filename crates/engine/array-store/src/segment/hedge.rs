//! Reading of a part: from its data fragments, or from any others where those fail or are late. (SMORE, section III-G;
//! hedged requests: Dean and Barroso, The Tail at Scale.)
//!
//! A read asks for the fragments that hold its bytes. Fragments of a drive that is known to be slow are not waited for:
//! others are read in their place from the start. One that has not answered by its deadline is raced: others are read,
//! and what verifies first counts. Its own answer is dropped when it comes.
//!
//! # Invariants
//! - AS-READ-2: a read ends once as many fragments answered as the code has of data, whatever the others do.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_base::BufferPool;
use shingle_erasure::Coder;
use shingle_record::SLICE_SIZE;
use shingle_runtime::Instant;

use super::read::{Fault, FaultKind, Source};
use super::shape::Piece;
use crate::pace::{Answer, Ticket};
use crate::types::DriveId;

/// A range of a fragment on its way.
struct Flight {
    drive: DriveId,
    ticket: Ticket,
    answer: Answer,
}

/// End of a flight.
enum Landing {
    Raw(Bytes),
    Failed(Fault),
    /// It is on its way still, unless it was not asked for at all.
    Late(Option<Flight>),
}

/// Flights that are waited for together, and when to ask whether they are late.
struct Flights<'s> {
    source: &'s Source<'s>,
    began: Instant,
    deadline: Duration,
    /// Wait until the next look at them.
    patience: Duration,
    /// With their fragments.
    under_way: Vec<Option<(usize, Flight)>>,
}

/// A look at flights.
enum Seen {
    /// That one, of that fragment, answered.
    Answered(usize, usize, Result<Bytes, Fault>),
    /// Some are late.
    Late,
}

impl<'s> Flights<'s> {
    fn new(source: &'s Source<'s>, deadline: Duration) -> Self {
        let began = source.paces.runtime().now();
        Self { source, began, deadline, patience: deadline, under_way: Vec::new() }
    }

    /// Asks for a range of a fragment; the number of the flight.
    fn begin(&mut self, fragment: usize, range: &Range<u32>) -> Result<usize, Fault> {
        let (ticket, answer) = self.source.ask(fragment, range)?;
        let drive = self.source.members[fragment].drive;
        self.under_way.push(Some((fragment, Flight { drive, ticket, answer })));
        Ok(self.under_way.len() - 1)
    }

    fn drives(&self) -> impl Iterator<Item = DriveId> {
        self.under_way.iter().flatten().map(|(_, flight)| flight.drive)
    }

    fn waited(&self) -> Duration {
        self.source.paces.runtime().now().since(self.began)
    }

    /// Waits until one answers, or until all that are under way are late.
    async fn look(&mut self) -> Seen {
        let rt = self.source.paces.runtime().clone();
        let due = (self.began + self.patience).since(rt.now());
        let seen = {
            let under_way = &mut self.under_way;
            let next = poll_fn(|context| {
                for (number, slot) in under_way.iter_mut().enumerate() {
                    if let Some((fragment, flight)) = slot
                        && let Poll::Ready(answer) = flight.answer.as_mut().poll(context)
                    {
                        let fragment = *fragment;
                        *slot = None;
                        return Poll::Ready((number, fragment, answer));
                    }
                }
                Poll::Pending
            });
            match select(pin!(next), pin!(rt.sleep(due))).await {
                Either::Left((seen, _)) => Some(seen),
                Either::Right(_) => None,
            }
        };
        if let Some((number, fragment, answer)) = seen {
            let answer = answer.map_err(|error| self.source.device_fault(fragment, error));
            return Seen::Answered(number, fragment, answer);
        }
        let now = rt.now();
        self.under_way.iter().flatten().for_each(|(_, flight)| flight.ticket.is_late(now));
        self.patience = (self.patience * 2).max(Duration::from_nanos(1));
        Seen::Late
    }
}

impl Source<'_> {
    /// True if fragments enough lie on drives that are there and not slow.
    fn is_spared(&self) -> bool {
        let quick =
            |fragment: &usize| self.drives.usable(self.members[*fragment].drive).is_some() && !self.is_slow(*fragment);
        (0..self.members.len()).filter(quick).count() >= self.shape.code().data()
    }

    /// Ranges of other fragments that give `avoided` pieces back, together with `asked` ones.
    fn helpers(&self, avoided: &[&Piece], asked: &[&Piece]) -> Vec<Piece> {
        let (Some(start), Some(end)) = (
            avoided.iter().map(|piece| widened(&piece.range).start).min(),
            avoided.iter().map(|piece| widened(&piece.range).end).max(),
        ) else {
            return Vec::new();
        };
        let covers = |piece: &&&Piece| piece.range.start <= start && end <= piece.range.end;
        let lacking = self.shape.code().data().saturating_sub(asked.iter().filter(covers).count());
        let taken = |fragment: &usize| avoided.iter().chain(asked).any(|piece| piece.fragment == *fragment);
        let free = (0..self.members.len()).filter(|fragment| !taken(fragment) && !self.is_slow(*fragment));
        let free = free.filter(|&fragment| self.drives.usable(self.members[fragment].drive).is_some());
        free.take(lacking).map(|fragment| Piece { fragment, range: start..end }).collect()
    }

    /// Reads pieces side by side, until all have answered or what is late may be computed from others. `wanted` ones
    /// come first; the others help those that are not asked for.
    async fn read_pieces(&self, pieces: &[Piece], wanted: usize, avoided: &[bool]) -> Vec<Landing> {
        let most = pieces.iter().map(|piece| self.blocks_of(&piece.range)).max().unwrap_or_default();
        let mut flights = Flights::new(self, self.paces.deadline(most));
        let mut landed: Vec<Option<Landing>> = Vec::with_capacity(pieces.len());
        let mut of_flight = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            if avoided[number] {
                self.probe(piece.fragment, &piece.range);
                landed.push(Some(Landing::Late(None)));
                continue;
            }
            match flights.begin(piece.fragment, &piece.range) {
                Ok(_) => {
                    of_flight.push(number);
                    landed.push(None);
                }
                Err(fault) => landed.push(Some(Landing::Failed(fault))),
            }
        }
        self.paces.earn(wanted);
        while landed.iter().any(Option::is_none) {
            match flights.look().await {
                Seen::Answered(flight, _, Ok(raw)) => landed[of_flight[flight]] = Some(Landing::Raw(raw)),
                Seen::Answered(flight, _, Err(fault)) => landed[of_flight[flight]] = Some(Landing::Failed(fault)),
                Seen::Late => {
                    let late = |number: &usize| landed[*number].is_none();
                    let late = (0..pieces.len()).filter(late).map(|number| &pieces[number].range);
                    let extra = late.map(|range| self.lacking(range, pieces, &landed)).sum();
                    let (drives, waited) = (flights.drives().collect::<Vec<_>>(), flights.waited());
                    if self.paces.may_hedge(drives, extra, waited, flights.deadline, self.is_spared()) {
                        break;
                    }
                }
            }
        }
        let mut left = flights.under_way.into_iter();
        for number in of_flight {
            let flight = left.next().flatten().map(|(_, flight)| flight);
            if landed[number].is_none() {
                landed[number] = Some(Landing::Late(flight));
            }
        }
        landed.into_iter().flatten().collect()
    }

    /// Reads of other fragments that it takes to compute a range, with what has landed.
    fn lacking(&self, range: &Range<u32>, pieces: &[Piece], landed: &[Option<Landing>]) -> usize {
        let wide = widened(range);
        let there = pieces.iter().zip(landed).filter(|(piece, landing)| {
            matches!(landing, Some(Landing::Raw(_))) && piece.range.start <= wide.start && wide.end <= piece.range.end
        });
        self.shape.code().data().saturating_sub(there.count())
    }

    /// A range of fragment `wanted`, computed from others, and what went wrong; those that were `read` already are not
    /// read again, and `late` ones only if nothing else is left. The range is widened to whole slices.
    pub(super) async fn reconstruct(
        &self,
        coder: &RefCell<Coder>,
        wanted: &Piece,
        read: &[(&Piece, &[u8])],
        late: &[usize],
    ) -> (Option<Vec<u8>>, Vec<Fault>) {
        let range = &wanted.range;
        let wide = widened(range);
        let mut faults = Vec::new();
        let mut good: Vec<(usize, Cow<'_, [u8]>)> =
            read.iter().filter_map(|(piece, bytes)| at_hand(piece, bytes, &wide)).collect();
        let needed = self.shape.code().data();
        let tried = |number: usize| good.iter().any(|(other, _)| *other == number) || number == wanted.fragment;
        let mut untried: Vec<usize> = (0..self.members.len()).filter(|&number| !tried(number)).collect();
        untried.sort_by_key(|number| (late.contains(number), self.is_slow(*number)));
        let mut untried = untried.into_iter();
        let mut flights = Flights::new(self, self.paces.deadline(self.blocks_of(&wide)));
        // Drives that are waited for although others were begun in their place.
        let mut doubled = 0;
        while good.len() < needed {
            while good.len() + flights.drives().count() < needed + doubled
                && let Some(number) = untried.next()
            {
                if let Err(fault) = flights.begin(number, &wide) {
                    faults.push(fault);
                }
            }
            if flights.drives().next().is_none() {
                let found = self.slice_by_slice(coder, wanted, &wide, &faults).await;
                return (found, faults);
            }
            match flights.look().await {
                Seen::Answered(_, number, answer) => {
                    let mut bytes = Vec::with_capacity(wide.len());
                    match answer.and_then(|raw| self.verified(number, &wide, &raw, &mut bytes)) {
                        Ok(()) => good.push((number, Cow::Owned(bytes))),
                        Err(fault) => faults.push(fault),
                    }
                    doubled = doubled.min(flights.drives().count());
                }
                Seen::Late => {
                    let late: Vec<DriveId> = flights.drives().collect();
                    let extra = late.len().saturating_sub(doubled).min(untried.len());
                    let (waited, deadline) = (flights.waited(), flights.deadline);
                    if extra > 0 && self.paces.may_hedge(late, extra, waited, deadline, self.is_spared()) {
                        doubled += extra;
                    }
                }
            }
        }
        good.truncate(needed);
        good.sort_unstable_by_key(|(number, _)| *number);
        let present: Vec<(usize, &[u8])> = good.iter().map(|(number, bytes)| (*number, &**bytes)).collect();
        let made = coder.borrow_mut().reconstruct(&present, &[wanted.fragment]);
        let bytes = made.ok().and_then(|mut made| made.pop());
        (bytes.map(|bytes| narrowed(bytes, &wide, range)), faults)
    }

    /// The same where no fragments enough are whole in that range. (AS-READ-3)
    async fn slice_by_slice(
        &self,
        coder: &RefCell<Coder>,
        wanted: &Piece,
        wide: &Range<u32>,
        faults: &[Fault],
    ) -> Option<Vec<u8>> {
        // Of drives that are not there no slice can be had either.
        if faults.iter().all(|fault| fault.kind == FaultKind::Away) {
            return None;
        }
        let columns = self.columns(coder, wanted.fragment, wide).await;
        columns.lost.is_empty().then(|| narrowed(columns.bytes, wide, &wanted.range))
    }

    /// A piece that failed or is late: computed from others, or as it comes, whichever is sooner.
    async fn recover(
        &self,
        coder: &RefCell<Coder>,
        piece: &Piece,
        own: Own,
        read: &[(&Piece, &[u8])],
        late: &[usize],
    ) -> (Option<Vec<u8>>, Vec<Fault>) {
        let computing = pin!(self.reconstruct(coder, piece, read, late));
        let verified = |answer: Result<Bytes, Fault>| {
            let mut bytes = Vec::with_capacity(piece.range.len());
            answer.and_then(|raw| self.verified(piece.fragment, &piece.range, &raw, &mut bytes)).map(|()| bytes)
        };
        let checked = |answer: shingle_zoned::DeviceResult<Bytes>| {
            verified(answer.map_err(|error| self.device_fault(piece.fragment, error)))
        };
        let (answer, mut faults) = match own {
            Own::Failed => return computing.await,
            Own::Avoided => {
                let (found, faults) = computing.await;
                if found.is_some() {
                    return (found, faults);
                }
                match self.ask(piece.fragment, &piece.range) {
                    Ok((_, answer)) => (answer.await, faults),
                    Err(_) => return (None, faults),
                }
            }
            Own::UnderWay(flight) => match select(flight.answer, computing).await {
                Either::Left((answer, computing)) => match checked(answer) {
                    Ok(bytes) => return (Some(bytes), Vec::new()),
                    Err(fault) => {
                        let (found, mut faults) = computing.await;
                        faults.push(fault);
                        return (found, faults);
                    }
                },
                Either::Right(((Some(bytes), faults), _)) => return (Some(bytes), faults),
                Either::Right(((None, faults), answer)) => (answer.await, faults),
            },
        };
        match checked(answer) {
            Ok(bytes) => (Some(bytes), faults),
            Err(fault) => {
                faults.push(fault);
                (None, faults)
            }
        }
    }
}

/// The piece itself, beside its computation.
enum Own {
    Failed,
    /// It was not asked for: its drive is slow.
    Avoided,
    UnderWay(Flight),
}

/// A range in whole slices.
fn widened(range: &Range<u32>) -> Range<u32> {
    let slice = SLICE_SIZE as u32;
    range.start / slice * slice..range.end.next_multiple_of(slice)
}

/// The bytes of a range, of those of a wider one.
fn narrowed(mut bytes: Vec<u8>, wide: &Range<u32>, range: &Range<u32>) -> Vec<u8> {
    bytes.drain(..(range.start - wide.start) as usize);
    bytes.truncate(range.len());
    bytes
}

/// The part of a piece that was read which is that range of its fragment.
fn at_hand<'r>(piece: &Piece, bytes: &'r [u8], wide: &Range<u32>) -> Option<(usize, Cow<'r, [u8]>)> {
    let whole = piece.range.start <= wide.start && wide.end <= piece.range.end;
    let from = wide.start.checked_sub(piece.range.start)? as usize;
    whole.then_some(())?;
    bytes.get(from..from + wide.len()).map(|bytes| (piece.fragment, Cow::Borrowed(bytes)))
}

/// `length` bytes from `from` bytes into a part, and what went wrong on the way; `None` if too much did.
pub(crate) async fn read_part(
    source: &Source<'_>,
    coder: &RefCell<Coder>,
    pool: &BufferPool,
    from: u32,
    length: u32,
    faults: &mut Vec<Fault>,
) -> Option<Bytes> {
    let mut pieces = source.shape.pieces(source.place.at + from, length);
    let wanted = pieces.len();
    let spared = source.is_spared();
    let mut avoided: Vec<bool> = pieces.iter().map(|piece| spared && source.is_slow(piece.fragment)).collect();
    if avoided.contains(&true) {
        let (left, asked): (Vec<_>, Vec<_>) = pieces.iter().zip(&avoided).partition(|(_, avoided)| **avoided);
        let only = |pieces: Vec<(_, _)>| pieces.into_iter().map(|(piece, _)| piece).collect::<Vec<&Piece>>();
        let helpers = source.helpers(&only(left), &only(asked));
        avoided.resize(wanted + helpers.len(), false);
        pieces.extend(helpers);
    }
    let mut out = pool.take(length as usize);
    let mut starts = Vec::with_capacity(pieces.len());
    let mut missing: Vec<(usize, Own)> = Vec::new();
    let mut late = Vec::new();
    let mut helping = Vec::new();
    let landed = source.read_pieces(&pieces, wanted, &avoided).await;
    for (number, (piece, landing)) in pieces.iter().zip(landed).enumerate() {
        let into = if number < wanted { &mut out } else { &mut helping };
        starts.push(into.len());
        let own = match landing {
            Landing::Raw(raw) => match source.verified(piece.fragment, &piece.range, &raw, into) {
                Ok(()) => continue,
                Err(fault) => {
                    faults.push(fault);
                    Own::Failed
                }
            },
            Landing::Failed(fault) => {
                faults.push(fault);
                Own::Failed
            }
            Landing::Late(flight) => {
                late.push(piece.fragment);
                flight.map_or(Own::Avoided, Own::UnderWay)
            }
        };
        // Its place is kept for what is computed.
        into.resize(into.len() + piece.range.len(), 0);
        missing.push((number, own));
    }
    if missing.is_empty() {
        return Some(pool.share(out));
    }
    let absent: Vec<usize> = missing.iter().map(|(number, _)| *number).collect();
    let found = {
        let bytes_of = |number: usize| {
            let from = if number < wanted { &out } else { &helping };
            &from[starts[number]..][..pieces[number].range.len()]
        };
        let there = (0..pieces.len()).filter(|number| !absent.contains(number));
        let good: Vec<_> = there.map(|number| (&pieces[number], bytes_of(number))).collect();
        let missing = missing.into_iter().filter(|(number, _)| *number < wanted);
        let recovering = missing.map(|(number, own)| {
            let (good, late, piece) = (&good, &late, &pieces[number]);
            async move { (number, source.recover(coder, piece, own, good, late).await) }
        });
        join_all(recovering).await
    };
    for (number, (bytes, more)) in found {
        faults.extend(more);
        let bytes = bytes?;
        out[starts[number]..][..bytes.len()].copy_from_slice(&bytes);
    }
    Some(pool.share(out))
}
