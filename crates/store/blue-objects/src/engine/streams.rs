//! Bytes that are written while they come: each segment is a transaction. The first of them also puts the bytes on the list of what goes,
//! from which the transaction that names them takes them (BO-OBJ-4).

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use shingle_blue_store::{Access, Transaction};
use shingle_runtime::memory::Reservation;
use shingle_store_api::StoreResult;
use tokio::sync::mpsc;

use super::Core;
use super::writers::Stream;
use crate::format::Held;
use crate::ids;
use crate::notices::{Notice, Open};

/// Segments of a stream that are on their way to the drive, at most, when the next one is taken.
const UNDER_WAY: u32 = 2;

/// Bytes that a writer has written when it commits.
pub(crate) struct Written {
    /// Bytes that were handed on while they came.
    pub(crate) open: Option<Open>,
    /// All that came since.
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) _memory: Option<Reservation>,
}

/// Pieces as one, uncopied where it is one.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}

impl Core {
    /// Begins a stream with its first bytes. They are durable, and on the list of what goes, when it returns.
    pub(crate) async fn begin_stream(
        self: &Rc<Self>,
        pieces: Vec<Bytes>,
        _memory: Option<Reservation>,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> StoreResult<Open> {
        let number = self.fresh()?;
        let (stream, data) = (Rc::new(Stream::default()), joined(pieces));
        self.writers.insert(number, stream.clone());
        let open = Open::writer(number, notices);
        let mut transaction = Transaction::new();
        transaction.omap_set(&ids::going(), Held::Blob(number).key(), Vec::new());
        stream.size.set(data.len() as u64);
        self.write_bytes(&mut transaction, number, 0, data, Access::Sequential);
        self.store.submit(ids::COLLECTION.id, transaction).await.map_err(|error| self.failed(error))?;
        Ok(open)
    }

    /// Takes the next bytes of a stream, and the memory for them until they are written. They are on their way when it returns; a failure is told
    /// by the next call.
    pub(crate) async fn write_on(
        self: &Rc<Self>,
        number: u64,
        pieces: Vec<Bytes>,
        memory: Option<Reservation>,
    ) -> StoreResult<()> {
        let stream = self.writers.get(number)?;
        stream.fewer_than(UNDER_WAY).await;
        stream.working()?;
        let data = joined(pieces);
        let at = stream.size.replace(stream.size.get() + data.len() as u64);
        let mut transaction = Transaction::new();
        self.write_bytes(&mut transaction, number, at, data, Access::Sequential);
        stream.under_way.set(stream.under_way.get() + 1);
        let done = self.store.submit(ids::COLLECTION.id, transaction);
        let core = self.clone();
        self.rt.spawn_detached(async move {
            if let Err(error) = done.await {
                core.failed(error.clone());
                stream.failed.borrow_mut().get_or_insert(error);
            }
            drop(memory);
            stream.under_way.set(stream.under_way.get() - 1);
            stream.moved.notify_waiters();
        });
        Ok(())
    }

    /// Waits for the end of a stream. Returns its bytes so far.
    async fn end_stream(&self, number: u64) -> StoreResult<u64> {
        let stream = self.writers.get(number)?;
        stream.fewer_than(1).await;
        stream.working()?;
        Ok(stream.size.get())
    }

    /// Adds all that is to be done for a writer's bytes to the transaction that names them. Returns what they are held by, and how many.
    pub(super) async fn add_written(
        &self,
        to: &mut Transaction,
        open: Option<&Open>,
        pieces: Vec<Bytes>,
    ) -> StoreResult<(Option<Held>, u64)> {
        let data = joined(pieces);
        let length = data.len() as u64;
        let Some(open) = open else {
            if data.is_empty() {
                return Ok((None, 0));
            }
            let number = self.fresh()?;
            self.write_bytes(to, number, 0, data, Access::Unknown);
            return Ok((Some(Held::Blob(number)), length));
        };
        let before = self.end_stream(open.number).await?;
        let held = Held::Blob(open.number);
        self.write_bytes(to, open.number, before, data, Access::Sequential);
        to.omap_remove(&ids::going(), held.key());
        Ok((Some(held), before + length))
    }

    /// The writer has gone. Its bytes go, unless they have a name.
    pub(super) fn drop_stream(self: &Rc<Self>, number: u64) {
        let Some(stream) = self.writers.remove(number) else { return };
        stream.ended.set(true);
        let core = self.clone();
        self.rt.spawn_detached(async move {
            stream.fewer_than(1).await;
            core.purge.add(Held::Blob(number));
        });
    }
}
