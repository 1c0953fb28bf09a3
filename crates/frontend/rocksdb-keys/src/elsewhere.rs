//! A value on its way to a thread that must not end it.

use std::thread::{self, ThreadId};

/// A value that the thread to which it is on its way gives up, if nobody takes it there. All other threads end it. (RKK-END-1)
pub(crate) struct Elsewhere<T> {
    value: Option<T>,
    receiver: ThreadId,
    give_up: fn(T),
}

impl<T> Elsewhere<T> {
    /// On its way to the thread `receiver`.
    pub(crate) fn new(value: T, receiver: ThreadId, give_up: fn(T)) -> Self {
        Self { value: Some(value), receiver, give_up }
    }

    pub(crate) fn take(mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take()
            && thread::current().id() == self.receiver
        {
            (self.give_up)(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::mem;

    use tokio::sync::oneshot;

    use super::*;

    thread_local! {
        static ENDED: Cell<u32> = const { Cell::new(0) };
        static GIVEN_UP: Cell<u32> = const { Cell::new(0) };
    }

    struct Database;

    impl Drop for Database {
        fn drop(&mut self) {
            ENDED.set(ENDED.get() + 1);
        }
    }

    fn on_its_way() -> Elsewhere<Database> {
        let give_up = |database| {
            GIVEN_UP.set(GIVEN_UP.get() + 1);
            mem::forget(database);
        };
        Elsewhere::new(Database, thread::current().id(), give_up)
    }

    /// RKK-END-1: an answer that has come, and that nobody takes any more, ends with its receiver, on the thread that must not end it.
    #[test]
    fn a_database_that_nobody_takes_is_not_closed_on_the_thread_that_asked_for_it() {
        let (answer, answered) = oneshot::channel();
        assert!(answer.send(on_its_way()).is_ok());
        drop(answered);
        assert_eq!((ENDED.get(), GIVEN_UP.get()), (0, 1));
        // One that comes too late is ended by the thread that sends it.
        let (answer, answered) = oneshot::channel();
        let late = on_its_way();
        drop(answered);
        let ended = thread::scope(|scope| {
            let sender = scope.spawn(move || {
                drop(answer.send(late));
                (ENDED.get(), GIVEN_UP.get())
            });
            sender.join().unwrap()
        });
        assert_eq!((ended, GIVEN_UP.get()), ((1, 0), 1));
        // One that is taken is its taker's.
        assert!(on_its_way().take().is_some_and(|database| {
            mem::forget(database);
            true
        }));
        assert_eq!((ENDED.get(), GIVEN_UP.get()), (0, 1));
    }
}
