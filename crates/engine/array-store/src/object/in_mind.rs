//! Room for puts that fail to be kept in mind: AS-PUT-4 of [`unsure`](crate::object::unsure).

use std::rc::Rc;

use bytes::Bytes;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Tombstone;

/// Names for which tombstones are written at once, and those that are looked at for them.
const BURIED_AT_ONCE: usize = 256;
const LOOKED_AT: usize = 1024;

impl Engine {
    /// Has room for a put of that name to be kept in mind, should it fail. (AS-PUT-4)
    ///
    /// # Errors
    /// `Device` if there is none, and that of the tombstones if those cannot be written: nothing of the put may have landed.
    pub(crate) async fn keep_in_mind(self: &Rc<Self>, name: &Bytes) -> Result<()> {
        if self.unsure.takes(name) {
            return Ok(());
        }
        // One at a time looks at others' names.
        let mut last = self.unsure.last.lock().await;
        if !self.unsure.takes(name) {
            self.bury_unsure(&mut last).await?;
        }
        if self.unsure.takes(name) {
            return Ok(());
        }
        let message = format!(
            "{} writes of the array failed, of each of which the next opening may find the object: put or delete those again, or open the array \
             anew",
            self.unsure.count()
        );
        Err(Error::new(ErrorKind::Device, message))
    }

    /// Writes tombstones for some of the names of which nothing was there before the put that failed, and that nobody writes now.
    async fn bury_unsure(self: &Rc<Self>, last: &mut Bytes) -> Result<()> {
        let mut buried = Vec::new();
        for name in self.unsure.behind(last, LOOKED_AT) {
            if buried.len() == BURIED_AT_ONCE {
                break;
            }
            *last = name.clone();
            let version = self.stamps.version();
            let there = !self.index()?.versions(&name).map_err(Error::index)?.is_empty();
            if !there && !self.puts.in_progress(&name, version).0 {
                buried.push(self.entomb(Tombstone { name, version }));
            }
        }
        for done in buried {
            done.await.unwrap_or_else(|_| Err(Error::stopped()))?;
        }
        Ok(())
    }
}
