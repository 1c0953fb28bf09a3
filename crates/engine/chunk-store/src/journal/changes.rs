//! Changes to chunks that the journal makes durable: create, seal and delete.
//!
//! **Knows nothing of** appends beyond waiting for those of a chunk that is to be sealed or deleted.
//!
//! # Invariants
//! - CS-CREATE-1: a creation that is refused, or given up by its caller, leaves no chunk once its entry is durable.
//!   `a_creation_that_was_given_up_leaves_no_chunk`, `a_creation_that_a_client_gave_up_leaves_no_chunk`,
//!   `a_creation_whose_answer_finds_nobody_leaves_no_chunk`. Until the log takes its deletion it is hidden.
//!   `a_creation_that_was_given_up_stays_hidden_while_the_log_is_full`.

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

/// One deletion. It ends when this is dropped.
struct Deletion {
    engine: Rc<Engine>,
    id: ChunkId,
    handle: Handle,
    birth: u64,
}

impl Deletion {
    /// Hides a chunk that callers see, once the deletion before it has ended (CS-DEL-2).
    async fn begin(engine: &Rc<Engine>, id: ChunkId) -> Result<Self> {
        loop {
            let ended = {
                let state = &mut *engine.state.borrow_mut();
                state.running()?;
                let Some(ended) = state.deletions.end_of(id) else {
                    let (handle, chunk) = state.chunk(id)?;
                    let birth = chunk.birth;
                    state.deletions.begin(id, handle);
                    return Ok(Self { engine: engine.clone(), id, handle, birth });
                };
                ended
            };
            // Its own caller hears how it ended.
            drop(engine.unless_stalled(ended).await.map_err(|_| host_full().of(id))?);
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.engine.state.borrow_mut().deletions.end(self.id);
        // Zones of the chunk may be garbage now.
        self.engine.wakes.keeper.notify_one();
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
        let (reply, created) = oneshot::channel();
        self.rt.spawn_detached(self.clone().created(id, journaled, reply));
        match self.unless_stalled(created).await {
            Ok(created) => created.unwrap_or_else(|_| Err(gone().of(id))),
            Err(_) => Err(host_full().of(id)),
        }
    }

    /// Waits until a creation is durable, and tells its caller. If that was refused meanwhile, or went away, nobody knows of
    /// the chunk, and it goes (CS-CREATE-1).
    async fn created(
        self: Rc<Self>,
        id: ChunkId,
        journaled: impl Future<Output = Result<()>>,
        reply: oneshot::Sender<Result<()>>,
    ) {
        let journaled = journaled.await;
        if journaled.is_ok() {
            if reply.is_closed() {
                return self.undo_create(id).await;
            }
            self.set_creating(id, false);
        }
        let _ = reply.send(journaled);
    }

    fn set_creating(&self, id: ChunkId, creating: bool) {
        let mut state = self.state.borrow_mut();
        if let Some(handle) = state.chunks.find(id)
            && let Some(open) = state.open.get_mut(&handle)
        {
            open.creating = creating;
        }
    }

    /// Deletes a chunk whose creation was refused or given up while its entry was on its way, however long that takes.
    pub(crate) async fn undo_create(self: &Rc<Self>, id: ChunkId) {
        loop {
            self.set_creating(id, false);
            let Err(error) = self.delete(id).await else { return };
            if error.kind == ErrorKind::NotFound {
                return;
            }
            if error.kind != ErrorKind::HostFull {
                tracing::warn!(chunk = %id, %error, "a chunk that nobody has stays for now");
            }
            if self.state.borrow().stopped.is_some() {
                return;
            }
            self.set_creating(id, true);
            self.log_changes().await;
            self.rt.sleep(HOST_PAUSE).await;
        }
    }

    pub(crate) async fn seal(self: &Rc<Self>, id: ChunkId) -> Result<u64> {
        self.has_host_room().map_err(|error| error.of(id))?;
        let caller = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            let (handle, chunk) = state.chunk(id)?;
            let (birth, size) = (chunk.birth, chunk.size);
            // It is sealed, and that is durable.
            let Some(open) = state.open.get_mut(&handle) else { return Ok(u64::from(size)) };
            open.sealing.callers += 1;
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
            let StoreState { chunks, open, pools, deletions, .. } = &mut *state;
            let chunk = chunks.get_mut(handle).filter(|chunk| chunk.birth == birth).ok_or_else(absent)?;
            let Some(open) = open.get_mut(&handle) else { return Ok(u64::from(chunk.size)) };
            if deletions.hides(chunk.id, handle) {
                return Err(absent());
            }
            let (sender, receiver) = oneshot::channel();
            let is_first = open.sealers.is_none();
            open.sealers.get_or_insert_default().push(sender);
            if is_first {
                chunk.sealed = true;
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
        for waiter in open.sealers.take().unwrap_or_default() {
            let result = journaled.as_ref().map(drop);
            let _ = waiter.send(result.map_err(|error| Error::new(error.kind, error.message.clone())));
        }
        if journaled.is_ok()
            && let Some(zone) = state.close_chunk(handle)
        {
            self.retire_if_full(&mut state, zone);
        }
    }

    pub(crate) async fn delete(self: &Rc<Self>, id: ChunkId) -> Result<()> {
        self.has_host_room().map_err(|error| error.of(id))?;
        let deletion = Deletion::begin(self, id).await?;
        let (handle, birth) = (deletion.handle, deletion.birth);
        let why = "the chunk is being deleted";
        self.fail_appends(&mut self.state.borrow_mut(), handle, ErrorKind::NotFound, why);
        loop {
            self.drained(handle).await;
            self.journal_room().await?;
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
            state.deletions.gone(id);
            if let Some(zone) = zone {
                self.retire_if_full(state, zone);
            }
        }
        let journaled = self.journal(JournalEntry::Delete { id }, self.sequence.next());
        // It goes on, whoever waits.
        let deleted = self.rt.spawn(async move {
            let journaled = journaled.await;
            drop(deletion);
            journaled
        });
        deleted.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Stopped, "the store is gone")
}
