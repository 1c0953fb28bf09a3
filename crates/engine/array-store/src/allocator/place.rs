//! The one wait of an append: until the plan says that the item may go, and where to.

use std::rc::Rc;

use super::{Allocator, Pass, SeatId, Target, Want};
use crate::append::item::{Item, Placed, Started};
use crate::append::open_set::{OpenSet, Room, Stream};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::types::DriveSet;
use crate::zone_set::List;

/// Kind of the writer.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    /// Somebody who writes for clients, from a seat.
    Client(SeatId, Want),
    /// Another stream, which has a set of its own.
    Other(Stream),
}

/// One who asks for a place, until it has one or goes away. (AS-ALLOC-1)
struct Asking<'a> {
    engine: &'a Rc<Engine>,
    who: Who,
    /// The item, from when it is known.
    item: Item,
    /// The stream, once it is the asker's turn there.
    chosen: Option<Stream>,
    /// Its number among those who wait for drives.
    number: Option<u64>,
}

/// Result of asking once.
enum Answer {
    Started(Started),
    Wait,
    /// The stream's set has no room for the item, or there is none.
    Open(Stream),
}

/// Result of looking for room in any set.
enum Anywhere {
    Started(Started),
    /// A set was closed of which cleaning wins something.
    Closed,
    Full,
}

impl Engine {
    /// Appends an item, durably: tries again elsewhere if a member of its set fails.
    pub(crate) async fn append(self: &Rc<Self>, stream: Stream, item: &Item) -> Result<(Placed, usize)> {
        self.append_with(stream, stream.room(), item).await
    }

    /// The same, where sets may be taken that others may not.
    pub(crate) async fn append_with(
        self: &Rc<Self>,
        stream: Stream,
        room: Room,
        item: &Item,
    ) -> Result<(Placed, usize)> {
        self.append_as(Who::Other(stream), room, item).await
    }

    /// Appends what clients write, wherever there is room for it.
    pub(crate) async fn append_user(self: &Rc<Self>, item: &Item) -> Result<(Placed, usize)> {
        let seat = self.allocator.seat();
        self.append_from(seat.id, item).await
    }

    /// The same, in the group of that seat as long as it has room. It waits for no turn.
    pub(crate) async fn append_from(self: &Rc<Self>, seat: SeatId, item: &Item) -> Result<(Placed, usize)> {
        let length = item.length() as u64;
        let want = if matches!(item, Item::Run { .. }) { Want::Again(length) } else { Want::Small(length) };
        self.append_as(Who::Client(seat, want), Room::PLAIN, item).await
    }

    async fn append_as(self: &Rc<Self>, who: Who, room: Room, item: &Item) -> Result<(Placed, usize)> {
        loop {
            let (engine, item) = (self.clone(), item.clone());
            // Also if the caller waits no more. (AS-WRITE-4)
            let starting = self.rt.spawn(async move { engine.start(who, room, item).await });
            let started = starting.await.unwrap_or_else(|_| Err(Error::stopped()))?;
            let consumed = started.consumed;
            if let Some(placed) = self.finish(started).await? {
                return Ok((placed, consumed));
            }
        }
    }

    /// Finds a place for an item and starts its writes. The caller is a task that ends whoever waits for it.
    /// (AS-WRITE-4, AS-SHELF-2)
    pub(crate) async fn start(self: &Rc<Self>, who: Who, room: Room, item: Item) -> Result<Started> {
        let client = matches!(who, Who::Client(..));
        let small = client && !matches!(item, Item::Run { .. });
        let mut asking = Asking { engine: self, who, item, chosen: None, number: None };
        // As long as several cleaners win something, sets are left for all of them.
        let mut next = if room.reclaim { Room { reserved: self.cleaners.reserved(), ..room } } else { room };
        loop {
            // A small item goes to any open set before another one is won for it.
            if small {
                match asking.placed(next).await {
                    Err(error) if error.kind == ErrorKind::NoSpace => {}
                    started => return started,
                }
                if let Anywhere::Started(started) = asking.anywhere(false, next.choosy).await? {
                    return Ok(started);
                }
            }
            let full = loop {
                match asking.placed(next).await {
                    // Nothing is kept from others meanwhile: what is small may fit in the open set.
                    Err(error) if error.kind == ErrorKind::NoSpace => {
                        let without = if next.choosy { self.shunned(None) } else { DriveSet::EMPTY };
                        asking.rest();
                        if room.reclaim && self.reclaim_without(without).await? {
                            continue;
                        }
                        if client && next.choosy {
                            next.choosy = false;
                        } else if next.reserved == room.reserved {
                            break error;
                        } else {
                            next.reserved = room.reserved;
                        }
                    }
                    started => return started,
                }
            };
            if !client {
                return Err(full);
            }
            match asking.anywhere(true, next.choosy).await? {
                Anywhere::Started(started) => return Ok(started),
                Anywhere::Closed => {}
                Anywhere::Full => return Err(full),
            }
        }
    }
}

