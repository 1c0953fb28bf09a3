//! A block store as a plain disk.

use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::LocalBoxFuture;
use shingle_store_api::{BlockStore, Durability, StoreError, StoreErrorKind, StoreResult};
use shingle_zoned_linux::{UblkCommand, UblkShape};

use crate::backend::{Backend, Done, Refused};
use crate::errno::{of_store, unsupported};

/// Zeros that are written at once where they are to take their room.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A block store, to be a disk.
pub struct StoreDisk<C, F> {
    core: Rc<C>,
    /// Finds the store in it.
    store: F,
    rotational: bool,
    read_only: bool,
}

impl<C, F: Fn(&C) -> &dyn BlockStore> StoreDisk<C, F> {
    /// Of the store that `store` finds in `core`, which the disk's users have to themselves.
    pub fn new(core: Rc<C>, store: F, rotational: bool, read_only: bool) -> Self {
        Self { core, store, rotational, read_only }
    }

    async fn run(&self, command: UblkCommand, data: Bytes) -> Result<Done, Refused> {
        let store = (self.store)(&self.core);
        if self.read_only && !matches!(command, UblkCommand::Read { .. } | UblkCommand::Flush) {
            return Err(Refused { errno: libc::EROFS, message: "the disk takes no writes".to_owned() });
        }
        let done = match command {
            UblkCommand::Read { at, length } => read(store, at, length).await.map(|data| Done::Data(vec![data])),
            UblkCommand::Write { at, durable, .. } => plain(store.write(at, vec![data], asked(durable)).await),
            UblkCommand::Flush => plain(store.flush().await),
            UblkCommand::Discard { at, length } => plain(store.trim(at, length).await),
            UblkCommand::WriteZeros { at, length, durable, filled: false } => {
                plain(store.write_zeros(at, length, asked(durable)).await)
            }
            UblkCommand::WriteZeros { at, length, durable, filled: true } => {
                plain(fill(store, at, length, asked(durable)).await)
            }
            _ => return Err(unsupported()),
        };
        done.map_err(|error| of_store(&error))
    }
}

fn plain(done: StoreResult<()>) -> StoreResult<Done> {
    done.map(|()| Done::Plain)
}

fn asked(durable: bool) -> Durability {
    if durable { Durability::Durable } else { Durability::Cached }
}

async fn read(store: &dyn BlockStore, at: u64, length: u64) -> StoreResult<Bytes> {
    let data = store.read(at, length).await?;
    if data.len() as u64 != length {
        let words = format!("{} bytes were read at {at}, and not {length}", data.len());
        return Err(StoreError::new(StoreErrorKind::Device, words));
    }
    Ok(data)
}

/// Writes zeros as data.
async fn fill(store: &dyn BlockStore, at: u64, length: u64, durability: Durability) -> StoreResult<()> {
    let mut done = 0;
    while done < length {
        let now = (length - done).min(ZEROS.len() as u64);
        let piece = Bytes::from_static(&ZEROS).slice(..now as usize);
        store.write(at + done, vec![piece], durability).await?;
        done += now;
    }
    Ok(())
}

impl<C, F: Fn(&C) -> &dyn BlockStore> Backend for StoreDisk<C, F> {
    fn shape(&self) -> Result<UblkShape, String> {
        let store = (self.store)(&self.core);
        let block_bytes = u32::try_from(store.sector_bytes()).map_err(|_| "its sectors are too long".to_owned())?;
        Ok(UblkShape {
            size_bytes: store.size_bytes(),
            block_bytes,
            volatile_cache: true,
            fua: true,
            rotational: self.rotational,
            read_only: self.read_only,
            discard: !self.read_only,
            zones: None,
        })
    }

    fn execute(&self, command: UblkCommand, data: Bytes) -> LocalBoxFuture<'_, Result<Done, Refused>> {
        Box::pin(self.run(command, data))
    }
}
