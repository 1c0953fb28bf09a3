//! Seats of connections: how many there may be, and who gives up a seat for another.
//!
//! An idle socket costs its owner nothing. If it kept its seat, a client with enough of them would lock all others out.
//!
//! # Invariants
//! - GW-SEAT-1: a connection with a request under way, or an answer, keeps its seat.
//! - GW-SEAT-2: while no seat is free, a newcomer gets one from the address that has most silent connections: that of the one
//!   that has been silent for longest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use s3s::{Body, StdError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A connection that has been silent for less may be about to speak: it has just come, or just had its answer.
const SILENT_MIN: Duration = Duration::from_secs(1);

/// All seats.
pub(crate) struct Seats {
    max: usize,
    taken: Mutex<Taken>,
    /// A seat is free.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    by: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Since when nothing is under way on it; `None` while something is.
    silent: Option<Instant>,
    /// Bytes of an answer wait for the client to take them.
    writing: bool,
    /// Told to give up its seat.
    leave: Arc<Notify>,
}

/// The seat of a connection, until it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    leave: Arc<Notify>,
}

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default(), freed: Notify::new() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a connection from `address`, once there is one.
    pub(crate) async fn take(self: &Arc<Self>, address: IpAddr) -> Seat {
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.take_now(address) {
                return seat;
            }
            // By then a connection may have been silent for long enough.
            let _ = tokio::time::timeout(SILENT_MIN / 4, freed).await;
        }
    }

    /// A free seat; if there is none, one silent connection is told to leave (GW-SEAT-2).
    fn take_now(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut taken = self.taken();
        if taken.by.len() >= self.max {
            if let Some(leaver) = taken.leaver() {
                leaver.leave.notify_one();
            }
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let leave = Arc::new(Notify::new());
        taken
            .by
            .insert(number, Connection { address, silent: Some(Instant::now()), writing: false, leave: leave.clone() });
        Some(Seat { seats: self.clone(), number, leave })
    }
}

impl Taken {
    fn leaver(&self) -> Option<&Connection> {
        let silent_for = |one: &Connection| one.silent.filter(|_| !one.writing).map(|since| since.elapsed());
        let silent = || self.by.values().filter(|one| silent_for(one).is_some_and(|time| time >= SILENT_MIN));
        let mut of_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        silent().for_each(|connection| *of_address.entry(connection.address).or_default() += 1);
        silent().max_by_key(|connection| (of_address.get(&connection.address), silent_for(connection)))
    }
}

impl Seat {
    /// Something is under way on this connection until the answer is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.set(None);
        Busy(self.clone())
    }

    fn set(&self, silent: Option<Instant>) {
        if let Some(connection) = self.seats.taken().by.get_mut(&self.number) {
            connection.silent = silent;
        }
    }

    /// The end of an answer waits for the client, or went out: the answer itself is dropped before that. (GW-SEAT-1)
    pub(crate) fn writing(&self, waits: bool) {
        if let Some(connection) = self.seats.taken().by.get_mut(&self.number) {
            connection.writing = waits;
            connection.silent = connection.silent.map(|_| Instant::now());
        }
    }

    /// Completes when the connection has to leave. (GW-SEAT-1)
    pub(crate) async fn left(&self) {
        loop {
            self.leave.notified().await;
            let taken = self.seats.taken();
            if taken.by.get(&self.number).is_none_or(|one| one.silent.is_some() && !one.writing) {
                return;
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken().by.remove(&self.number);
        self.seats.freed.notify_one();
    }
}

/// Keeps a connection from being taken for a silent one.
pub(crate) struct Busy(Arc<Seat>);

impl Busy {
    /// `body`, which keeps the seat until it is sent. One that lies in memory is sent at once.
    pub(crate) fn until_sent(self, body: Body) -> Body {
        if body.bytes().is_some() {
            return body;
        }
        Body::http_body_unsync(Sending { body, _busy: self })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
    }
}

struct Sending {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// GW-SEAT-1 and GW-SEAT-2.
    #[tokio::test(start_paused = true)]
    async fn the_silent_give_up_their_seats_and_the_busy_do_not() {
        let seats = Seats::new(4);
        let mut taken = Vec::new();
        for last in [1, 2, 2, 3] {
            taken.push(Arc::new(seats.take(address(last)).await));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let busy = taken[1].busy();
        let told = |seat: &Arc<Seat>| {
            let seat = seat.clone();
            tokio::spawn(async move { seat.left().await })
        };
        let leaving: Vec<_> = taken.iter().map(told).collect();
        // Of the silent ones each is alone with its address: the first has been silent for longest.
        let newcomer = tokio::spawn({
            let seats = seats.clone();
            async move { seats.take(address(9)).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(leaving.iter().map(|left| left.is_finished()).collect::<Vec<_>>(), [true, false, false, false]);
        assert!(!newcomer.is_finished(), "a seat is free when its connection is gone");
        drop(taken.remove(0));
        let newcomer = newcomer.await.unwrap();
        // Now the second address has two that are silent.
        drop(busy);
        tokio::time::sleep(SILENT_MIN).await;
        assert!(seats.take_now(address(8)).is_none());
        tokio::task::yield_now().await;
        assert_eq!(leaving[1..].iter().map(|left| left.is_finished()).collect::<Vec<_>>(), [false, true, false]);
        drop(newcomer);
        assert!(seats.take_now(address(8)).is_some());
    }

    /// GW-SEAT-1, of the end of an answer.
    #[tokio::test(start_paused = true)]
    async fn whoever_is_slow_to_take_an_answer_is_not_silent() {
        let seats = Seats::new(1);
        let seat = Arc::new(seats.take(address(1)).await);
        drop(seat.busy());
        seat.writing(true);
        tokio::time::sleep(10 * SILENT_MIN).await;
        assert!(seats.take_now(address(2)).is_none() && seats.taken().leaver().is_none());
        seat.writing(false);
        assert!(seats.taken().leaver().is_none(), "it may be about to speak");
        tokio::time::sleep(SILENT_MIN).await;
        assert!(seats.taken().leaver().is_some());
    }
}
