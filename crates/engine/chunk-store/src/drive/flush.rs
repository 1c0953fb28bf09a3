//! Flushes of a volatile cache, shared by all who wait for one.
//!
//! # Invariants
//! - CS-FLUSH-1: a caller returns only after a flush that began after its call, so its completed writes are durable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::Lba;
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceError, DeviceErrorKind, ZonedDevice};
use tokio::sync::oneshot;

/// A write's or flush's outcome; one error may be many callers'.
pub(crate) type Outcome = Result<(), Arc<DeviceError>>;

/// Makes completed writes durable; callers that come while a flush is under way share the next.
pub(crate) struct Flusher {
    rt: Runtime,
    dev: Rc<dyn ZonedDevice>,
    waiting: RefCell<Vec<oneshot::Sender<Outcome>>>,
    busy: Cell<bool>,
}

impl Flusher {
    pub(crate) fn new(rt: Runtime, dev: Rc<dyn ZonedDevice>) -> Rc<Self> {
        Rc::new(Self { rt, dev, waiting: RefCell::default(), busy: Cell::new(false) })
    }

    /// Writes `data` at `at` and makes it durable.
    pub(crate) async fn write(self: &Rc<Self>, at: Lba, data: Vec<Bytes>) -> Outcome {
        self.dev.write(at, data).await.map_err(Arc::new)?;
        self.flush().await
    }

    /// Makes every completed command durable. At once where the device has no volatile cache.
    pub(crate) async fn flush(self: &Rc<Self>) -> Outcome {
        if !self.dev.geometry().volatile_cache {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        if !self.busy.replace(true) {
            self.rt.spawn(self.clone().rounds());
        }
        receiver.await.unwrap_or_else(|_| Err(Arc::new(DeviceError::new(DeviceErrorKind::Gone, Lba(0), None))))
    }

    async fn rounds(self: Rc<Self>) {
        loop {
            let round = std::mem::take(&mut *self.waiting.borrow_mut());
            if round.is_empty() {
                self.busy.set(false);
                return;
            }
            let outcome = self.dev.flush().await.map_err(Arc::new);
            for waiter in round {
                let _ = waiter.send(outcome.clone());
            }
        }
    }
}
