//! The store's own jobs: blobs that get other places, without a change of what they hold.

use std::rc::Rc;

use crate::blob::Blob;
use crate::change::Moved;
use crate::map::Extent;
use crate::object::Object;
use crate::piece::Group;

/// Blobs of a shard, or one shared blob, were copied to other places. The copies are durable.
pub(crate) struct Move {
    /// The shard, unless the blob is shared.
    pub(crate) shard: Option<(Rc<Object>, u32)>,
    pub(crate) moves: Vec<Moved>,
}

/// An extent as it was when its bytes were gathered, with the blob that has them now and their first byte there.
pub(crate) type Gathered = (Extent, Rc<Blob>, u32);

/// Deferred writes of a shard were gathered into blobs, or what it shows of thin ones was.
pub(crate) struct Rewrite {
    pub(crate) object: Rc<Object>,
    pub(crate) shard: u32,
    pub(crate) gathered: Vec<Gathered>,
    pub(crate) written: Vec<Rc<Blob>>,
    pub(crate) group: Rc<Group>,
}
