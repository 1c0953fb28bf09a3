//! The array's memory of openings that lost something.
//!
//! # Invariants
//! - AS-LOSS-1: an opening that goes on without something that was acknowledged says so in an object of the array before it is used:
//!   what layers above find missing from before then may have been lost, and proves nothing, until they have seen to all that
//!   is left of it.

use bytes::Bytes;

use crate::append::item::Item;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::object::own_names::LOSS_NAME;
use crate::object::progress::InFlight;
use crate::store::ArrayStore;
use crate::types::{Completion, Part, Version};
use std::rc::Rc;

impl Engine {
    /// Remembers that something was lost. (AS-LOSS-1)
    pub(crate) async fn remember_loss(self: &Rc<Self>) -> Result<()> {
        let name = Bytes::from_static(LOSS_NAME);
        let version = Version(self.stamps.next());
        self.lifecycle.lost_before.set(Some(version));
        let progress = self.puts.begin(name.clone(), version);
        let flight = InFlight::new(&progress);
        let completion = Some(Completion { size: 0, attributes: Bytes::new() });
        let part = Part { name, version, offset: 0, at: 0, length: 0, completion };
        let item = Item::Shared { parts: vec![part.clone()], data: Bytes::new(), together: false };
        let placed = match self.append_to_spare(&item).await {
            Err(error) if error.kind == ErrorKind::NoSpace => {
                tracing::error!(%error, "that something was lost could not be remembered: the array is full");
                Ok(())
            }
            Err(error) => Err(error),
            Ok(placed) => self.complete_at(vec![(&progress, &part, placed.place(&part))]),
        };
        self.puts.end(&progress);
        drop(flight);
        placed
    }
}

impl ArrayStore {
    /// All that was left of what was lost is seen to: from now on what is missing was deleted.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn settle_loss(&self) -> Result<()> {
        let engine = self.engine();
        engine.delete(Bytes::from_static(LOSS_NAME)).await?;
        engine.lifecycle.lost_before.set(None);
        Ok(())
    }

    /// When an opening last went on without something that had been acknowledged: of what was written before, parts may be
    /// missing that nobody deleted. `None` if that never was.
    ///
    /// # Errors
    /// `Index`, `Stopped`.
    pub fn lost_before(&self) -> Result<Option<Version>> {
        let found = self.engine().index()?.object(LOSS_NAME).map_err(Error::index)?;
        Ok(found.map(|found| found.version).max(self.engine().lifecycle.lost_before.get()))
    }
}
