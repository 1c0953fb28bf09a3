//! Waiting of controllers for something to do.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use shingle_runtime::Instant;

use super::Control;

/// Reason for which a controller's wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Few zones are free.
    Room,
    /// The time is over.
    Timer,
    /// The volume closes, or has stopped: commands fail from now on.
    Closing,
}

impl Control {
    /// Waits until few zones are free, the volume closes, or so much time has passed.
    pub async fn wait(&self, most: Duration) -> Event {
        let woken = pin!(self.engine.wakes.control.notified());
        if let Some(event) = self.event() {
            return event;
        }
        select(woken, pin!(self.engine.rt.sleep(most))).await;
        self.event().unwrap_or(Event::Timer)
    }

    /// Waits for so much time.
    pub async fn sleep(&self, time: Duration) {
        self.engine.rt.sleep(time).await;
    }

    /// The time now, as the volume's clock has it.
    pub fn now(&self) -> Instant {
        self.engine.rt.now()
    }

    /// Completes when the volume begins to close, or has stopped.
    pub async fn closing(&self) {
        loop {
            let woken = self.engine.wakes.control.notified();
            if self.event() == Some(Event::Closing) {
                return;
            }
            woken.await;
        }
    }

    /// Few zones are free.
    pub fn wants_room(&self) -> bool {
        self.engine.wants_room(&self.engine.state.borrow())
    }

    fn event(&self) -> Option<Event> {
        let state = self.engine.state.borrow();
        if self.engine.closing.get() || state.stopped.is_some() {
            Some(Event::Closing)
        } else {
            self.engine.wants_room(&state).then_some(Event::Room)
        }
    }
}
