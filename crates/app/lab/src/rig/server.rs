//! The stores of a server in one simulation, with all that they share in a server: an object store on drives of its own and
//! arrays beside it, one budget of memory, one thread. HTTP is left out, and `placement`, which finds a bucket's store and
//! has nothing that a drive could hold.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_array_objects::{ArrayEngine, NAMING};
use shingle_array_store::Options as ArrayOptions;
use shingle_object_store::{ObjectEngine, Options as DriveOptions};
use shingle_runtime::Runtime;
use shingle_runtime::memory::{Incoming, Memory};
use shingle_sim::SimDevice;
use shingle_store_api::{Commit, ObjectStore};

use crate::error::LabError;
use crate::rig::array::{LabArray, Rig};
use crate::rig::drives::LabDrive;
use crate::rig::scaling::{self, BUCKET, lab_error};

/// The server's defaults of `limits.memory` and `limits.connections`.
const MEMORY: u64 = 1 << 30;
const CONNECTIONS: usize = 1024;
/// The server's memory for large objects being written to one array.
const WRITERS_BYTES: u64 = 320 << 20;
/// Bytes that the server takes of a body at a time.
const PIECE: u64 = 1 << 20;
/// Time after which a piece for which the store is waited for has no memory.
const LATE: Duration = Duration::from_secs(1);

/// Parameters of a server.
#[derive(Clone, Debug)]
pub(crate) struct LabServer {
    /// Each drive of the object store.
    pub(crate) drive: LabDrive,
    /// Number of those.
    pub(crate) drives: usize,
    /// Each array.
    pub(crate) array: LabArray,
    /// Number of arrays.
    pub(crate) arrays: usize,
}

/// Stores that are open.
pub(crate) struct Server {
    /// The object store's clients, then those of each array.
    pub(crate) clients: Vec<Client>,
    /// Drives of the object store.
    pub(crate) drives: Vec<Rc<SimDevice>>,
    /// The arrays.
    pub(crate) arrays: Vec<Rig>,
    _engines: (ObjectEngine, Vec<ArrayEngine>),
}

impl LabServer {
    /// Opens the stores on fresh drives. Those of arrays take no time until [`Rig::keep_time`].
    pub(crate) async fn open(&self, rt: &Runtime) -> Result<Server, LabError> {
        let memory = Memory::new(MEMORY, CONNECTIONS);
        let options = DriveOptions { memory: memory.clone(), ..DriveOptions::default() };
        let (engine, drives) = scaling::open_with(rt, &self.drive, self.drives, options).await?;
        let client = |store| Client { rt: rt.clone(), store, memory: memory.clone() };
        let mut clients = vec![client(Arc::new(engine.client()) as Arc<dyn ObjectStore>)];
        let (mut arrays, mut engines) = (Vec::new(), Vec::new());
        for _ in 0..self.arrays {
            let rig = self.array.format(rt, ArrayOptions { naming: NAMING, ..ArrayOptions::default() }).await?;
            let writers_max = (WRITERS_BYTES / u64::from(self.array.segment_length).max(1)).clamp(4, 64) as usize;
            let options = shingle_array_objects::Options {
                writers_max,
                memory: memory.clone(),
                ..shingle_array_objects::Options::default()
            };
            let opened = ArrayEngine::open(rt.clone(), rig.store.clone(), options).await.map_err(lab_error)?;
            clients.push(client(Arc::new(opened.client())));
            arrays.push(rig);
            engines.push(opened);
        }
        for client in &clients {
            client.store.create_bucket(BUCKET).await.map_err(lab_error)?;
        }
        Ok(Server { clients, drives, arrays, _engines: (engine, engines) })
    }
}

/// A connection's part of the server, to one store.
#[derive(Clone)]
pub(crate) struct Client {
    rt: Runtime,
    store: Arc<dyn ObjectStore>,
    memory: Arc<Memory>,
}

impl Client {
    /// Puts an object of zeros, in pieces that the budget has room for.
    pub(crate) async fn put(&self, key: &str, size: u64) -> Result<(), LabError> {
        let mut writer = self.store.begin_put(BUCKET, key).await.map_err(lab_error)?;
        writer.expect(size);
        let mut left = size;
        while left > 0 {
            // The writer accounts for the piece once it has it.
            let room = self.memory.take(PIECE.min(left) as usize).bytes();
            let piece = Bytes::from_static(&ZEROS).slice(..room.min(PIECE.min(left) as usize));
            left -= piece.len() as u64;
            writer.write(piece).await.map_err(lab_error)?;
        }
        writer.commit(Commit::default()).await.map(drop).map_err(lab_error)
    }

    /// Reads `length` bytes from `at`, in pieces that the budget has room for.
    pub(crate) async fn get(&self, key: &str, mut at: u64, length: u64) -> Result<(), LabError> {
        let reader = self.store.open(BUCKET, key).await.map_err(lab_error)?;
        let mut left = length;
        while left > 0 {
            let late = Box::pin(self.rt.sleep(LATE));
            let fetch = |want| reader.read(at, want as u64);
            let (bytes, memory) = Incoming::new(self.memory.clone(), PIECE.min(left) as usize, late, fetch).await;
            let bytes = bytes.map_err(lab_error)?.len().min(memory.bytes()) as u64;
            at += bytes;
            left = left.saturating_sub(bytes);
        }
        Ok(())
    }
}

static ZEROS: [u8; PIECE as usize] = [0; PIECE as usize];
