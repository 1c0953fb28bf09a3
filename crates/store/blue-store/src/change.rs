//! The effects of a transaction: what it made of heads, shards and blobs, until its batch of metadata is made.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::blob::{Blob, Place};
use crate::format::object::Head;
use crate::ids::ObjectId;
use crate::kv;
use crate::map::Extents;
use crate::object::Object;
use crate::piece::{Group, Writing};
use crate::promise::Promise;

/// A shard before a transaction and after it.
pub(crate) struct ShardChange {
    pub(crate) object: Rc<Object>,
    pub(crate) before: Rc<Extents>,
    pub(crate) after: Rc<Extents>,
    /// Number of the object, if shards have keys of their own.
    pub(crate) sharded: Option<u64>,
}

/// An object's head after a transaction.
pub(crate) struct HeadChange {
    pub(crate) object: Rc<Object>,
    pub(crate) head: Option<Head>,
    /// All shards, if they are a part of the head.
    pub(crate) inside: Vec<(u32, Rc<Extents>)>,
}

/// Other places of a blob's blocks: copies that are durable.
pub(crate) struct Moved {
    pub(crate) blob: Rc<Blob>,
    pub(crate) writing: Rc<Writing>,
}

/// Effects of a transaction.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) heads: BTreeMap<ObjectId, HeadChange>,
    pub(crate) shards: BTreeMap<(ObjectId, u32), ShardChange>,
    /// Changes of other keys: omaps, and what removed objects had.
    pub(crate) keys: Vec<kv::Change>,
    /// New blobs.
    pub(crate) written: Vec<Rc<Blob>>,
    /// Blobs that have several holders from now on, with pool and hash of the object that had them.
    pub(crate) shares: Vec<(Rc<Blob>, (u64, u32))>,
    pub(crate) moves: Vec<Moved>,
    /// The writes that it waits for.
    pub(crate) group: Rc<Group>,
    /// Something was written to zones.
    pub(crate) wrote: bool,
    /// Blobs that have left the metadata's view, kept until the batch is durable.
    pub(crate) kept: Vec<Rc<Blob>>,
    /// Bytes that the transaction brought.
    pub(crate) bytes: u64,
    /// It is a user's, not the store's own.
    pub(crate) counts: bool,
    /// Its room in the metadata. (BLU-META-1)
    pub(crate) promise: Option<Promise>,
}

impl Moved {
    /// The places of the copies.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.writing.places.borrow().clone()
    }
}
