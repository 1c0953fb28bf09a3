//! Transactions: any number of operations on objects of one collection, which happen as a whole.

use bytes::Bytes;

use crate::error::{BlueError, BlueResult};
use crate::hints::Hints;
use crate::ids::{CollectionInfo, ObjectId};

/// Bytes of an object at most.
pub const OBJECT_MAX: u64 = u32::MAX as u64;

/// Bytes of a transaction at most: data, attributes, omap.
pub const TRANSACTION_MAX: u64 = 128 << 20;

/// Bytes of the name of an attribute, or of a key of an omap, at most.
pub const KEY_MAX: usize = 2048;

/// Bytes of an attribute at most.
pub const ATTRIBUTE_MAX: usize = 64 << 10;

/// Bytes of all attributes of an object, with their names, at most: they are one value of the metadata. (BLU-META-2)
pub const ATTRIBUTES_MAX: usize = 1 << 20;

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create(ObjectId),
    Touch(ObjectId),
    Write { id: ObjectId, offset: u64, data: Bytes },
    Append { id: ObjectId, data: Bytes },
    Zero { id: ObjectId, offset: u64, length: u64 },
    Truncate { id: ObjectId, size: u64 },
    Remove(ObjectId),
    Clone { from: ObjectId, to: ObjectId },
    CloneRange { from: ObjectId, to: ObjectId, offset: u64, length: u64, to_offset: u64 },
    SetAttribute { id: ObjectId, name: Vec<u8>, value: Bytes },
    RemoveAttribute { id: ObjectId, name: Vec<u8> },
    OmapSet { id: ObjectId, key: Vec<u8>, value: Bytes },
    OmapRemove { id: ObjectId, key: Vec<u8> },
    OmapClear(ObjectId),
    SetHints { id: ObjectId, hints: Hints },
}

impl Operation {
    /// The object that it changes.
    pub(crate) fn target(&self) -> &ObjectId {
        match self {
            Self::Create(id) | Self::Touch(id) | Self::Remove(id) | Self::OmapClear(id) => id,
            Self::Write { id, .. } | Self::Append { id, .. } | Self::Zero { id, .. } | Self::Truncate { id, .. } => id,
            Self::Clone { to, .. } | Self::CloneRange { to, .. } => to,
            Self::SetAttribute { id, .. } | Self::RemoveAttribute { id, .. } | Self::SetHints { id, .. } => id,
            Self::OmapSet { id, .. } | Self::OmapRemove { id, .. } => id,
        }
    }

    /// The object that it reads beside that.
    pub(crate) fn source(&self) -> Option<&ObjectId> {
        match self {
            Self::Clone { from, .. } | Self::CloneRange { from, .. } => Some(from),
            _ => None,
        }
    }

    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Write { data, .. } | Self::Append { data, .. } => data.len(),
            Self::SetAttribute { name, value, .. } => name.len() + value.len(),
            Self::OmapSet { key, value, .. } => key.len() + value.len(),
            _ => 0,
        };
        bytes as u64
    }

    fn check(&self, info: &CollectionInfo) -> BlueResult<()> {
        for id in [Some(self.target()), self.source()].into_iter().flatten() {
            id.check()?;
            if !info.holds(id.pool, id.hash) {
                return Err(BlueError::invalid(format!("object {id} does not belong to collection {}", info.id)));
            }
        }
        let fits = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= OBJECT_MAX);
        let good = match self {
            Self::Write { offset, data, .. } => fits(*offset, data.len() as u64),
            Self::Zero { offset, length, .. } => fits(*offset, *length),
            Self::Truncate { size, .. } => fits(*size, 0),
            Self::CloneRange { offset, length, to_offset, .. } => fits(*offset, *length) && fits(*to_offset, *length),
            Self::SetAttribute { name, value, .. } => name.len() <= KEY_MAX && value.len() <= ATTRIBUTE_MAX,
            Self::OmapSet { key, .. } | Self::OmapRemove { key, .. } => key.len() <= KEY_MAX,
            _ => true,
        };
        if !good {
            return Err(BlueError::invalid(format!(
                "object {}: an object has at most {OBJECT_MAX} bytes, an attribute {ATTRIBUTE_MAX}, a name {KEY_MAX}",
                self.target()
            )));
        }
        // Parts of a collection that is split keep what they share.
        if self.source().is_some_and(|from| from.hash != self.target().hash || from == self.target()) {
            let target = self.target();
            return Err(BlueError::invalid(format!(
                "object {target}: a clone has the hash of its source, and another name"
            )));
        }
        Ok(())
    }
}

