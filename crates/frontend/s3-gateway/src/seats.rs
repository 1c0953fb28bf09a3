//! Seats of connections: how many there may be, and who gives up a seat for another.
//!
//! An idle socket costs its owner nothing. If it kept its seat, a client with enough of them would lock all others out. So would
//! those who read from a drive that does not answer.
//!
//! # Invariants
//! - GW-SEAT-1: a connection with a request under way, or an answer, keeps its seat.
//! - GW-SEAT-2: while no seat is free, a newcomer gets one from the address that has most silent connections: that of the one
//!   that has been silent for longest.
//! - GW-SEAT-3: where none is silent, one that has waited for the store's next bytes of a GET or HEAD for a long time counts as silent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::Method;
use s3s::{Body, StdError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A connection that has been silent for less may be about to speak: it has just come, or just had its answer.
const SILENT_MIN: Duration = Duration::from_secs(1);

/// A read that has waited for the store for less may only stand in the queue of a drive that many ask.
const LATE_MIN: Duration = Duration::from_secs(15);

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
    /// Since when it waits for bytes of the store, if it only reads.
    asked: Option<Instant>,
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
        let silent = Some(Instant::now());
        taken.by.insert(number, Connection { address, silent, asked: None, writing: false, leave: leave.clone() });
        Some(Seat { seats: self.clone(), number, leave })
    }
}

impl Connection {
    fn silent_for(&self) -> Option<Duration> {
        self.silent.filter(|_| !self.writing).map(|since| since.elapsed())
    }

    fn late_for(&self) -> Option<Duration> {
        self.asked.filter(|_| !self.writing).map(|since| since.elapsed()).filter(|time| *time >= LATE_MIN)
    }
}

impl Taken {
    /// The connection that goes for a newcomer. (GW-SEAT-2, GW-SEAT-3)
    fn leaver(&self) -> Option<&Connection> {
        let silent = |one: &Connection| one.silent_for().filter(|time| *time >= SILENT_MIN);
        self.longest(silent).or_else(|| self.longest(Connection::late_for))
    }

    /// Of the address that has most such connections, the one that has been so for longest.
    fn longest(&self, so_for: impl Fn(&Connection) -> Option<Duration>) -> Option<&Connection> {
        let such = || self.by.values().filter_map(|one| Some((one, so_for(one)?)));
        let mut of_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        such().for_each(|(one, _)| *of_address.entry(one.address).or_default() += 1);
        such().max_by_key(|(one, time)| (of_address.get(&one.address), *time)).map(|(one, _)| one)
    }
}

impl Seat {
    /// A request is under way on this connection until the answer is dropped.
    pub(crate) fn busy(self: &Arc<Self>, method: &Method) -> Busy {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        self.change(|connection| {
            connection.silent = None;
            connection.asked = reads.then(Instant::now);
        });
        Busy(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Connection)) {
        self.seats.taken().by.get_mut(&self.number).map(change);
    }

    /// The end of an answer waits for the client, or went out: the answer itself is dropped before that. (GW-SEAT-1)
    pub(crate) fn writing(&self, waits: bool) {
        self.change(|connection| {
            connection.writing = waits;
            connection.silent = connection.silent.map(|_| Instant::now());
            connection.asked = connection.asked.map(|_| Instant::now());
        });
    }

    /// Completes when the connection has to leave. (GW-SEAT-1, GW-SEAT-3)
    pub(crate) async fn left(&self) {
        loop {
            self.leave.notified().await;
            let taken = self.seats.taken();
            let may_go = |one: &Connection| one.silent_for().or_else(|| one.late_for()).is_some();
            if taken.by.get(&self.number).is_none_or(may_go) {
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
        Body::http_body_unsync(Sending { body, busy: self })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|connection| {
            connection.silent = Some(Instant::now());
            connection.asked = None;
        });
    }
}

struct Sending {
    body: Body,
    busy: Busy,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        // It waits for the next one from now on.
        this.busy.0.change(|connection| connection.asked = connection.asked.map(|_| Instant::now()));
        Poll::Ready(frame)
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
        let busy = taken[1].busy(&Method::GET);
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
        drop(seat.busy(&Method::PUT));
        seat.writing(true);
        tokio::time::sleep(10 * SILENT_MIN).await;
        assert!(seats.take_now(address(2)).is_none() && seats.taken().leaver().is_none());
        seat.writing(false);
        assert!(seats.taken().leaver().is_none(), "it may be about to speak");
        tokio::time::sleep(SILENT_MIN).await;
        assert!(seats.taken().leaver().is_some());
    }

    /// GW-SEAT-3.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_drive_for_long_gives_up_the_seat_if_it_only_reads() {
        let seats = Seats::new(3);
        let mut taken = Vec::new();
        for method in [Method::PUT, Method::GET, Method::HEAD] {
            let seat = Arc::new(seats.take(address(1)).await);
            let busy = seat.busy(&method);
            tokio::time::sleep(Duration::from_millis(1)).await;
            taken.push((seat, busy));
        }
        let leaver = || seats.taken().leaver().map(|one| one.leave.clone());
        tokio::time::sleep(LATE_MIN - SILENT_MIN).await;
        assert!(leaver().is_none(), "its turn at the drive may come");
        // The GET is answered in part, and waits anew.
        let frames =
            futures_util::stream::iter([b"a", b"b"].map(|bytes| std::io::Result::Ok(Bytes::from_static(bytes))));
        let (get, busy) = taken.remove(1);
        let mut answer = busy.until_sent(Body::from(s3s::dto::StreamingBlob::wrap(frames)));
        let frame = std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context)).await;
        assert!(frame.is_some());
        tokio::time::sleep(SILENT_MIN).await;
        let head = &taken[1].0;
        assert!(Arc::ptr_eq(&leaver().unwrap(), &head.leave), "the HEAD is the one that waits for longest");
        assert!(seats.take_now(address(2)).is_none());
        head.left().await;
        drop(taken.remove(1));
        let newcomer = Arc::new(seats.take(address(2)).await);
        let _busy = newcomer.busy(&Method::POST);
        assert!(leaver().is_none(), "a write is not broken off, and the GET waits for a moment");
        get.writing(true);
        tokio::time::sleep(2 * LATE_MIN).await;
        assert!(leaver().is_none(), "it waits for its client");
        get.writing(false);
        tokio::time::sleep(LATE_MIN).await;
        assert!(Arc::ptr_eq(&leaver().unwrap(), &get.leave));
    }
}
