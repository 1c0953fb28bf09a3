//! Versions of objects that are being written: how far each has come, and which of them a deletion or a newer version
//! ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::allocator::{Allocator, Seat, SeatId};
use crate::append::item::Placed;
use crate::error::Error;
use crate::types::{Part, Version};

/// Progress of a version.
pub(crate) struct Progress {
    pub(crate) name: Bytes,
    pub(crate) version: Version,
    pub(crate) in_flight: Cell<usize>,
    pub(crate) landed: Notify,
    pub(crate) error: RefCell<Option<Error>>,
    /// The last part, which enters the index when all others have.
    pub(crate) last: RefCell<Option<Placed>>,
    /// Room for what comes next, and the turn.
    seat: RefCell<Option<Seat>>,
    /// More segments are ready: the turn is kept while earlier ones land.
    pub(crate) ready: Cell<bool>,
    /// Some of it was given to a segment, and is not called back: it may be on the drives at any moment.
    pub(crate) launched: Cell<bool>,
    /// Writes of its last part, or of all of it to the buffer, have begun: an opening may find it.
    pub(crate) started: Cell<bool>,
    /// Parts are in the index.
    pub(crate) begun: Cell<bool>,
    /// It was deleted, or a newer version was completed, before it was complete.
    pub(crate) overtaken: Cell<bool>,
}

impl Progress {
    fn new(name: Bytes, version: Version) -> Rc<Self> {
        Rc::new(Self {
            name,
            version,
            in_flight: Cell::new(0),
            landed: Notify::new(),
            error: RefCell::new(None),
            last: RefCell::new(None),
            seat: RefCell::new(None),
            ready: Cell::new(false),
            launched: Cell::new(false),
            started: Cell::new(false),
            begun: Cell::new(false),
            overtaken: Cell::new(false),
        })
    }

    pub(crate) fn name(&self) -> &Bytes {
        &self.name
    }

    /// Waits until no segment of it is on its way.
    pub(crate) async fn at_rest(&self) {
        loop {
            let landed = self.landed.notified();
            if self.in_flight.get() == 0 {
                return;
            }
            landed.await;
        }
    }

    /// Parts of it are in the index: a deletion finds it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// The seat that its segments are written from.
    pub(crate) fn sit_down(&self, allocator: &Rc<Allocator>) -> SeatId {
        self.seat.borrow_mut().get_or_insert_with(|| allocator.seat()).id
    }

    /// Gives back what room is left, and the turn.
    pub(crate) fn stand_up(&self) {
        drop(self.seat.take());
    }

    /// Gives the turn back if nothing is ready and nothing on its way: the drives would wait.
    pub(crate) fn rest(&self) {
        if !self.ready.get()
            && self.in_flight.get() == 0
            && let Some(seat) = &*self.seat.borrow()
        {
            seat.rest();
        }
    }
}

/// Versions that are being written, by name.
#[derive(Default)]
pub(crate) struct Puts(RefCell<BTreeMap<(Bytes, Version), Rc<Progress>>>);

impl Puts {
    /// A version that begins; deletions know of it.
    pub(crate) fn begin(&self, name: Bytes, version: Version) -> Rc<Progress> {
        let progress = Progress::new(name.clone(), version);
        self.0.borrow_mut().insert((name, version), progress.clone());
        progress
    }

    /// A version that is complete or given up, and has nothing on its way.
    pub(crate) fn end(&self, progress: &Progress) {
        self.0.borrow_mut().remove(&(progress.name.clone(), progress.version));
    }

    /// Writes of these parts begin.
    pub(crate) fn start(&self, parts: &[Part]) {
        let puts = self.0.borrow();
        for part in parts.iter().filter(|part| part.completion.is_some()) {
            if let Some(progress) = puts.get(&(part.name.clone(), part.version)) {
                progress.started.set(true);
            }
        }
    }

