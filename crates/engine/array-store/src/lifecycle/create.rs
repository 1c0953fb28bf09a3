//! Formatting drives as an array.

use std::cell::Cell;

use shingle_base::StoreId;
use shingle_erasure::Code;
use shingle_runtime::Runtime;

use crate::config::{CleaningPolicy, FormatOptions};
use crate::drives::Drives;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BufferName, SetEntry, Superblock, VERSION};
use crate::given::ArrayDrive;
use crate::repair::membership::prepare;
use crate::superblocks::{Source, Superblocks, blocks_needed, copies};
use crate::types::SetState;
use crate::zone_set::SetTable;
use crate::zone_set::layout::form_sets;

/// Formats drives as an array. Their old data is lost.
///
/// # Errors
/// `Invalid` if the drives cannot form an array of that shape; `Device`.
pub async fn format(rt: &Runtime, drives: &[ArrayDrive], options: &FormatOptions) -> Result<StoreId> {
    let width = options.code.width();
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    if drives.len() < width {
        return invalid(format!("the code {} needs {width} drives; there are {}", options.code, drives.len()));
    }
    if drives.len() > usize::from(u8::MAX) {
        return invalid(format!("an array has at most {} drives", u8::MAX));
    }
    if options.segment_length == 0 || options.segment_length > 1 << 30 {
        return invalid("a segment has between 1 byte and 1 GiB of data".into());
    }
    let array = StoreId(rt.random());
    let table = Drives::default();
    let mut free = Vec::new();
    for drive in drives {
        let (entry, zones) = prepare(drive, rt.random(), || Ok(())).await?;
        free.push((table.push(entry, Some(drive.dev.clone())), zones));
    }
    let set = |members| {
        let (end, length) = (u32::MAX, u32::MAX);
        Some(SetEntry { state: SetState::Empty, members, live: 0, covered: 0, end, length, suspect: false })
    };
    let mut superblock = Superblock {
        version: VERSION,
        array,
        generation: 1,
        code: options.code,
        segment_length: options.segment_length,
        last_stamp: rt.unix_time().nanos,
        clean: None,
        tombstone_floor: 0,
        opened: 0,
        buffer: BufferName::default(),
        copies: copies(options.code, drives.len(), 0),
        lost_before: 0,
        snapshot: Vec::new(),
        drives: table.entries(),
        sets: form_sets(&free, width).into_iter().map(set).collect(),
    };
    let blocks = blocks_needed(superblock.sets.len(), width, superblock.encode(None, &[]).len());
    if drives.iter().any(|drive| blocks > drive.dev.geometry().zone_capacity.0) {
        return invalid("a zone is too small for the table of zone sets: use fewer or larger zones".into());
    }
    let Superblock { sets, .. } = &mut superblock;
    let sets = SetTable::from_entries(std::mem::take(sets), &table, options.code, CleaningPolicy::Greedy);
    // Above those of a former array, of which a host that writes in place may keep some. (AS-SB-6)
    let generation = Cell::new(superblock.last_stamp);
    let first = First { rt, sets, drives: table, superblock, generation };
    Superblocks::default().write(&first, false, true).await?.everywhere(&first.drives)?;
    Ok(array)
}

/// Fields of the first superblock of an array.
struct First<'a> {
    rt: &'a Runtime,
    sets: SetTable,
    drives: Drives,
    superblock: Superblock,
    generation: Cell<u64>,
}

impl Source for First<'_> {
    fn drives(&self) -> &Drives {
        &self.drives
    }

    fn sets(&self) -> &SetTable {
        &self.sets
    }

    fn array(&self) -> StoreId {
        self.superblock.array
    }

    fn code(&self) -> Code {
        self.superblock.code
    }

    fn copies(&self) -> u8 {
        self.superblock.copies
    }

    fn next_generation(&self) -> u64 {
        self.generation.set(self.generation.get() + 1);
        self.generation.get()
    }

    fn fields(&self) -> Superblock {
        Superblock { generation: self.next_generation(), ..self.superblock.clone() }
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    async fn breathe(&self) {
        self.rt.yield_now().await;
    }
}
