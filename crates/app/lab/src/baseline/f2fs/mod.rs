//! CS-F2FS: a chunkserver that keeps each chunk in a file of F2FS, on a host-managed drive. (SMRstore, section 3.)
//!
//! As in Linux 4.19 with `mode=lfs`, which zoned drives force: data of all chunks goes to the log of warm data unless
//! hints are on, section by section; a section is a zone. The write path is the buffered one, which 4.19 always takes
//! on zoned drives, and each append waits for its pages.
//!
//! **Owns** the whole drive. Nodes and tables are cached in memory, as on a server with room for them.
//!
//! # Invariants
//! - LAB-FF-1: a block is named by one owner, and read where its owner names it.
//! - LAB-FF-2: cleaning moves every valid block of its section, and changes no file's length.
//! - LAB-FF-3: no section that a write is under way to, or a file names blocks of, is reset.

mod checkpoint;
mod clean;
mod file;
mod layout;
mod log;
mod options;
mod sections;
mod shared;
mod temperature;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::Stream;
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;
use tokio::sync::{Mutex, RwLock};

use self::file::{File, Node, node_of, parent_of};
use self::layout::Layout;
use self::log::Log;
pub use self::options::F2fsOptions;
use self::sections::{Owner, SectionState, Sections};
use self::shared::{Shared, failed, settled};
use self::temperature::{LOGS, Temperature};
use super::disk::Disk;
use crate::rig::target::{ChunkTarget, TargetError, TargetFuture, TargetState};

/// A chunkserver on F2FS.
pub struct F2fsTarget {
    shared: Rc<Shared>,
}

impl F2fsTarget {
    /// A fresh file system on a device.
    ///
    /// # Errors
    /// The conventional zones do not hold the metadata, or there are too few others.
    pub fn format(rt: &Runtime, device: Rc<dyn ZonedDevice>, options: F2fsOptions) -> Result<Self, TargetError> {
        let Some(layout) = Layout::new(device.geometry(), options.like_sections) else {
            return failed("F2FS needs its metadata in conventional zones, and some room behind them");
        };
        let disk = Rc::new(Disk::new(device));
        let mut sections = Sections::new(layout.sections, layout.section);
        let first_sequential = disk.geometry().conventional_zones.saturating_sub(layout.first_zone);
        let data_from = if options.sequential { first_sequential } else { 0 };
        let mut opened = [0; LOGS];
        for (log, section) in opened.iter_mut().enumerate() {
            let from = if log >= Temperature::HotData as usize { data_from } else { 0 };
            let Some(number) = sections.open_next(from) else { return failed("there are too few zones") };
            *section = number;
        }
        let shared = Rc::new(Shared {
            rt: rt.clone(),
            logs: opened.map(|section| Log::new(rt, disk.clone(), section)),
            disk,
            layout,
            options,
            files: RefCell::default(),
            sections: RefCell::new(sections),
            changed_nids: RefCell::default(),
            dirty_nodes: RefCell::default(),
            operations: RwLock::new(()),
            cleaning: Mutex::new(()),
            counters: Cell::default(),
            last_request: Cell::new(rt.now()),
            failed: RefCell::default(),
        });
        rt.spawn_detached(checkpoint::every_minute(rt.clone(), Rc::downgrade(&shared)));
        if options.background {
            rt.spawn_detached(clean::in_background(rt.clone(), Rc::downgrade(&shared)));
        }
        Ok(Self { shared })
    }

    /// Checkpoints so far.
    pub fn checkpoints(&self) -> u64 {
        self.shared.counters.get().checkpoints
    }

    /// Sections that were cleaned while callers waited.
    pub fn foreground_cleanings(&self) -> u64 {
        self.shared.counters.get().foreground
    }
}

/// An append that took its place in its file.
struct Begun {
    slot: u32,
    serial: u64,
    blocks: Range<u32>,
    temperature: Temperature,
}

