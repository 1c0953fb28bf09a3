//! Parts of an object backend with transactions on one zoned drive. (Dissertation, sections 4.4, 4.5 and 5.7: BlueStore on zoned storage.)
//!
//! **Owns** names, formats, extent maps and a store of metadata. **Knows nothing of** drives yet.
#![allow(dead_code, unused_imports, reason = "the store itself comes next")]

mod blob;
mod error;
mod format;
mod hints;
mod ids;
pub mod kv;
mod map;
pub mod parse;
mod transaction;
mod two_queue;

pub use error::{BlueError, BlueErrorKind, BlueResult};
pub use format::ENGINE;
pub use hints::{Access, Compression, Hints, Lifetime};
pub use ids::{BITS_MAX, CollectionId, CollectionInfo, HEAD, NAME_MAX, NAMESPACE_MAX, ObjectId};
pub use transaction::{ATTRIBUTE_MAX, KEY_MAX, OBJECT_MAX, TRANSACTION_MAX, Transaction};
