//! An open array: its parts together. Each part owns its state; operations on several of them are in modules of their
//! own.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use shingle_base::StoreId;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use tokio::sync::{Mutex, Notify};

use crate::allocator::{Allocator, Layout, shape, zones_beside};
use crate::append::open_set::OpenSet;
use crate::append::stamps::Stamps;
use crate::buffer::Buffering;
use crate::clean::cleaners::Cleaners;
use crate::clean::stuck::Stuck;
use crate::clean::unreset::Unreset;
use crate::config::Options;
use crate::drives::Drives;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Superblock;
use crate::given::IndexPlace;
use crate::index::Index;
use crate::lifecycle::state::Lifecycle;
use crate::object::deleting::Deleting;
use crate::object::own_names::LOSS_NAME;
use crate::object::progress::Puts;
use crate::object::sharing::Sharing;
use crate::object::unsure::Unsure;
use crate::pace::Paces;
use crate::repair::told::Membership;
use crate::repair::waiting::Repairs;
use crate::segment::Framing;
use crate::snapshot::newest::{Snapshot, Snapshots};
use crate::stats::Counters;
use crate::superblocks::{Ledger, Superblocks};
use crate::zone_set::{SetTable, Written, ZoneSet};

/// An open array.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) array: StoreId,
    pub(crate) code: Code,
    pub(crate) segment_length: u32,
    pub(crate) framing: Framing,
    pub(crate) index_place: IndexPlace,
    index: RefCell<Option<Index>>,
    pub(crate) drives: Drives,
    /// Speeds of their answers.
    pub(crate) paces: Rc<Paces>,
    pub(crate) membership: Membership,
    pub(crate) repairs: Repairs,
    pub(crate) sets: SetTable,
    /// Sets that cleaning passed over.
    pub(crate) stuck: Stuck,
    pub(crate) unreset: Unreset,
    /// A set became empty, or may be collected; a change of one ended (AS-SET-4). Not that a cleaner gave up
    /// (AS-CLEAN-6).
    pub(crate) space: Notify,
    /// No set changes between empty and available meanwhile.
    pub(crate) replenishing: Mutex<()>,
    /// Sets that recovery closed: sealed once a superblock says where they end.
    pub(crate) unsealed: RefCell<Vec<(OpenSet, Written)>>,
    /// Sets that were open when the array was closed and that no stream needs: closed once a superblock of this opening is
    /// durable.
    pub(crate) unneeded: RefCell<Vec<OpenSet>>,
    /// Open sets, and who writes where.
    pub(crate) allocator: Rc<Allocator>,
    pub(crate) stamps: Rc<Stamps>,
    pub(crate) puts: Puts,
    /// Versions that may be on the drives although their puts failed.
    pub(crate) unsure: Unsure,
    pub(crate) sharing: Sharing,
    pub(crate) deleting: Deleting,
    pub(crate) buffering: Buffering,
    pub(crate) cleaners: Rc<Cleaners>,
    pub(crate) snapshots: Snapshots,
    pub(crate) superblock: Ledger,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) counters: Counters,
}

/// Parts of a new [`Engine`].
pub(crate) struct Parts {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) superblock: Superblock,
    pub(crate) drives: Drives,
    pub(crate) superblocks: Superblocks,
    pub(crate) index: Index,
    pub(crate) index_place: IndexPlace,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let Parts { rt, options, superblock, drives, superblocks, index, index_place } = parts;
        let stamps = Rc::new(Stamps::new(&rt));
        stamps.raise(superblock.last_stamp);
        let hollow = drives.all_usable().iter().any(|(_, dev)| !dev.geometry().keeps_payload);
        let sets = superblock.sets.iter().flatten().count();
        let (width, open_sets) = (superblock.code.width(), options.open_sets);
        superblocks.whole_most.set(options.whole_table);
        let (groups, slots) = shape(drives.all_taking().len(), width, open_sets, sets, drives.open_zones_max());
        let zones = zones_beside(groups * slots, drives.open_zones_max());
        let allocator = Allocator::new(&Layout {
            groups,
            slots,
            // The list of drives never gets shorter: whoever wrote before had no more groups than this.
            side_by_side: drives.ids().len() / width,
            segment: superblock.segment_length,
            turn_segments: options.turn_segments,
        });
        let paces = Rc::new(Paces::new(&rt));
        let heeds = allocator.clone();
        paces.on_change(move |avoided| heeds.avoid(avoided));
        let ledger = Ledger::new(superblocks, &superblock, &drives);
        let newest = Snapshot { tombstone_floor: superblock.tombstone_floor, pieces: superblock.snapshot };
        Rc::new(Self {
            array: superblock.array,
            code: superblock.code,
            segment_length: superblock.segment_length,
            framing: Framing::new(superblock.code, superblock.segment_length, hollow),
            index_place,
            index: RefCell::new(Some(index.told(&rt))),
            paces,
            membership: Membership::default(),
            repairs: Repairs::default(),
            sets: SetTable::from_entries(superblock.sets, &drives, superblock.code, options.cleaning),
            stuck: Stuck::default(),
            unreset: Unreset::default(),
            space: Notify::new(),
            replenishing: Mutex::new(()),
            unsealed: RefCell::default(),
            unneeded: RefCell::default(),
            allocator,
            stamps,
            puts: Puts::default(),
            unsure: Unsure::default(),
            sharing: Sharing::default(),
            deleting: Deleting::default(),
            buffering: Buffering::new(superblock.buffer),
            cleaners: Cleaners::new(options.cleaners, groups, sets, zones),
            snapshots: Snapshots::new(newest),
            superblock: ledger,
            lifecycle: Lifecycle::default(),
            counters: Counters::default(),
            drives,
            options,
            rt,
        })
    }

    /// The index, as long as the array is open.
    pub(crate) fn index(&self) -> Result<Ref<'_, Index>> {
        Ref::filter_map(self.index.borrow(), Option::as_ref).map_err(|_| Error::stopped())
    }

    /// Objects that callers see.
    pub(crate) fn objects(&self) -> Result<u64> {
        let index = self.index()?;
        let own = index.object(LOSS_NAME).map_err(Error::index)?.is_some();
        Ok(index.objects().saturating_sub(u64::from(own)))
    }

    /// The index, which the array does without from then on.
    pub(crate) fn take_index(&self) -> Option<Index> {
        self.index.borrow_mut().take()
    }

    pub(crate) fn put_index(&self, index: Index) {
        self.index.replace(Some(index.told(&self.rt)));
    }

    pub(crate) fn running(&self) -> Result<()> {
        self.lifecycle.running()
    }

    /// As [`Engine::running`], for what writes.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::Invalid, "the array is open for reading only; nothing was changed"));
        }
        if self.lifecycle.index_lacks.get() {
            let message =
                "the index refused a change that is on the drives: nothing is written until the array is opened again";
            return Err(Error::new(ErrorKind::Index, message));
        }
        self.running()
    }

    /// Blocks that can be used of each zone of `set`.
    pub(crate) fn capacity(&self, set: &ZoneSet) -> u32 {
        set.capacity()
    }

    /// Members of `set` on drives that are not there.
    pub(crate) fn missing(&self, set: &ZoneSet) -> usize {
        set.count_members(|member| self.drives.usable(member.drive).is_none())
    }

    pub(crate) fn no_space(&self) -> Error {
        Error::new(ErrorKind::NoSpace, "the array is full: delete objects or add drives; nothing was stored")
    }
}