impl Shared {
    fn create(&self, id: ChunkId, stream: Stream) -> Result<(), TargetError> {
        let temperature = match stream {
            Stream::Data if self.options.hints => Temperature::HotData,
            Stream::Gc if self.options.hints => Temperature::ColdData,
            _ => Temperature::WarmData,
        };
        let files = &mut *self.files.borrow_mut();
        if files.by_id.contains_key(&id) {
            return failed("the chunk exists");
        }
        files.next_serial += 1;
        let file = File::new(files.next_serial, temperature);
        let slot = files.free_slots.pop().unwrap_or_else(|| {
            files.slots.push(None);
            files.slots.len() as u32 - 1
        });
        files.slots[slot as usize] = Some(file);
        files.by_id.insert(id, slot);
        Ok(())
    }

    fn begin_append(&self, id: ChunkId, offset: u64, length: u32) -> Result<Begun, TargetError> {
        self.last_request.set(self.rt.now());
        let files = &mut *self.files.borrow_mut();
        let slot = files.by_id.get(&id).copied();
        let file = slot.and_then(|slot| files.slots[slot as usize].as_mut().map(|file| (slot, file)));
        let Some((slot, file)) = file else { return failed("there is no such chunk") };
        if file.sealed || file.frame.bytes() != offset || length == 0 {
            return failed("not an append at the chunk's end");
        }
        let blocks = u64::from(super::frame::blocks_of(length));
        let promised = self.counters.get().promised;
        if self.sections.borrow().valid + promised + blocks > self.layout.user_blocks {
            return Err(TargetError::NoSpace);
        }
        self.count(|counters| counters.promised += blocks);
        Ok(Begun { slot, serial: file.serial, blocks: file.frame.append(length), temperature: file.temperature })
    }

    async fn append(&self, begun: Begun, length: u32) -> Result<(), TargetError> {
        let result = self.append_data(&begun).await;
        self.count(|counters| counters.promised -= u64::from(begun.blocks.end - begun.blocks.start));
        result?;
        self.count(|counters| counters.appended += u64::from(length));
        if self.options.synced { self.sync(&begun).await } else { self.dirty(&begun) }
    }

    async fn append_data(&self, begun: &Begun) -> Result<(), TargetError> {
        self.check()?;
        self.balance().await?;
        let written = {
            let _no_checkpoint = self.operations.read().await;
            self.write(begun.temperature, begun.blocks.end - begun.blocks.start)?
        };
        let mut block = begun.blocks.start;
        for (piece, written) in written {
            let result = settled(written).await;
            let mut files = self.files.borrow_mut();
            let file = if result.is_ok() { files.get(begun.slot, begun.serial) } else { None };
            let owner = file.map(|file| {
                file.add(block, piece);
                Owner::Data { slot: begun.slot, block }
            });
            if owner.is_some() {
                self.count(|counters| counters.live_blocks += u64::from(piece.blocks));
            }
            self.sections.borrow_mut().written(piece, owner);
            result?;
            block += piece.blocks;
        }
        Ok(())
    }

    /// The nodes that an append changed; new ones join the file.
    fn changed_nodes(&self, begun: &Begun) -> Vec<u32> {
        let files = &mut *self.files.borrow_mut();
        let mut next_nid = files.next_nid;
        let Some(file) = files.get(begun.slot, begun.serial) else { return Vec::new() };
        // The inode has the file's size.
        let mut nodes = vec![0];
        for node in node_of(begun.blocks.start)..=node_of(begun.blocks.end - 1) {
            let parent = parent_of(node).filter(|_| !file.nodes.contains_key(&node));
            for node in [node].into_iter().chain(parent) {
                file.nodes.entry(node).or_insert_with(|| {
                    next_nid += 1;
                    Node { nid: next_nid, at: None, write: 0 }
                });
            }
            if let Some(parent) = parent {
                self.dirty_nodes.borrow_mut().insert((begun.slot, parent));
            }
            if node > 0 {
                nodes.push(node);
            }
        }
        file.nodes.entry(0).or_insert_with(|| {
            next_nid += 1;
            Node { nid: next_nid, at: None, write: 0 }
        });
        files.next_nid = next_nid;
        nodes
    }

    fn dirty(&self, begun: &Begun) -> Result<(), TargetError> {
        let nodes = self.changed_nodes(begun);
        self.dirty_nodes.borrow_mut().extend(nodes.into_iter().map(|node| (begun.slot, node)));
        Ok(())
    }

