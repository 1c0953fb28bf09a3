//! The way from a program's threads to the owner of the files.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;

use crate::awake::Awake;
use crate::wire::{Answer, Call, owner_gone};

/// A way to the owner.
pub trait Link: Send + Sync {
    /// Hands in a call, behind those that this process handed in before (FS-ORDER-1), and returns. The answer goes to `answering`, on another thread.
    fn send(&self, call: Call, data: Bytes, answering: Answering);
}

/// One who appends, and does not wait for each answer.
pub(crate) trait Appends: Send + Sync {
    /// So many bytes are answered for. A good answer says that all bytes of the file before `written` are written.
    fn take_answer(&self, bytes: u64, written: Option<u64>, answer: Answer);
}

enum To {
    /// It waits for nothing that one who hands in a call may hold: other answers come behind it.
    Then(Box<dyn FnOnce(Answer) + Send>),
    /// Answers of one who appends become one, as there are a hundred thousand in a second.
    Appends { to: Arc<dyn Appends>, bytes: u64, written: Option<u64> },
}

/// Takes the answer of a call. One that is dropped says that the owner is gone. (FS-ANSWER-1)
pub struct Answering(Option<To>);

impl Answering {
    fn new(then: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Some(To::Then(Box::new(then))))
    }

    /// Tells one who appends.
    pub(crate) fn appends(to: Arc<dyn Appends>, bytes: u64, written: Option<u64>) -> Self {
        Self(Some(To::Appends { to, bytes, written }))
    }

    /// Lets the answer go.
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// A taker, and where its answer appears.
    pub(crate) fn waited() -> (Self, Receiver<Answer>) {
        let (sender, receiver) = channel();
        let answering = Self::new(move |answer| {
            // The caller may have gone.
            let _ = sender.send(answer);
        });
        (answering, receiver)
    }

    pub(crate) fn is_nobody(&self) -> bool {
        self.0.is_none()
    }

    /// Takes another's answer on, too. Gives the other back if it tells somebody else.
    pub(crate) fn join(&mut self, mut other: Self) -> Option<Self> {
        match (&mut self.0, &other.0) {
            (Some(To::Appends { to, bytes, written }), Some(To::Appends { to: next, bytes: more, written: end }))
                if std::ptr::addr_eq(Arc::as_ptr(to), Arc::as_ptr(next)) =>
            {
                (*bytes, *written) = (*bytes + more, (*written).max(*end));
                other.0 = None;
                None
            }
            _ => Some(other),
        }
    }

    pub(crate) fn give(mut self, answer: Answer) {
        self.tell(answer);
    }

    fn tell(&mut self, answer: Answer) {
        match self.0.take() {
            Some(To::Then(then)) => then(answer),
            Some(To::Appends { to, bytes, written }) => to.take_answer(bytes, written, answer),
            None => {}
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.tell(Err(owner_gone()));
        }
    }
}

/// Waits for an answer.
pub(crate) fn wait(answer: &Receiver<Answer>, awake: &Awake) -> Answer {
    awake.receive(answer).unwrap_or_else(|_| Err(owner_gone()))
}
