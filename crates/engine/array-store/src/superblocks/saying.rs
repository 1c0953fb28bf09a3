//! Writing the superblock of an open array, as things are now. (AS-SB-1, AS-EVICT-1)

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use shingle_base::StoreId;
use shingle_erasure::Code;
use shingle_zoned::DeviceError;

use crate::drives::Drives;
use crate::drives::asking::is_lost;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::{BufferName, DriveState, Superblock, VERSION};
use crate::superblocks::Source;
use crate::types::{DriveId, DriveSet};
use crate::zone_set::SetTable;

impl Engine {
    /// Writes the superblock as things are now; `clean`: the generation of an index that was closed with it.
    pub(crate) async fn write_superblock(&self, clean: Option<u64>) -> Result<()> {
        self.write_superblock_to(clean, false).await
    }

    /// Sees to it that a superblock says how things are now: of callers that come together one writes it.
    pub(crate) async fn say_superblock(&self) -> Result<()> {
        let last = self.superblock.generation.get();
        let _turn = self.superblock.turn.lock().await;
        if self.superblock.written.get() > last { Ok(()) } else { self.write_in_turn(None, false).await }
    }

    /// Writes the superblock to every drive: one that was added has none yet.
    pub(crate) async fn write_superblock_everywhere(&self) -> Result<()> {
        self.write_superblock_to(None, true).await
    }

    async fn write_superblock_to(&self, clean: Option<u64>, everywhere: bool) -> Result<()> {
        let _turn = self.superblock.turn.lock().await;
        self.write_in_turn(clean, everywhere).await
    }

    async fn write_in_turn(&self, clean: Option<u64>, everywhere: bool) -> Result<()> {
        if self.options.read_only {
            return self.writable();
        }
        self.superblock.open()?;
        while !self.try_superblock(clean, everywhere).await? {}
        Ok(())
    }

    /// `false`: a drive was given up on the way, and it has to be written anew.
    async fn try_superblock(&self, clean: Option<u64>, everywhere: bool) -> Result<bool> {
        self.give_up_missing(false)?;
        self.superblock.closed.set(clean.is_some());
        let saying = Saying::new(self, clean);
        let written = self.superblock.log.write(&saying, clean.is_some(), everywhere).await?;
        if let Err(error) = written.enough(&self.drives) {
            // Drives that take it in neither of their zones are given up, if all of them may be; then the others are
            // enough.
            let refused = || written.refused.iter().filter(|(_, error)| !is_lost(error)).map(|(drive, _)| *drive);
            let common = written.is_nowhere() || !self.may_do_without(refused());
            let may_go = |error: &DeviceError| is_lost(error) || !common && !error.kind.is_host_full();
            let may_go = written.refused.iter().filter(|(_, error)| may_go(error));
            let given_up = may_go.filter(|(drive, error)| self.give_up(*drive, error)).count();
            return if given_up > 0 { Ok(false) } else { Err(error) };
        }
        if written.refused.iter().any(|(_, error)| is_lost(error)) {
            // It says that they are there, and is on fewer drives than it would be for one that does not. (AS-SB-1)
            return Ok(false);
        }
        // A number may be another drive's by now. (AS-NUMBER-1)
        let own = saying.failed.take().into_iter().filter(|(drive, id)| self.drives.own_id(*drive) == *id);
        self.superblock.recorded.borrow_mut().extend(own.map(|(drive, _)| drive));
        self.superblock.written.set(saying.generation.get());
        self.superblock.saved(saying.replaced.get());
        self.buffering.is_named(saying.buffer.get());
        Ok(true)
    }

    /// Makes zones durable that the next superblock names as available (AS-SET-1), or as members for the first time: these take their
    /// places here (AS-REPLACE-1). Nothing may be awaited between this and the table's copy.
    async fn flush_replaced(&self) -> Result<()> {
        // Zones of which the drive says nothing are for the next superblock.
        let mut silent = Vec::new();
        loop {
            // Before the drives: each of them is to be flushed from before that on.
            let copied = self.membership.copied_beside(&silent);
            let due = self.superblock.unflushed.due();
            if due.is_empty() && copied.is_empty() {
                return Ok(());
            }
            let mut failed: BTreeMap<_, _> = self.drives.flush(due.drives()).await.into_iter().collect();
            let mut refused = None;
            for drive in due.drives() {
                match failed.remove(&drive) {
                    Some(error) if !is_lost(&error) => {
                        refused = Some((drive, error));
                        continue;
                    }
                    Some(_) if self.drives.fail(drive) => self.membership.changed.notify_waiters(),
                    _ => {}
                }
                self.superblock.unflushed.is_done(&due, drive);
            }
            if let Some((drive, error)) = refused {
                return Err(Error::device(format!("flushing {}", self.drives.name(drive)), error));
            }
            silent.extend(self.give_places(&copied).await);
        }
    }
}

/// Fields of an open array for superblocks.
struct Saying<'a> {
    engine: &'a Engine,
    clean: Option<u64>,
    /// Of the last one: its generation, the drives that it calls failed, with their ids, how many replaced members it has,
    /// and the buffer that it names.
    generation: Cell<u64>,
    failed: RefCell<Vec<(DriveId, u64)>>,
    replaced: Cell<u64>,
    buffer: Cell<BufferName>,
}

impl<'a> Saying<'a> {
    fn new(engine: &'a Engine, clean: Option<u64>) -> Self {
        let (generation, replaced) = (Cell::new(0), Cell::new(0));
        Self { engine, clean, generation, failed: RefCell::default(), replaced, buffer: Cell::default() }
    }
}

impl Source for Saying<'_> {
    fn drives(&self) -> &Drives {
        &self.engine.drives
    }

    fn sets(&self) -> &SetTable {
        &self.engine.sets
    }

    fn array(&self) -> StoreId {
        self.engine.array
    }

    fn code(&self) -> Code {
        self.engine.code
    }

    fn copies(&self) -> u8 {
        self.engine.superblock.next_copies(self.engine.code, &self.engine.drives)
    }

    fn avoided(&self) -> DriveSet {
        self.engine.paces.avoided()
    }

    fn next_generation(&self) -> u64 {
        self.engine.superblock.next_generation()
    }

    fn fields(&self) -> Superblock {
        let engine = self.engine;
        let drives = engine.drives.entries();
        let failed = drives.iter().enumerate().filter(|(_, drive)| drive.state != DriveState::Present);
        self.failed.replace(failed.map(|(number, drive)| (DriveId(number as u8), drive.id)).collect());
        self.replaced.set(engine.superblock.replaced());
        self.buffer.set(engine.buffering.name());
        let snapshot = engine.snapshots.newest.borrow().clone();
        self.generation.set(self.next_generation());
        Superblock {
            version: VERSION,
            array: engine.array,
            generation: self.generation.get(),
            code: engine.code,
            segment_length: engine.segment_length,
            last_stamp: engine.stamps.last(),
            clean: self.clean,
            tombstone_floor: snapshot.tombstone_floor,
            opened: engine.superblock.opened.get(),
            buffer: self.buffer.get(),
            copies: self.copies(),
            lost_before: engine.superblock.lost_before.get(),
            snapshot: snapshot.pieces,
            drives,
            sets: Vec::new(),
        }
    }

    async fn settle(&self) -> Result<()> {
        self.engine.give_up_missing(false)?;
        self.engine.flush_replaced().await?;
        // A drive whose flush failed may have lost what this superblock relies on.
        self.engine.give_up_missing(false)
    }

    async fn breathe(&self) {
        self.engine.rt.yield_now().await;
    }
}