impl Asking<'_> {
    /// Waits until the item is on its way: in the open set of its stream, or in the next one.
    async fn placed(&mut self, room: Room) -> Result<Started> {
        let engine = self.engine.clone();
        loop {
            let changed = engine.allocator.changed.notified();
            match self.ask()? {
                Answer::Started(started) => return Ok(started),
                Answer::Wait => changed.await,
                Answer::Open(stream) => {
                    self.leave();
                    engine.open_next(stream, room).await?;
                }
            }
        }
    }

    /// The same, in any set that is open for clients and has room for it. If none has, the emptiest of those may be
    /// closed of which cleaning wins something; the others keep their room, for smaller items. One that is `choosy` leaves
    /// the groups that clients keep away from.
    async fn anywhere(&mut self, close: bool, choosy: bool) -> Result<Anywhere> {
        let engine = self.engine.clone();
        loop {
            let changed = engine.allocator.changed.notified();
            if let Some(found) = self.ask_anywhere(close, choosy)? {
                self.leave();
                return Ok(found);
            }
            changed.await;
        }
    }

    /// Target of the item if it may go now; then it is launched.
    fn ask(&mut self) -> Result<Answer> {
        self.is_wanted()?;
        // If its drives are slow by now another group is asked for. (AS-LANE-2)
        if matches!(self.who, Who::Client(..)) && self.chosen.is_some_and(|stream| !self.allocator().is_able(stream)) {
            self.chosen = None;
            self.leave();
        }
        let stream = match (self.chosen, self.who) {
            (Some(stream), _) | (None, Who::Other(stream)) => stream,
            (None, Who::Client(seat, want)) => {
                let Some((slot, most)) = self.allocator().plan(|plan| plan.next(seat, want)) else {
                    return Ok(Answer::Wait);
                };
                self.item.cut_to(most);
                Stream::User(slot as u8)
            }
        };
        self.chosen = Some(stream);
        if self.allocator().is_opening(stream) {
            self.leave();
            return Ok(Answer::Wait);
        }
        let Some(open) = self.allocator().take(stream) else { return Ok(Answer::Open(stream)) };
        if self.allocator().is_spent(stream) || open.flights.failed.get() || self.is_done_without(stream, &open) {
            self.allocator().put(stream, open);
            return Ok(Answer::Open(stream));
        }
        let Some(pass) = self.pass(open.target(&self.item)) else {
            self.allocator().put(stream, open);
            return Ok(Answer::Wait);
        };
        let (open, started) = self.launch(stream, open, pass);
        match started {
            // Drives are there: to come back for the digest would be a seek of all.
            Some(started) if matches!(stream, Stream::User(_)) && self.engine.is_full(&open) => {
                self.engine.close_set(open);
                Ok(Answer::Started(started))
            }
            started => {
                let fresh = open.next == 0;
                self.allocator().put(stream, open);
                match started {
                    Some(started) => Ok(Answer::Started(started)),
                    None if fresh => {
                        Err(Error::new(ErrorKind::Invalid, "a record is larger than a zone set of this array"))
                    }
                    None => Ok(Answer::Open(stream)),
                }
            }
        }
    }

    /// Looks for a set that has room for the item; `None`: drives have to land something first.
    fn ask_anywhere(&mut self, close: bool, choosy: bool) -> Result<Option<Anywhere>> {
        self.is_wanted()?;
        let entry = self.item.entry_bytes();
        let mut closed = false;
        let mut full = Vec::new();
        for slot in self.allocator().plan(|plan| plan.roomy()) {
            let stream = Stream::User(slot as u8);
            if choosy && !self.allocator().is_able(stream) {
                continue;
            }
            let Some(open) = self.allocator().take(stream) else { continue };
            if open.flights.failed.get() {
                // It takes nothing any more.
                self.engine.close_set(open);
                closed = true;
            } else if self.engine.fit(&open, &self.item, entry).is_some() {
                let Some(pass) = self.pass(open.target(&self.item)) else {
                    self.allocator().put(stream, open);
                    return Ok(None);
                };
                let (open, started) = self.launch(stream, open, pass);
                self.allocator().put(stream, open);
                return Ok(started.map(Anywhere::Started));
            } else {
                self.allocator().put(stream, open);
                full.push(stream);
            }
        }
        if closed {
            return Ok(Some(Anywhere::Closed));
        }
        let emptiest = if close { self.emptiest(full)? } else { None };
        match emptiest.and_then(|stream| self.allocator().take(stream)) {
            Some(open) => {
                self.engine.close_set(open);
                Ok(Some(Anywhere::Closed))
            }
            None => Ok(Some(Anywhere::Full)),
        }
    }

    /// Of these streams the one with the least that lives in its set, of those of which cleaning would win something.
    fn emptiest(&self, streams: Vec<Stream>) -> Result<Option<Stream>> {
        let mut emptiest: Option<(u64, Stream)> = None;
        for stream in streams {
            let Some(open) = self.allocator().take(stream) else { continue };
            let live = open.set.live();
            let wins = emptiest.is_none_or(|(least, _)| live < least).then(|| self.engine.wins_closed(&open));
            self.allocator().put(stream, open);
            if wins.transpose()? == Some(true) {
                emptiest = Some((live, stream));
            }
        }
        Ok(emptiest.map(|(_, stream)| stream))
    }

    /// Launches what of an item fits in a set; nothing if that is hardly anything.
    fn launch(&self, stream: Stream, mut open: OpenSet, pass: Pass) -> (OpenSet, Option<Started>) {
        let item = &self.item;
        let Some(body) = self.engine.fit(&open, item, item.entry_bytes()) else { return (open, None) };
        let started = self.engine.launch(&mut open, body, pass);
        if let (Stream::User(slot), Who::Client(seat, _)) = (stream, self.who) {
            let (bytes, whole) = (started.consumed as u64, started.consumed == item.length());
            self.allocator().plan(|plan| plan.launched(seat, slot.into(), bytes, whole));
        }
        (open, Some(started))
    }

    /// True if a set has a drive that is avoided, and its stream may have others now: another is opened in its place, as
    /// long as there are enough. (AS-LANE-2, AS-LANE-3)
    fn is_done_without(&self, stream: Stream, open: &OpenSet) -> bool {
        match self.who {
            Who::Client(..) => {
                self.allocator().keeps_away_from(stream, open) && self.engine.has_better_than(&open.set.drives())
            }
            Who::Other(Stream::User(_)) => false,
            Who::Other(stream) => {
                let shunned = self.engine.shunned(None);
                let others = || self.engine.sets.listed_without(List::Available, &shunned);
                open.set.drives().meets(&shunned) && others() > stream.room().reserved
            }
        }
    }

    /// Fails if the array is closed, or the writer gone.
    fn is_wanted(&self) -> Result<()> {
        self.engine.writable()?;
        let gone = |seat| !self.allocator().plan(|plan| plan.is_seated(seat));
        match self.who {
            Who::Client(seat, _) if gone(seat) => Err(Error::stopped()),
            _ => Ok(()),
        }
    }

    fn allocator(&self) -> &Rc<Allocator> {
        &self.engine.allocator
    }

    /// A place on the way to the drives, if they are free for that set; nothing may be awaited before the launch.
    fn pass(&mut self, target: Target) -> Option<Pass> {
        let before = self.number;
        let (number, launch) = self.allocator().plan(|plan| {
            let number = plan.flow.ask(before, target);
            let launch = plan.flow.launch(number);
            // Those behind it have one less before them.
            plan.moved |= launch.is_some() || before.is_some_and(|before| before != number);
            (number, launch)
        });
        self.number = Some(number).filter(|_| launch.is_none());
        launch.map(|launch| Pass { allocator: self.allocator().clone(), launch })
    }

    /// Gives the turn back to those of its group whose items have room, and keeps what is reserved: space may be long in coming. The turn is asked
    /// for again afterwards. (AS-ALLOC-1)
    fn rest(&mut self) {
        self.leave();
        if let Who::Client(seat, _) = self.who {
            self.chosen = None;
            self.allocator().plan(|plan| plan.rest(seat));
        }
    }

    /// Waits for drives no more.
    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.allocator().plan(|plan| {
                plan.flow.leave(number);
                plan.moved = true;
            });
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
