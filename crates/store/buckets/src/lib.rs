//! The bucket engine: what S3 asks of buckets, objects and uploads, over any store that can keep names and bytes.
//!
//! A store is two small contracts on one owner task: a [`Catalog`] that finds, scans and changes what names stand for, and
//! [`Blobs`] that take and give bytes. The engine has the rules: which calls wait for each other, conditions, which parts make
//! an object, pages of listings, limits of names.
//!
//! **Owns** the buckets that there are, and the locks. **Knows nothing of** formats, drives, or how a change becomes durable.
//!
//! Module `catalog` has the contracts, `calls` the rules, `names` the locks. The contract suite of
//! `store-testing`, which every store runs, holds the rules.

mod attributes;
mod calls;
mod catalog;
mod client;
mod entrance;
mod errors;
mod failed;
mod known;
mod limits;
mod listing;
mod names;
mod parts;
mod writer;

pub use attributes::Attributes;
pub use calls::list;
pub use catalog::{Blobs, Body, Catalog, Client};
pub use entrance::{Desks, Door, Entrance};
pub use failed::Failed;
pub use known::Buckets;
pub use limits::Limits;
pub use listing::{Met, Page, Start};
pub use names::Names;
pub use parts::{Chosen, Part};