/// Operations on objects of one collection, which happen as a whole, in their order. Each sees the effects of those before it.
///
/// Operations that write create their object if it is not there.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub(crate) operations: Vec<Operation>,
    /// It may use the room of the metadata that is left to those that remove.
    pub(crate) reserve: bool,
    /// It may happen before others that wait for room. (BLU-PASS-1)
    pub(crate) passes: bool,
}

impl Transaction {
    /// One without operations.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }

    /// Lets it use the room of the metadata that is kept for transactions that remove: for one that removes more than it brings, or without
    /// which nothing could be removed. It brings few bytes.
    pub fn with_reserve(&mut self) -> &mut Self {
        self.reserve = true;
        self
    }

    /// Lets it happen before earlier transactions of its collection that wait for room, so that what it removes need not wait for them: for
    /// one that writes no bytes of objects. It passes only those with which it has nothing in common but objects' omaps, of which it changes
    /// other keys; where it has, or fails, it has its turn. After a power cut it may be there without those that it has passed.
    pub fn may_pass(&mut self) -> &mut Self {
        self.passes = true;
        self
    }

    /// Makes an empty object; fails with `Exists` if it is there.
    pub fn create(&mut self, id: &ObjectId) -> &mut Self {
        self.add(Operation::Create(id.clone()))
    }

    /// Makes an empty object if it is not there.
    pub fn touch(&mut self, id: &ObjectId) -> &mut Self {
        self.add(Operation::Touch(id.clone()))
    }

    /// Writes bytes at `offset`; bytes between the object's end and them are zeros.
    pub fn write(&mut self, id: &ObjectId, offset: u64, data: impl Into<Bytes>) -> &mut Self {
        self.add(Operation::Write { id: id.clone(), offset, data: data.into() })
    }

    /// Writes bytes at the object's end.
    pub fn append(&mut self, id: &ObjectId, data: impl Into<Bytes>) -> &mut Self {
        self.add(Operation::Append { id: id.clone(), data: data.into() })
    }

    /// Makes bytes zeros, without a write; the object grows to their end.
    pub fn zero(&mut self, id: &ObjectId, offset: u64, length: u64) -> &mut Self {
        self.add(Operation::Zero { id: id.clone(), offset, length })
    }

    /// Gives the object a size; fails with `NotFound` if it is not there. Bytes beyond its old end are zeros.
    pub fn truncate(&mut self, id: &ObjectId, size: u64) -> &mut Self {
        self.add(Operation::Truncate { id: id.clone(), size })
    }

    /// Removes the object with all that belongs to it; fails with `NotFound` if it is not there.
    pub fn remove(&mut self, id: &ObjectId) -> &mut Self {
        self.add(Operation::Remove(id.clone()))
    }

    /// Makes `to` what `from` is: bytes, attributes, omap and hints; bytes are shared. Both have the same hash. Fails with `NotFound`.
    pub fn clone_object(&mut self, from: &ObjectId, to: &ObjectId) -> &mut Self {
        self.add(Operation::Clone { from: from.clone(), to: to.clone() })
    }

    /// Makes `length` bytes of `to` at `to_offset` what those of `from` at `offset` are, as far as `from` has them; they are shared. Both
    /// have the same hash. Fails with `NotFound`.
    pub fn clone_range(
        &mut self,
        from: &ObjectId,
        offset: u64,
        length: u64,
        to: &ObjectId,
        to_offset: u64,
    ) -> &mut Self {
        self.add(Operation::CloneRange { from: from.clone(), to: to.clone(), offset, length, to_offset })
    }

