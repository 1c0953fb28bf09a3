//! The next open set of a stream.

use std::rc::Rc;

use super::Allocator;
use super::groups::Overlap;
use crate::append::open_set::{OpenSet, Room, Stream};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Digest;
use crate::types::DriveSet;
use crate::zone_set::{Group, List, Purpose};

/// A set is being opened for a stream, until this is dropped: who needs one there waits.
struct Opening {
    allocator: Rc<Allocator>,
    stream: Stream,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.allocator.opening.borrow_mut().remove(&self.stream);
        self.allocator.changed.notify_waiters();
    }
}

impl Allocator {
    pub(super) fn is_opening(&self, stream: Stream) -> bool {
        self.opening.borrow().contains(&stream)
    }

    /// True if a stream's set is full by its reservations.
    pub(super) fn is_spent(&self, stream: Stream) -> bool {
        let Stream::User(slot) = stream else { return false };
        self.plan(|plan| {
            let (slots, own) = plan.slots_of(slot.into());
            slots.is_spent(own)
        })
    }

    /// Gives a slot a set with room for so much data, from its start or where it ended before.
    pub(crate) fn fill(&self, slot: u8, open: OpenSet, free: u64) {
        let (id, fresh) = (open.id, open.next == 0);
        self.plan(|plan| {
            let (slots, own) = plan.slots_of(slot.into());
            if fresh { slots.opened(own, id, free) } else { slots.reopened(own, id, free) }
        });
        self.put(Stream::User(slot), open);
    }
}

impl Engine {
    /// Opens the next set of a stream in place of the one that it has, unless somebody else is doing that.
    pub(crate) async fn open_next(self: &Rc<Self>, stream: Stream, room: Room) -> Result<()> {
        let allocator = &self.allocator;
        if !allocator.opening.borrow_mut().insert(stream) {
            return Ok(());
        }
        let _opening = Opening { allocator: allocator.clone(), stream };
        let _busy = self.lifecycle.busy.begin();
        let is_client = matches!(stream, Stream::User(_));
        // The rest of a client's set is room for smaller items until there is another one (AS-SHELF-2).
        if let Some(open) = allocator.take(stream) {
            match is_client && !open.flights.failed.get() {
                true => allocator.put(stream, open),
                false => self.close_set(open),
            }
        }
        let next = match self.open_set(stream, room).await {
            // Nothing can be won, or the writer would leave more. (AS-CLEAN-4)
            Err(error) if error.kind == ErrorKind::NoSpace && is_client && room.reserved < self.cleaners.reserved() => {
                self.idle_cleaners_set().ok_or(error)?
            }
            next => next?,
        };
        if let Some(full) = allocator.take(stream) {
            self.close_set(full);
        }
        if let Err(stopped) = self.writable() {
            self.close_set(next);
            return Err(stopped);
        }
        let free = self.data_left(&next);
        match stream {
            Stream::User(slot) => allocator.fill(slot, next, free),
            Stream::Clean(_) | Stream::Snapshot | Stream::Cold => allocator.put(stream, next),
        }
        Ok(())
    }

    /// Opens the next available set for `stream`, but for those that it leaves; none is won for it.
    async fn open_set(self: &Rc<Self>, stream: Stream, room: Room) -> Result<OpenSet> {
        let group = match stream {
            Stream::User(slot) => Some(self.allocator.plan(|plan| plan.group_of(slot.into()))),
            Stream::Clean(_) | Stream::Snapshot | Stream::Cold => None,
        };
        let mut steps = 0;
        loop {
            self.running()?;
            let without = if room.choosy { self.shunned(group) } else { DriveSet::EMPTY };
            let count = || self.sets.listed_without(List::Available, &without);
            let available = count();
            if available > room.reserved {
                let few = available <= self.available_sets() / 2;
                if few && self.sets.listed_without(List::Empty, &without) > 0 {
                    self.replenish(&without).await?;
                    if count() <= room.reserved {
                        continue;
                    }
                }
                // Cleaners write to drives of their own, each to others.
                let busy = match stream {
                    Stream::Clean(_) => self.allocator.drives_of_other_cleaners(stream),
                    _ => DriveSet::EMPTY,
                };
                let fit = self.fit_for(group);
                let best = self.sets.with_groups(|all| {
                    let rank = |drives: &DriveSet| (fit.ill(drives), drives.common(&busy), fit.overlap(group, drives));
                    let first = |of: &Group| of.list(List::Available).first().copied();
                    all.iter().filter_map(|(drives, of)| Some((rank(drives), first(of)?))).min()
                });
                let best = best.and_then(|(_, id)| Some((id, self.sets.get(id)?)));
                let Some((id, set)) = best.filter(|(_, set)| self.missing(set) <= self.code.parity()) else {
                    let message =
                        "too many drives are gone for any zone set to be written to: put them back or rebuild";
                    return Err(Error::new(ErrorKind::Device, message));
                };
                if let Some(group) = group
                    && steps < 3
                    && fit.overlap(Some(group), &set.drives()) > Overlap::default()
                {
                    // Sets on the group's drives are looked for, then drives for all groups, and then sets on those.
                    if steps == 1 {
                        self.settle_groups();
                    } else if let Err(error) = self.replenish_group(group).await {
                        tracing::warn!(%error, "a zone set on other drives is opened");
                    }
                    steps += 1;
                    // Somebody else may have opened it meanwhile.
                    continue;
                }
                set.open(if stream == Stream::Snapshot { Purpose::Index } else { Purpose::Objects });
                return Ok(OpenSet {
                    id,
                    members: set.ordered_members(id),
                    capacity: self.capacity(&set),
                    set,
                    epoch: self.stamps.next(),
                    next: 0,
                    digest: Digest::default(),
                    flights: Rc::default(),
                    packed: matches!(stream, Stream::Clean(_) | Stream::Cold),
                });
            }
            let free = self.sets.free_without(&without);
            if free > available {
                // Sets that another task makes available are waited for, too. A writer that comes late looks again.
                self.replenish(&without).await?;
                if count() > available || self.sets.free_without(&without) < free || self.await_resets(&without).await {
                    continue;
                }
            }
            if self.retry_stuck() {
                continue;
            }
            return Err(self.no_space());
        }
    }
}