    /// Gives up all that are not complete: their names and versions.
    pub(crate) fn give_up_all(&self) -> Vec<(Bytes, Version)> {
        let puts = self.0.borrow();
        let given_up = puts.values().filter(|progress| !progress.overtaken.replace(true));
        given_up.map(|progress| (progress.name.clone(), progress.version)).collect()
    }

    /// True if versions of an object that began before `version` are in progress; and true if any of them may be on the
    /// drives already.
    pub(crate) fn in_progress(&self, name: &Bytes, version: Version) -> (bool, bool) {
        let puts = self.0.borrow();
        let ours = puts.range((name.clone(), Version(0))..(name.clone(), version));
        let mut ours = ours.map(|(_, progress)| progress).filter(|progress| !progress.overtaken.get()).peekable();
        (ours.peek().is_some(), ours.any(|progress| progress.launched.get()))
    }

    /// Versions in progress that a deletion or a newer version ended; those of them that have segments on their way.
    pub(crate) fn overtake(&self, name: &Bytes, which: impl Fn(Version) -> bool) -> Vec<Rc<Progress>> {
        let mut late = Vec::new();
        let puts = self.0.borrow();
        let from = (name.clone(), Version(0));
        for ((other, version), progress) in puts.range(from..) {
            if other != name {
                break;
            }
            if which(*version) {
                progress.overtaken.set(true);
                progress.last.borrow_mut().take();
                if progress.in_flight.get() > 0 {
                    late.push(progress.clone());
                }
            }
        }
        late
    }
}

/// A segment of a version, from before it is started until it is in the index or given up.
pub(crate) struct InFlight(Rc<Progress>);

impl InFlight {
    pub(crate) fn new(progress: &Rc<Progress>) -> Self {
        progress.in_flight.set(progress.in_flight.get() + 1);
        progress.launched.set(true);
        Self(progress.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.rest();
        self.0.landed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    #[test]
    fn only_older_versions_of_a_name_are_in_progress() {
        let puts = Puts::default();
        let (old, new) = (puts.begin(name("x"), Version(3)), puts.begin(name("x"), Version(7)));
        let _other = puts.begin(name("y"), Version(1));
        assert_eq!(puts.in_progress(&name("x"), Version(3)), (false, false));
        assert_eq!(puts.in_progress(&name("x"), Version(7)), (true, false));
        drop(InFlight::new(&old));
        assert_eq!(puts.in_progress(&name("x"), Version(7)), (true, true), "it may be on the drives");
        puts.end(&old);
        assert_eq!(puts.in_progress(&name("x"), Version(7)), (false, false));
        puts.end(&new);
        assert_eq!(puts.in_progress(&name("x"), Version(9)), (false, false));
    }

    #[test]
    fn versions_that_are_overtaken_are_no_longer_in_progress_and_those_with_segments_are_told() {
        let puts = Puts::default();
        let [one, two, three] = [1, 2, 3].map(|version| puts.begin(name("x"), Version(version)));
        let other = puts.begin(name("xx"), Version(1));
        let _segment = InFlight::new(&two);
        let late = puts.overtake(&name("x"), |version| version < Version(3));
        assert_eq!(late.iter().map(|progress| progress.version).collect::<Vec<_>>(), [Version(2)]);
        assert!(one.overtaken.get() && two.overtaken.get() && !three.overtaken.get() && !other.overtaken.get());
        assert_eq!(puts.in_progress(&name("x"), Version(3)), (false, false));
        let given_up = puts.give_up_all();
        assert_eq!(given_up, [(name("x"), Version(3)), (name("xx"), Version(1))], "the others were over before");
    }

    #[test]
    fn a_version_is_at_rest_when_its_last_segment_has_landed() {
        let progress = Puts::default().begin(name("x"), Version(1));
        let (one, two) = (InFlight::new(&progress), InFlight::new(&progress));
        drop(one);
        assert!(progress.at_rest().now_or_never().is_none());
        drop(two);
        assert!(progress.at_rest().now_or_never().is_some() && progress.launched.get());
    }
}