    /// Sets an attribute.
    pub fn set_attribute(&mut self, id: &ObjectId, name: impl Into<Vec<u8>>, value: impl Into<Bytes>) -> &mut Self {
        self.add(Operation::SetAttribute { id: id.clone(), name: name.into(), value: value.into() })
    }

    /// Removes an attribute, if it is there; fails with `NotFound` without the object.
    pub fn remove_attribute(&mut self, id: &ObjectId, name: impl Into<Vec<u8>>) -> &mut Self {
        self.add(Operation::RemoveAttribute { id: id.clone(), name: name.into() })
    }

    /// Sets a key of the object's omap: a map of any size, in order of keys.
    pub fn omap_set(&mut self, id: &ObjectId, key: impl Into<Vec<u8>>, value: impl Into<Bytes>) -> &mut Self {
        self.add(Operation::OmapSet { id: id.clone(), key: key.into(), value: value.into() })
    }

    /// Removes a key of the omap, if it is there; fails with `NotFound` without the object.
    pub fn omap_remove(&mut self, id: &ObjectId, key: impl Into<Vec<u8>>) -> &mut Self {
        self.add(Operation::OmapRemove { id: id.clone(), key: key.into() })
    }

    /// Empties the omap; fails with `NotFound` without the object.
    pub fn omap_clear(&mut self, id: &ObjectId) -> &mut Self {
        self.add(Operation::OmapClear(id.clone()))
    }

    /// Sets hints for what is written from now on.
    pub fn set_hints(&mut self, id: &ObjectId, hints: Hints) -> &mut Self {
        self.add(Operation::SetHints { id: id.clone(), hints })
    }

    /// Fails for a transaction that no state of the store would allow.
    pub(crate) fn check(&self, info: &CollectionInfo) -> BlueResult<()> {
        let bytes: u64 = self.operations.iter().map(Operation::bytes).sum();
        if bytes > TRANSACTION_MAX {
            return Err(BlueError::invalid(format!("a transaction has at most {TRANSACTION_MAX} bytes, not {bytes}")));
        }
        self.operations.iter().try_for_each(|operation| operation.check(info))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BlueErrorKind;
    use crate::ids::CollectionId;

    #[test]
    fn nonsense_is_refused_before_it_begins() {
        let info = CollectionInfo { id: CollectionId { pool: 1, seed: 0 }, bits: 0 };
        let (id, other) = (ObjectId::new(1, "a"), ObjectId::new(1, "b"));
        let refused = |build: &dyn Fn(&mut Transaction) -> &mut Transaction| {
            let mut transaction = Transaction::new();
            build(&mut transaction);
            transaction.check(&info).map_err(|error| error.kind)
        };
        assert_eq!(refused(&|t| t.write(&id, OBJECT_MAX - 3, "abc").touch(&other)), Ok(()));
        assert_eq!(refused(&|t| t.write(&id, OBJECT_MAX - 3, "abcd")), Err(BlueErrorKind::Invalid));
        assert_eq!(refused(&|t| t.zero(&id, u64::MAX, 9)), Err(BlueErrorKind::Invalid));
        assert_eq!(refused(&|t| t.clone_object(&id, &other)), Err(BlueErrorKind::Invalid), "another hash");
        assert_eq!(refused(&|t| t.clone_object(&id, &id.at_generation(4))), Ok(()));
        assert_eq!(refused(&|t| t.touch(&ObjectId::new(2, "a"))), Err(BlueErrorKind::Invalid), "another pool");
        assert_eq!(refused(&|t| t.touch(&ObjectId::new(1, vec![b'a'; 3000]))), Err(BlueErrorKind::Invalid));
        assert_eq!(refused(&|t| t.set_attribute(&id, "a", vec![0; ATTRIBUTE_MAX + 1])), Err(BlueErrorKind::Invalid));
    }
}
