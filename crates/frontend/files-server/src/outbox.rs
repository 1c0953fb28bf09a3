//! Calls of this process's threads, on their way to the owner: one queue, in their order.
//!
//! A database flushes its log a hundred thousand times a second, and waits for none of it. Such calls lie here for a moment, and those of one
//! file that follow each other become one call. A call that somebody waits for wakes the owner at once, which takes all before it, too.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::select;
use shingle_runtime::Runtime;
use tokio::sync::Notify;

use crate::awake::{AWAKE, Awake};
use crate::link::Answering;
use crate::wire::{Answer, Call, Then};

/// Time for which calls lie here that nobody waits for.
const HOLD: Duration = Duration::from_millis(2);
/// Most bytes of flushes that become one.
const JOINED_MAX: usize = 256 << 10;

/// A call on its way.
pub(crate) struct Job {
    pub(crate) call: Call,
    data: BytesMut,
    answering: Answering,
    /// Others' of the flushes that were joined to this one.
    others: Vec<Answering>,
}

impl Job {
    fn new(call: Call, data: Bytes, answering: Answering) -> Self {
        Self { call, data: data.into(), answering, others: Vec::new() }
    }

    /// Nobody waits for it.
    fn can_wait(&self) -> bool {
        self.answering.is_nobody() || matches!(self.call, Call::Append { then: Then::Flush, .. })
    }

    /// Adds a flush of the same file behind this one; gives it back if they cannot be one.
    fn join(&mut self, next: Self) -> Option<Self> {
        let both_flush = matches!(self.call, Call::Append { then: Then::Flush, .. }) && self.call == next.call;
        if !both_flush || self.data.len() + next.data.len() > JOINED_MAX {
            return Some(next);
        }
        self.data.extend_from_slice(&next.data);
        self.others.extend(self.answering.join(next.answering));
        None
    }

    /// The bytes that come with the call.
    pub(crate) fn take_data(&mut self) -> Bytes {
        std::mem::take(&mut self.data).freeze()
    }

    pub(crate) fn answer(self, answer: Answer) {
        for other in self.others {
            other.give(answer.clone());
        }
        self.answering.give(answer);
    }
}

/// The owner's thread, as those who hand in calls see it.
#[derive(Default, PartialEq, Eq)]
enum Owner {
    /// It will look at the queue before it waits.
    #[default]
    Works,
    /// It waits for a moment, or for a call that cannot wait.
    Rests,
    /// It waits for any call.
    Sleeps,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    owner: Owner,
    /// A call in the queue cannot wait.
    urgent: bool,
    /// The owner is to look at its files, though no call may come.
    looks: bool,
    /// No more calls are taken.
    ended: bool,
}