    /// Writes the nodes of an append, so that roll-forward finds it. (`f2fs_fsync_node_pages`.)
    async fn sync(&self, begun: &Begun) -> Result<(), TargetError> {
        let nodes: Vec<(u32, u32)> = self.changed_nodes(begun).into_iter().map(|node| (begun.slot, node)).collect();
        let writes = {
            let _no_checkpoint = self.operations.read().await;
            self.write_nodes(&nodes, Temperature::WarmNode)?
        };
        self.settle_nodes(writes).await
    }

    async fn read(&self, id: ChunkId, offset: u64, length: u32) -> Result<(), TargetError> {
        self.last_request.set(self.rt.now());
        let pieces = {
            let files = self.files.borrow();
            let file = files.by_id.get(&id).and_then(|&slot| files.slots[slot as usize].as_ref());
            let Some(file) = file else { return failed("there is no such chunk") };
            let Some(blocks) = file.frame.locate(offset, length) else { return failed("a read past the chunk's end") };
            file.locate(&blocks)
        };
        let reads = pieces.into_iter().map(|piece| self.disk.read(self.address(piece), u64::from(piece.blocks)));
        join_all(reads).await.into_iter().collect()
    }

    fn seal(&self, id: ChunkId) -> Result<(), TargetError> {
        let files = &mut *self.files.borrow_mut();
        let file = files.by_id.get(&id).and_then(|&slot| files.slots[slot as usize].as_mut());
        let Some(file) = file else { return failed("there is no such chunk") };
        file.sealed = true;
        Ok(())
    }

    fn delete(&self, id: ChunkId) -> Result<(), TargetError> {
        self.last_request.set(self.rt.now());
        let files = &mut *self.files.borrow_mut();
        let Some(slot) = files.by_id.remove(&id) else { return failed("there is no such chunk") };
        let Some(file) = files.slots[slot as usize].take() else { return failed("there is no such chunk") };
        files.free_slots.push(slot);
        let (mut sections, now) = (self.sections.borrow_mut(), self.now());
        for &(_, piece) in file.extents() {
            sections.invalidate(piece, now);
            self.count(|counters| counters.live_blocks -= u64::from(piece.blocks));
        }
        for node in file.nodes.values() {
            if let Some(piece) = node.at {
                sections.invalidate(piece, now);
            }
            self.changed_nids.borrow_mut().insert(node.nid);
        }
        Ok(())
    }
}

impl ChunkTarget for F2fsTarget {
    fn create(&self, id: ChunkId, stream: Stream) -> TargetFuture<'_, ()> {
        let created = self.shared.create(id, stream);
        Box::pin(async move { created })
    }

    fn append(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        let begun = self.shared.begin_append(id, offset, length);
        Box::pin(async move { self.shared.append(begun?, length).await })
    }

    fn read(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        Box::pin(self.shared.read(id, offset, length))
    }

    fn seal(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        let sealed = self.shared.seal(id);
        Box::pin(async move { sealed })
    }

    fn delete(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        let deleted = self.shared.delete(id);
        Box::pin(async move { deleted })
    }

    fn state(&self) -> TargetState {
        let (sections, counters) = (self.shared.sections.borrow(), self.shared.counters.get());
        let mut state = TargetState {
            appended_bytes: counters.appended,
            written_bytes: self.shared.disk.written_bytes(),
            moved_bytes: Blocks(counters.moved_blocks).bytes(),
            gc_runs: counters.cleaned,
            live_bytes: Blocks(counters.live_blocks).bytes(),
            capacity_bytes: Blocks(self.shared.layout.user_blocks).bytes(),
            free_zones: sections.free_count(),
            ..TargetState::default()
        };
        for section in &sections.all {
            if section.state == SectionState::Closed {
                state.utilisation.push(section.valid as f32 / sections.blocks as f32);
                state.dirty_zones += u32::from(section.valid > 0 && section.valid < sections.blocks);
            }
        }
        state
    }
}

#[cfg(test)]
mod tests;
