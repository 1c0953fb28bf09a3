//! Signals that stop a server in order.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// The signals that stop a server in order.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal is gone.
    hangup: Signal,
}

impl Signals {
    /// From now on they end nothing by themselves.
    ///
    /// # Errors
    /// `System`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
            hangup: caught(SignalKind::hangup())?,
        })
    }

    /// Completes with the next of them.
    pub(crate) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// A signal that ends nothing from now on.
///
/// # Errors
/// `System`.
pub(crate) fn caught(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Error::system("no handler for signals", error))
}