/// The queue.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    woken: Notify,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in a call. If the owner has ended it is dropped, and says so.
    pub(crate) fn push(&self, call: Call, data: Bytes, answering: Answering) {
        let job = Job::new(call, data, answering);
        let can_wait = job.can_wait();
        let refused = {
            let state = &mut *self.lock();
            if state.ended {
                Some(job)
            } else {
                let left = match state.jobs.back_mut() {
                    Some(last) => last.join(job),
                    None => Some(job),
                };
                state.jobs.extend(left);
                state.urgent |= !can_wait;
                if state.owner == Owner::Sleeps || (state.owner == Owner::Rests && !can_wait) {
                    state.owner = Owner::Works;
                    self.woken.notify_one();
                }
                None
            }
        };
        // Not under the lock: it tells those who wait.
        drop(refused);
    }

    /// All calls that are there now.
    pub(crate) fn take(&self) -> VecDeque<Job> {
        let state = &mut *self.lock();
        state.urgent = false;
        std::mem::take(&mut state.jobs)
    }

    /// Has the owner look at its files.
    pub(crate) fn look(&self) {
        self.lock().looks = true;
        self.woken.notify_one();
    }

    /// The next calls, once they need the owner; none if it is to look at its files. `None` after the last.
    pub(crate) async fn next(&self, rt: &Runtime, awake: &Awake) -> Option<VecDeque<Job>> {
        if !self.urgent_awake(rt, awake).await && self.may_rest() {
            let (woken, rested) = (pin!(self.woken.notified()), pin!(rt.sleep(HOLD)));
            // Either will do.
            let _ = select(woken, rested).await;
        }
        loop {
            {
                let state = &mut *self.lock();
                state.owner = Owner::Works;
                if !state.jobs.is_empty() || std::mem::take(&mut state.looks) {
                    state.urgent = false;
                    return Some(std::mem::take(&mut state.jobs));
                }
                if state.ended {
                    return None;
                }
                state.owner = Owner::Sleeps;
            }
            self.woken.notified().await;
        }
    }

    /// Looks for a call that cannot wait, awake. False if none came.
    async fn urgent_awake(&self, rt: &Runtime, awake: &Awake) -> bool {
        if !awake.tries() {
            return false;
        }
        let began = rt.now();
        while rt.now().since(began) < AWAKE {
            let ends = {
                let state = self.lock();
                state.urgent || state.looks || state.ended
            };
            if ends {
                awake.note(false);
                return true;
            }
            rt.yield_now().await;
        }
        awake.note(true);
        false
    }

    fn may_rest(&self) -> bool {
        let state = &mut *self.lock();
        let rests = !state.urgent && !state.looks && !state.ended;
        if rests {
            state.owner = Owner::Rests;
        }
        rests
    }

    /// Takes no more calls; those that are there are still the owner's.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.woken.notify_one();
    }
}

/// The owner's hold on its queue: when the thread ends, however it does, all who wait are told.
pub(crate) struct Taking(pub(crate) Arc<Outbox>);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.end();
        drop(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::link::Appends;
    use crate::wire::Reply;

    struct Told(Mutex<Sender<(u64, Answer)>>);

    impl Appends for Told {
        fn take_answer(&self, bytes: u64, _: Option<u64>, answer: Answer) {
            self.0.lock().unwrap().send((bytes, answer)).unwrap();
        }
    }

    const FLUSH: Call = Call::Append { handle: 1, then: Then::Flush };

    /// FS-ORDER-1: a flush joins the last call alone, and each who flushed is answered.
    #[test]
    fn flushes_of_one_file_that_follow_each_other_become_one() {
        let (outbox, (told, answers)) = (Outbox::default(), channel());
        let told = Arc::new(Told(Mutex::new(told)));
        let push = |call: Call, data: &'static [u8]| {
            let answering = Answering::appends(told.clone(), data.len() as u64, None);
            outbox.push(call, Bytes::from_static(data), answering);
        };
        push(FLUSH, b"one");
        push(FLUSH, b"two");
        push(Call::Stat { path: "/x".to_owned() }, b"");
        push(FLUSH, b"three");
        push(Call::Append { handle: 2, then: Then::Flush }, b"other");
        push(Call::Append { handle: 2, then: Then::Sync }, b"synced");
        let mut taken = Vec::new();
        for mut job in outbox.take() {
            taken.push((job.call.clone(), job.take_data()));
            job.answer(Ok(Reply::Done));
        }
        let data: Vec<&[u8]> = taken.iter().map(|(_, data)| data.as_ref()).collect();
        assert_eq!(data, [&b"onetwo"[..], b"", b"three", b"other", b"synced"]);
        assert_eq!(answers.try_iter().map(|(bytes, _)| bytes).collect::<Vec<_>>(), [6, 0, 5, 5, 6]);
        assert!(outbox.take().is_empty());
        // Those of two writers stay apart. FS-ANSWER-1.
        push(FLUSH, b"late");
        let (other, others) = channel();
        let answering = Answering::appends(Arc::new(Told(Mutex::new(other))), 7, None);
        outbox.push(FLUSH, Bytes::from_static(b"another"), answering);
        drop(Taking(Arc::new(outbox)));
        for (answers, bytes) in [(answers, 4), (others, 7)] {
            assert!(matches!(answers.try_iter().collect::<Vec<_>>()[..], [(found, Err(_))] if found == bytes));
        }
    }
}
