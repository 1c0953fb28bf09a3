//! The way from a program's threads to the owner of the files.

use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;

use crate::awake::Awake;
use crate::wire::{Answer, Call, owner_gone};

/// A way to the owner.
pub trait Link: Send + Sync {
    /// Hands in a call, behind those that this process handed in before (FS-ORDER-1), and returns. The answer goes to `answering`, on another thread.
    fn send(&self, call: Call, data: Bytes, answering: Answering);
}

/// Takes the answer of a call. One that is dropped says that the owner is gone. (FS-ANSWER-1)
pub struct Answering(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Answering {
    /// Gives the answer to `then`, which must not wait for anything that one who hands in a call may hold: other answers come behind it.
    pub(crate) fn new(then: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
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

    pub(crate) fn give(mut self, answer: Answer) {
        if let Some(then) = self.0.take() {
            then(answer);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(owner_gone()));
        }
    }
}

/// Waits for an answer.
pub(crate) fn wait(answer: &Receiver<Answer>, awake: &Awake) -> Answer {
    awake.receive(answer).unwrap_or_else(|_| Err(owner_gone()))
}
