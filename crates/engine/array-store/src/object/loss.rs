//! The array's memory of openings that lost something.
//!
//! # Invariants
//! - AS-LOSS-1: the superblock that goes on without something that was acknowledged says so: of what layers above find
//!   from before then, parts may be missing, and prove nothing, until they have seen to all that is left of it.
//!   `an_accepted_loss_is_known_whenever_the_opening_is_cut`.

use bytes::Bytes;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::object::own_names::LOSS_NAME;
use crate::store::ArrayStore;
use crate::types::Version;

impl Engine {
    /// When an array of a version before 9 lost something: it has an object that says so.
    fn lost_by_name(&self) -> Result<Option<Version>> {
        Ok(self.index()?.object(LOSS_NAME).map_err(Error::index)?.map(|found| found.version))
    }
}

impl ArrayStore {
    /// All that was left of what was lost is seen to: from now on what is missing was deleted. Durable when it returns.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn settle_loss(&self) -> Result<()> {
        let engine = self.engine();
        if engine.lost_by_name()?.is_some() {
            engine.delete(Bytes::from_static(LOSS_NAME)).await?;
        }
        let lost_before = engine.superblock.lost_before.replace(0);
        let written = engine.write_superblock(None).await;
        if written.is_err() {
            engine.superblock.lost_before.set(lost_before);
        }
        written
    }

    /// When an opening last went on without something that had been acknowledged: of what was written before, parts may be
    /// missing that nobody deleted. `None` if that never was.
    ///
    /// # Errors
    /// `Index`, `Stopped`.
    pub fn lost_before(&self) -> Result<Option<Version>> {
        let said = Some(Version(self.engine().superblock.lost_before.get())).filter(|said| said.0 > 0);
        Ok(said.max(self.engine().lost_by_name()?))
    }
}
