//! An object backend with transactions on one zoned drive: data in zones, metadata in a key-value store. (Dissertation, sections 4.4, 4.5
//! and 5.7: BlueStore on zoned storage.)
//!
//! [`Store`] has collections of objects, which have bytes, attributes and an omap. Transactions happen as a whole. Data go to zones at once,
//! without a journal; metadata, and small writes, go to a [store of keys](kv::KeyValue) on the drive's files. See
//! `docs/decisions/0093-objects-on-zones.md`.
//!
//! **Owns** the objects on a drive: formats, transactions, zones of data, cleaning. **Knows nothing of** those who keep objects here, and of
//! the database under the metadata.
//!
//! # Invariants
//! Each module states its own: BLU-HASH and BLU-KEY of names, BLU-KV and BLU-LOG of the metadata, BLU-BLOB, BLU-MAP, BLU-PACK and BLU-CHECK of
//! data, BLU-Z, BLU-COUNT and BLU-G of zones in the metadata, BLU-META of their room, BLU-LOAD, BLU-COMMIT, BLU-PASS and BLU-SPLIT of transactions, BLU-WRITE, BLU-ROOM and
//! BLU-DEFER of writes, BLU-THIN of compressed blobs, BLU-READ of reads, BLU-RESET, BLU-VICTIM and BLU-CLEAN of cleaning, BLU-KEPT of zones that fail, BLU-OPEN of openings, BLU-MEND of repairs, BLU-CACHE of memory.

mod blob;
mod change;
mod check;
mod clean;
mod collections;
mod deferred;
mod drive;
mod engine;
mod error;
mod format;
mod hints;
mod ids;
mod keeper;
mod kept;
pub mod kv;
mod layout;
mod looked;
mod map;
mod object;
mod open;
mod options;
pub mod parse;
mod piece;
mod promise;
mod read;
mod relocate;
mod repair;
mod scan;
mod sequence;
mod state;
mod stats;
mod store;
mod thin;
mod transaction;
mod two_queue;
mod txn;
mod victims;
mod write;

pub use check::{Damage, ZoneDump};
pub use error::{BlueError, BlueErrorKind, BlueResult};
pub use format::ENGINE;
pub use hints::{Access, Compression, Hints, Lifetime};
pub use ids::{BITS_MAX, CollectionId, CollectionInfo, HEAD, NAME_MAX, NAMESPACE_MAX, ObjectId};
pub use open::{OPERATORS, OpenReport, ShortZone};
pub use options::{FormatOptions, Metadata, Options, Placement, Victims};
pub use repair::Repaired;
pub use stats::{BlueStats, Counters};
pub use store::{ObjectInfo, Store};
pub use transaction::{ATTRIBUTE_MAX, ATTRIBUTES_MAX, KEY_MAX, OBJECT_MAX, TRANSACTION_MAX, Transaction};
