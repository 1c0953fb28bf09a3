//! Options of a chunk store, and the placement strategies that experiments switch on and off.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::{BLOCK_SIZE, Blocks, StoreId};

use crate::gc::{ExpectedDeath, VictimPolicy};
use crate::types::{Stream, Unread};

/// Parameters of a format. Written to the superzone; fixed from then on.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    /// The store's identity; drawn at random where `None`.
    pub store: Option<StoreId>,
    /// Number of metazones; where `None`, 400 of 74,508 zones as in SMRstore (section 5.2), at least
    /// [`METAZONES_MIN`](crate::METAZONES_MIN).
    pub metazones: Option<u32>,
    /// Format even if the drive holds another store.
    pub force: bool,
}

/// Choice of the open zone for a new chunk. (SMRstore, section 5.4.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Strategy 3: one open zone after the other, so that chunks rarely share one.
    RoundRobin,
    /// A zone of its own while there are as many zones as chunks. If zones must be shared, the zone of the chunk that
    /// was created just before: such chunks are often written together, in one visit then, and die together.
    Company,
    /// Any open zone.
    Random,
    /// One open zone for everything, as F2FS fills one zone at a time (CS-SMRstore-OneZone, section 6).
    OneZone,
}

/// The three strategies of SMRstore, section 5.4; each can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Strategy 1: chunks of different streams never share a zone.
    pub separate_streams: bool,
    /// Strategy 2: data and GC chunks grow to a whole zone; where off, to [`Options::small_chunk`].
    pub zone_sized_chunks: bool,
    /// Strategy 3.
    pub allocation: Allocation,
}

impl Default for Placement {
    fn default() -> Self {
        Self { separate_streams: true, zone_sized_chunks: true, allocation: Allocation::Company }
    }
}

/// Open zones kept ready for each stream; scaled down to what the drive allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// For GC streams.
    pub gc: u32,
    /// For data streams.
    pub data: u32,
    /// For metadata streams.
    pub meta: u32,
}

impl Default for PoolSizes {
    /// SMRstore, section 5.4: 40, 10 and 5.
    fn default() -> Self {
        Self { gc: 40, data: 10, meta: 5 }
    }
}

impl PoolSizes {
    /// The size of one stream's pool.
    pub fn of(&self, stream: Stream) -> u32 {
        match stream {
            Stream::Gc => self.gc,
            Stream::Data => self.data,
            Stream::Meta => self.meta,
        }
    }

    /// All pools together.
    pub fn total(&self) -> u32 {
        self.gc + self.data + self.meta
    }
}

/// Parameters of landing: small appends land together before they reach their chunks' own zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The longest append that lands; longer ones go to their chunk's zone at once.
    pub append_max: u32,
    /// Landed bytes that are kept in memory until they are moved: what this memory buys is the length of a move.
    pub budget: u64,
    /// Landing zones kept open, as far as the drive's limits allow: the more, the sooner one of them comes by the head.
    pub zones: u32,
    /// Landed bytes are moved once nothing has landed for this long.
    pub idle: Duration,
    /// Land on devices without a [revolution](shingle_zoned::Geometry::revolution), too. Without rotation there is no
    /// seek to save, and each byte is written twice.
    pub everywhere: bool,
}

impl Default for Landing {
    fn default() -> Self {
        Self { append_max: 64 << 10, budget: 128 << 20, zones: 10, idle: Duration::from_secs(1), everywhere: false }
    }
}

/// Options of an open store. None of them is written to the drive.
#[derive(Clone, Debug)]
pub struct Options {
    /// Placement of chunks.
    pub placement: Placement,
    /// Open zones kept ready.
    pub pools: PoolSizes,
    /// The size limit of metadata chunks (and of all, without strategy 2), with headers, footers and padding.
    pub small_chunk: Blocks,
    /// The largest record: appends that wait together are joined up to this size.
    pub record_max: usize,
    /// The most that one device write takes.
    pub batch_max: usize,
    /// The most zones that are written at once; others wait for their turn, and what they are to write gathers. Few make
    /// long visits, but leave the drive less to choose from.
    pub writes_max: u32,
    /// Memory that is kept for the next reads and writes: at best what is on its way to the drive at once under full
    /// load.
    pub buffer_bytes: usize,
    /// Landing of small appends; `None`: each goes to its chunk's zone, as in SMRstore.
    pub landing: Option<Landing>,
    /// Close finished zones even if the drive has no limit of open zones. It takes the drive some 20 ms and gains
    /// nothing there, but SMRstore does it.
    pub close_always: bool,
    /// Choice of GC's victims.
    pub victims: Rc<dyn VictimPolicy>,
    /// GC begins when free and garbage zones are fewer than this share of data zones.
    pub gc_start: f64,
    /// GC also works when nothing was asked of the store for this long, if free zones are few; `None`: it never does.
    pub gc_idle_after: Option<Duration>,
    /// GC slows down where appends take longer than this many times their best.
    pub gc_latency_factor: f64,
    /// A checkpoint is made when this time has passed since the last and something was journaled.
    pub checkpoint_every: Duration,
    /// After how many bytes written the journal is told which records they were (progress marks), so that recovery scans
    /// no more than about as many; `None` makes none but those that a reset waits for (CS-MARK-5).
    pub mark_every: Option<u64>,
    /// Reads in flight while the store is opened.
    pub recovery_depth: u32,
    /// Recovery ignores marks, and scans zones from their heads and not from the end of the checkpoint's index; as
    /// SMRstore does.
    pub scan_whole_zones: bool,
    /// Places that an earlier opening could not read ([`RecoveryReport::unread`](crate::RecoveryReport::unread)) and whose loss is accepted. If
    /// recovery can read all but these, it gives them up: they are lost, and told of, as if they had rotted, and no later opening looks for them
    /// (CS-REC-9). If it cannot, it gives up nothing. For one opening, by someone who knows that the drive will not get better.
    pub accept_loss: Vec<Unread>,
    /// Recovery reads the heads of all zones first, as it must if metazones may be anywhere: the layout that SMRstore's
    /// authors abandoned (section 6.4). For experiments.
    pub read_all_heads: bool,
    /// Background work (GC, checkpoints, marks) starts by itself. Tests and tools switch it off, and call
    /// [`gc`](crate::ChunkStore::gc) where an append is answered with `NoSpace`.
    pub background: bool,
    /// Data is taken to be zeros that need neither copy nor checksum: for experiments on modelled drives, and without
    /// effect on a drive that keeps payload.
    pub hollow: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            pools: PoolSizes::default(),
            small_chunk: Blocks((64 << 20) / BLOCK_SIZE as u64),
            record_max: 1 << 20,
            batch_max: 8 << 20,
            writes_max: 4,
            buffer_bytes: 32 << 20,
            landing: Some(Landing::default()),
            close_always: false,
            victims: Rc::new(ExpectedDeath),
            gc_start: 0.05,
            gc_idle_after: Some(Duration::from_secs(2)),
            gc_latency_factor: 2.0,
            checkpoint_every: Duration::from_secs(600),
            mark_every: Some(256 << 20),
            recovery_depth: 32,
            scan_whole_zones: false,
            accept_loss: Vec::new(),
            read_all_heads: false,
            background: true,
            hollow: false,
        }
    }
}
