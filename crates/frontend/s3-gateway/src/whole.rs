//! Memory for a part of a body that must have come whole before it can be checked: a signed chunk, or XML.
//!
//! A client could send each of its bytes late, and hold the rest of a budget. So the wait for memory has an end, and the
//! client is told to come again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use shingle_runtime::memory::{Memory, Reservation};

/// Longest wait for memory: shorter than clients' timeouts.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Whole {
    memory: Arc<Memory>,
    reserved: Option<Reservation>,
    awaited: Option<Pin<Box<dyn Future<Output = Option<Reservation>> + Send>>>,
}

impl Whole {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, reserved: None, awaited: None }
    }

    /// Ready once there is memory for a part of `bytes`, in place of the part before; `false` if there is none in time.
    pub(crate) fn poll_room(&mut self, bytes: usize, context: &mut Context<'_>) -> Poll<bool> {
        let awaited = match &mut self.awaited {
            Some(awaited) => awaited,
            None => {
                if self.reserved.as_ref().is_some_and(|reserved| reserved.bytes() == bytes) {
                    return Poll::Ready(true);
                }
                self.reserved = None;
                let memory = self.memory.clone();
                let taking = async move { tokio::time::timeout(PATIENCE, memory.take_all(bytes)).await.ok() };
                self.awaited.insert(Box::pin(taking))
            }
        };
        self.reserved = ready!(awaited.as_mut().poll(context));
        self.awaited = None;
        Poll::Ready(self.reserved.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_memory_in_time_is_told() {
        let memory = Memory::new(16 << 20, 1);
        let mut parts: Vec<_> = (0..3).map(|_| Whole::new(memory.clone())).collect();
        let [first, second, third] = &mut parts[..] else { unreachable!() };
        assert!(poll_fn(|context| first.poll_room(6 << 20, context)).await);
        assert!(poll_fn(|context| second.poll_room(1 << 20, context)).await, "its share");
        let began = tokio::time::Instant::now();
        assert!(!poll_fn(|context| third.poll_room(6 << 20, context)).await);
        assert_eq!(began.elapsed(), PATIENCE);
        // The next part of the first is small.
        assert!(poll_fn(|context| first.poll_room(100, context)).await);
        assert!(poll_fn(|context| third.poll_room(6 << 20, context)).await);
    }
}
