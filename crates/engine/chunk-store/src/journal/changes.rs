//! Changes to chunks that the journal makes durable: create, seal and delete.
//!
//! **Knows nothing of** appends beyond waiting for those of a chunk that is to be sealed or deleted.

use std::future::Future;
use std::rc::Rc;

use shingle_base::ChunkId;
use tokio::sync::oneshot;

use crate::append::OpenChunk;
use crate::drive::{HOST_PAUSE, host_full};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CHUNK_BYTES, GROUP_BYTES, JournalEntry};
use crate::index::{Chunk, Handle};
use crate::state::StoreState;
use crate::types::Stream;

/// A caller of a seal: until it goes away, or has its answer, the chunk takes no appends.
struct Sealer {
    engine: Rc<Engine>,
    handle: Handle,
    birth: u64,
}

impl Drop for Sealer {
    fn drop(&mut self) {
        let state = &mut *self.engine.state.borrow_mut();
        if state.chunks.get(self.handle).is_some_and(|chunk| chunk.birth == self.birth)
            && let Some(open) = state.open.get_mut(&self.handle)
        {
            open.sealing.callers = open.sealing.callers.saturating_sub(1);
        }
    }
}

impl Engine {
    pub(crate) async fn create(self: &Rc<Self>, id: ChunkId, stream: Stream) -> Result<()> {
        self.has_host_room().map_err(|error| error.of(id))?;
        self.journal_room().await?;
        let journaled = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            if state.chunks.find(id).is_some() {
                return Err(Error::new(ErrorKind::Exists, "a chunk of this id exists").of(id));
            }
            self.has_index_room(&state, id, CHUNK_BYTES + GROUP_BYTES)?;
            let sequence = self.sequence.next();
            let handle = state.chunks.insert(Chunk::new(id, stream, sequence));
            state.open_chunk(handle, stream, 0, 0, true);
            self.journal(JournalEntry::Create { id, stream }, sequence)
        };
        match self.unless_stalled(Box::pin(journaled)).await {
            Ok(done) => done?,
            Err(journaled) => {
                let engine = self.clone();
                self.rt.spawn_detached(async move {
                    if journaled.await.is_ok() {
                        engine.undo_create(id).await;
                    }
                });
                return Err(host_full().of(id));
            }
        }
        self.set_creating(id, false);
        Ok(())
    }

    fn set_creating(&self, id: ChunkId, creating: bool) {
        let mut state = self.state.borrow_mut();
        if let Some(handle) = state.chunks.find(id)
            && let Some(open) = state.open.get_mut(&handle)
        {
            open.creating = creating;
        }
    }

    /// Deletes a chunk whose creation was refused while its entry waited for room on the host.
    async fn undo_create(self: &Rc<Self>, id: ChunkId) {
        loop {
            self.set_creating(id, false);
            match self.delete(id).await {
                Err(error) if error.kind == ErrorKind::HostFull => {
                    self.set_creating(id, true);
                    self.rt.sleep(HOST_PAUSE).await;
                }
                Err(error) => return tracing::warn!(chunk = %id, %error, "a chunk that nobody has stays"),
                Ok(()) => return,
            }
        }
    }

    pub(crate) async fn seal(self: &Rc<Self>, id: ChunkId) -> Result<u64> {
        self.has_host_room().map_err(|error| error.of(id))?;
        let caller = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            let (handle, chunk) = state.chunk(id)?;
            let birth = chunk.birth;
            if let Some(open) = state.open.get_mut(&handle) {
                open.sealing.callers += 1;
            }
            Sealer { engine: self.clone(), handle, birth }
        };
        self.finish_seal(caller.handle, caller.birth).await.map_err(|error| error.of(id))
    }

    /// Seals a chunk of which a failed append may be on the drive, however long that takes.
    /// A deletion that is under way may fail, too.
    pub(crate) async fn seal_at_last(self: Rc<Self>, handle: Handle, birth: u64) {
        while let Err(error) = self.finish_seal(handle, birth).await {
            {
                let state = self.state.borrow();
                if state.stopped.is_some() || state.chunks.get(handle).is_none_or(|chunk| chunk.birth != birth) {
                    return;
                }
            }
            if !matches!(error.kind, ErrorKind::HostFull | ErrorKind::NotFound) {
                tracing::warn!(%error, "a chunk whose append failed cannot be sealed yet");
            }
            self.log_changes().await;
            self.rt.sleep(HOST_PAUSE).await;
        }
    }

    /// Seals the chunk of that handle and birth, which is marked as sealing. Several may seal it at once: all return
    /// when it is durable.
    pub(crate) async fn finish_seal(self: &Rc<Self>, handle: Handle, birth: u64) -> Result<u64> {
        loop {
            self.drained(handle).await;
            if self.move_tail(handle) {
                self.drained(handle).await;
            }
            self.journal_room().await?;
            if self.is_idle(handle, birth) {
                break;
            }
        }
        let absent = || Error::new(ErrorKind::NotFound, "the chunk was deleted while it was being sealed");
        let (size, waiting) = {
            let mut state = self.state.borrow_mut();
            if state.chunks.get(handle).is_some_and(|chunk| chunk.birth == birth) {
                // Landed records that could not be moved stay in their zone.
                self.adopt(&mut state, handle);
            }
            let StoreState { chunks, open, pools, .. } = &mut *state;
            let chunk = chunks.get_mut(handle).filter(|chunk| chunk.birth == birth).ok_or_else(absent)?;
            let Some(open) = open.get_mut(&handle) else { return Ok(u64::from(chunk.size)) };
            if open.deleting {
                return Err(absent());
            }
            let (sender, receiver) = oneshot::channel();
            open.sealers.push(sender);
            if !std::mem::replace(&mut chunk.sealed, true) {
                chunk.groups.shrink();
                if let Some(pool) = open.pool {
                    pools.note_sealed(pool, open.footprint);
                }
                let entry = JournalEntry::Seal { id: chunk.id, size: chunk.size };
                let journaled = self.journal(entry, self.sequence.next());
                self.rt.spawn(self.clone().sealed(handle, birth, journaled));
            }
            (chunk.size, receiver)
        };
        match self.unless_stalled(waiting).await {
            Ok(sealed) => sealed.unwrap_or_else(|_| Err(absent()))?,
            // It will be sealed once there is room.
            Err(_) => return Err(host_full()),
        }
        Ok(u64::from(size))
    }

    /// True if nothing of the chunk is under way, or it is gone. While a seal or a deletion waits for room in the
    /// journal, its tail may be sent on its way.
    fn is_idle(&self, handle: Handle, birth: u64) -> bool {
        let state = self.state.borrow();
        let gone = state.chunks.get(handle).is_none_or(|chunk| chunk.birth != birth);
        gone || state.open.get(&handle).is_none_or(OpenChunk::is_drained)
    }

    /// Waits until a seal is durable, and tells who waits for it.
    async fn sealed(self: Rc<Self>, handle: Handle, birth: u64, journaled: impl Future<Output = Result<()>>) {
        let journaled = journaled.await;
        let mut state = self.state.borrow_mut();
        if state.chunks.get(handle).is_none_or(|chunk| chunk.birth != birth) {
            return;
        }
        let Some(open) = state.open.get_mut(&handle) else { return };
        for waiter in open.sealers.drain(..) {
            let result = journaled.as_ref().map(drop);
            let _ = waiter.send(result.map_err(|error| Error::new(error.kind, error.message.clone())));
        }
        if journaled.is_ok()
            && !open.deleting
            && let Some(zone) = state.close_chunk(handle)
        {
            self.retire_if_full(&mut state, zone);
        }
    }

    pub(crate) async fn delete(self: &Rc<Self>, id: ChunkId) -> Result<()> {
        self.has_host_room().map_err(|error| error.of(id))?;
        let (handle, birth) = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            let (handle, chunk) = state.chunk(id)?;
            let birth = chunk.birth;
            // An entry for a sealed chunk hides it, too, while the journal may make us wait.
            let open = state.open.entry(handle).or_default();
            open.deleting = true;
            self.fail_appends(&mut state, handle, ErrorKind::NotFound, "the chunk is being deleted");
            (handle, birth)
        };
        loop {
            self.drained(handle).await;
            if let Err(error) = self.journal_room().await {
                if let Some(open) = self.state.borrow_mut().open.get_mut(&handle) {
                    open.deleting = false;
                }
                return Err(error);
            }
            if self.is_idle(handle, birth) {
                break;
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            let landed = state.open.get_mut(&handle).map(|open| open.tail.indexed(u32::MAX)).unwrap_or_default();
            self.landed_gone(state, &landed);
            let zone = state.close_chunk(handle);
            state.remove_chunk(handle, self.sequence.last());
            if let Some(zone) = zone {
                self.retire_if_full(state, zone);
            }
        }
        let journaled = self.journal(JournalEntry::Delete { id }, self.sequence.next()).await;
        self.wakes.keeper.notify_one();
        journaled
    }
}
