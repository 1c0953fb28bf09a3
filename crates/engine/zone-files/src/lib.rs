//! Files of databases on zoned drives: write-ahead logs, sorted tables, and the small files beside them. (Dissertation, sections 4.4 and
//! 5.4: BlueFS for zones.)
//!
//! [`ZoneFiles`] has directories and files that grow at their ends. Bytes are records in zones, shared by files of one lifetime; metadata
//! live in memory, and in a journal that checkpoints make short. A sync of a log is one write to the drive. See
//! `docs/decisions/0088-files-on-zones.md` and `0105-tables-begin-zones.md`.
//!
//! **Owns** the files on a drive: formats, names, extents, zones, cleaning, recovery. **Knows nothing of** databases above it.
//!
//! # Invariants
//! Each module states its own: ZF-TREE of names, ZF-PAGE of copies, ZF-EXT of extents, ZF-LIMIT of the layout, ZF-JOURNAL of entries, ZF-LANE, ZF-SPARE,
//! ZF-WRITE, ZF-SYNC, ZF-LOG and ZF-ROOM of writes, ZF-READ of reads, ZF-ZONE and ZF-RESET of zones, ZF-CLEAN of cleaning, ZF-REC of recovery.

mod check;
mod clean;
mod config;
mod copy;
mod drive;
mod engine;
mod error;
mod extent;
mod files;
mod format;
mod handle;
mod identity;
mod keeper;
mod layout;
mod names;
mod paged;
pub mod parse;
mod payload;
mod read;
mod recovery;
mod state;
mod stats;
mod store;
mod stuck;
mod tree;
mod write;
mod zones;

pub use check::{FileDamage, ZoneDump};
pub use config::{CreateOptions, FileKind, FormatOptions, Options, WriteLifetime};
pub use error::{FilesError, FilesErrorKind, FilesResult};
pub use files::{DirEntry, FileLock, ZoneFiles};
pub use format::ENGINE;
pub use handle::{File, FileInfo};
pub use recovery::RecoveryReport;
pub use stats::{Counters, Figure, FigureKind, FilesStats};
