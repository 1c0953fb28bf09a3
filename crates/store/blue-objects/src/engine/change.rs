//! A transaction that is being made, and the bytes that are let go with it.
//!
//! # Invariants
//! - BO-CHG-1: bytes are removed in the transaction that takes their last name, or are on the durable list of what goes with it.

use std::rc::Rc;

use shingle_blue_store::{ObjectId, Transaction};
use shingle_store_api::StoreResult;

use super::Core;
use super::pins::Going;
use crate::format::Held;
use crate::ids;

/// Bytes that are to be let go, and the objects that hold them; `None` if those are removed later, step by step.
pub(super) struct Found {
    held: Held,
    pieces: Option<Vec<ObjectId>>,
}

impl Core {
    /// Begins a transaction.
    pub(super) fn change(self: &Rc<Self>) -> Change<'_> {
        Change { core: self, transaction: Transaction::new(), going: Vec::new(), later: Vec::new() }
    }

    /// Looks for bytes that are to be let go.
    pub(super) async fn found(&self, held: Option<Held>) -> Option<Found> {
        let held = held?;
        let pieces = match held {
            // Pieces that cannot be looked at keep nobody from taking their name: they are tried again later.
            Held::Blob(blob) => self.pieces(blob).await.ok(),
            Held::Upload(_) => None,
        };
        Some(Found { held, pieces })
    }
}

/// A transaction that is being made.
pub(super) struct Change<'c> {
    core: &'c Core,
    pub(super) transaction: Transaction,
    going: Vec<Going<'c>>,
    later: Vec<Held>,
}

impl Change<'_> {
    /// Lets bytes go. From here on to the submission there is one step: nobody begins to read them between. (BO-CHG-1)
    pub(super) fn release(&mut self, found: Option<Found>) {
        let Some(Found { held, pieces }) = found else { return };
        match pieces.filter(|_| !self.core.pins.is_pinned(held.number())) {
            Some(pieces) => {
                self.remove(&pieces);
                self.going.push(self.core.pins.going(held.number()));
            }
            None => {
                self.transaction.omap_set(&ids::going(), held.key(), Vec::new());
                self.later.push(held);
            }
        }
    }

    pub(super) fn remove(&mut self, pieces: &[ObjectId]) {
        for piece in pieces {
            self.transaction.remove(piece);
        }
    }

    /// Has it happen, durably.
    pub(super) async fn submit(self) -> StoreResult<()> {
        let Self { core, transaction, going, later } = self;
        let done = core.store.submit(ids::COLLECTION.id, transaction);
        let done = done.await.map_err(|error| core.failed(error));
        if done.is_ok() {
            later.into_iter().for_each(|held| core.purge.add(held));
        }
        drop(going);
        done
    }
}
