//! Flushes of a device, one at a time.
//!
//! An operating system tells of a lost write once: of two flushes that run side by side one fails, and the other says that all is durable. So
//! one follows the other, and those that come while one runs share the next.

use std::cell::Cell;

use tokio::sync::Mutex;

/// The turn of flushes.
#[derive(Default)]
pub struct Flushes {
    turn: Mutex<()>,
    /// Flushes that have begun.
    begun: Cell<u64>,
    /// The last of them that succeeded.
    succeeded: Cell<u64>,
}

impl Flushes {
    /// Calls `flush`, behind the one that runs; or shares one that began behind this call. Once a flush has failed, `flush` has to fail before
    /// it asks the system again.
    ///
    /// # Errors
    /// Those of `flush`.
    pub async fn call<E>(&self, flush: impl AsyncFnOnce() -> Result<(), E>) -> Result<(), E> {
        let needed = self.begun.get() + 1;
        let _turn = self.turn.lock().await;
        if self.succeeded.get() >= needed {
            return Ok(());
        }
        let own = self.begun.get() + 1;
        self.begun.set(own);
        flush().await?;
        self.succeeded.set(own);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use futures_util::FutureExt;
    use futures_util::future::{join, join3};
    use tokio::sync::oneshot;

    use super::*;

    /// Flushes of a system, each of which ends when the test says how.
    #[derive(Default)]
    struct System {
        flushes: Flushes,
        running: RefCell<VecDeque<oneshot::Sender<Result<(), ()>>>>,
        gone: Cell<bool>,
    }

    impl System {
        async fn flush(&self) -> Result<(), ()> {
            let flush = async || {
                if self.gone.get() {
                    return Err(());
                }
                let (end, ended) = oneshot::channel();
                self.running.borrow_mut().push_back(end);
                ended.await.unwrap().inspect_err(|()| self.gone.set(true))
            };
            self.flushes.call(flush).await
        }

        fn end(&self, result: Result<(), ()>) {
            assert_eq!(self.running.borrow().len(), 1, "one at a time");
            self.running.borrow_mut().pop_front().unwrap().send(result).unwrap();
        }
    }

    /// ZD-FD-4, ZL-KD-5.
    #[test]
    fn a_flush_beside_one_that_fails_does_not_succeed() {
        let system = System::default();
        let mut both = Box::pin(join(system.flush(), system.flush()));
        assert!(both.as_mut().now_or_never().is_none());
        system.end(Err(()));
        assert_eq!(both.as_mut().now_or_never(), Some((Err(()), Err(()))));
    }

    #[test]
    fn those_that_come_meanwhile_share_the_next() {
        let system = System::default();
        let mut first = Box::pin(system.flush());
        assert!(first.as_mut().now_or_never().is_none());
        let mut others = Box::pin(join3(system.flush(), system.flush(), system.flush()));
        assert!(others.as_mut().now_or_never().is_none());
        system.end(Ok(()));
        assert_eq!(first.as_mut().now_or_never(), Some(Ok(())));
        assert!(others.as_mut().now_or_never().is_none());
        system.end(Ok(()));
        assert_eq!(others.as_mut().now_or_never(), Some((Ok(()), Ok(()), Ok(()))));
    }
}
