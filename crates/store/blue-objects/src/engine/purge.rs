//! Removing bytes that nobody names any more, behind everyone's back. The list is durable, so what is on it at a power cut goes after the
//! next opening. (BO-OBJ-4)

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{join_all, select};
use shingle_blue_store::BlueErrorKind;
use shingle_store_api::StoreResult;

use super::Core;
use super::counting::PAGE;
use crate::format::{Held, Record};
use crate::ids;

/// Pieces after which a transaction takes no more parts: it happens in one step, with all metadata of its pieces in memory.
const PIECES: usize = 8;

impl Core {
    /// A reader of these bytes has gone.
    pub(super) fn unpin(&self, number: u64) {
        if self.pins.unpin(number) {
            self.purge.wake();
        }
    }

    pub(super) async fn run_purge(self: Rc<Self>) {
        loop {
            let wanted = self.purge.wanted();
            if self.closing.get() {
                return;
            }
            let now = self.rt.now();
            let batch = self.purge.batch(now, |held| !self.pins.is_pinned(held.number()));
            if batch.is_empty() {
                match self.purge.next_try(now) {
                    Some(at) => {
                        let _ = select(pin!(self.rt.sleep(at.since(now))), pin!(wanted)).await;
                    }
                    None => wanted.await,
                }
                continue;
            }
            let results = join_all(batch.iter().map(|held| self.remove_bytes(*held))).await;
            let again = self.rt.now() + self.options.purge_pause;
            for (held, result) in batch.into_iter().zip(results) {
                match result {
                    Ok(()) => self.purge.gone(&held),
                    // Others go on meanwhile.
                    Err(error) if self.purge.put_off(held, again) => {
                        tracing::warn!(%error, "bytes that nobody names could not be removed; it is tried again");
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Removes bytes, and takes them from the list.
    async fn remove_bytes(self: &Rc<Self>, held: Held) -> StoreResult<()> {
        // A reader that has looked their name up before it went, and has not pinned them yet, waits and looks again.
        let _going = self.pins.going(held.number());
        if let Held::Upload(id) = held {
            self.layouts.forget(id);
            self.remove_parts(id).await?;
        }
        let mut change = self.change();
        match held {
            Held::Blob(blob) => change.remove(&self.pieces(blob).await?),
            Held::Upload(id) => match self.store.stat(&ids::parts(id)).await {
                Ok(_) => change.remove(&[ids::parts(id)]),
                Err(error) if error.kind == BlueErrorKind::NotFound => {}
                Err(error) => return Err(self.failed(error)),
            },
        }
        change.transaction.omap_remove(&ids::going(), held.key()).may_pass();
        change.submit().await
    }

    /// Removes all parts of an upload but its list of them.
    async fn remove_parts(self: &Rc<Self>, id: u64) -> StoreResult<()> {
        let index = ids::parts(id);
        loop {
            let page = match self.store.omap_list(&index, b"", PAGE).await {
                Err(error) if error.kind == BlueErrorKind::NotFound => return Ok(()),
                page => page.map_err(|error| self.failed(error))?,
            };
            if page.is_empty() {
                return Ok(());
            }
            let (mut change, mut removed) = (self.change(), 0);
            for (name, value) in page {
                // A value that is spoilt leaves pieces behind, which a check finds.
                if let Ok(Record { held: Some(Held::Blob(blob)), .. }) = Record::decode_part(&value) {
                    let pieces = self.pieces(blob).await?;
                    removed += pieces.len();
                    change.remove(&pieces);
                }
                change.transaction.omap_remove(&index, name);
                if removed >= PIECES {
                    break;
                }
            }
            change.transaction.may_pass();
            change.submit().await?;
        }
    }
}
