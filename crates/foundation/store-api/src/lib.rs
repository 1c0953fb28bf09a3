//! Contracts of stores, as front ends and loads see them: of objects in buckets, of blocks, of files.
//!
//! **Owns** the contracts between front ends and engines. **Knows nothing of** either side.
//!
//! # Invariants
//! - API-1: when a call that changes something returns `Ok`, the change survives a power cut.
//! - API-2: a change that was not acknowledged is afterwards wholly there or wholly absent.
//! - API-3: bytes that a reader yields were verified against their checksums first.

mod block;
mod error;
mod file;
mod finding;
mod forward;
mod object;
mod types;
mod upload_id;

pub use block::{BlockStore, Durability, LocalStoreFuture, MAPPED_SECTORS_MIN, MappedRun, accessed};
pub use error::{StoreError, StoreErrorKind, StoreResult};
pub use file::{FileStore, StoredFile};
pub use finding::{Finding, NAMES_MAX, Named, Touched};
pub use object::{ObjectReader, ObjectStore, ObjectWriter, StoreFuture};
pub use types::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, PartInfo, SiteName,
    StoreUsage, UploadInfo, UploadListing, common_prefix,
};
pub use upload_id::UploadId;
