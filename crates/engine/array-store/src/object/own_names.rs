//! Names that an array keeps for itself.

/// Name of the object that an array of a version before 9 has where an opening lost something. (AS-LOSS-1) No caller's
/// name begins with a zero byte.
pub(crate) const LOSS_NAME: &[u8] = b"\0lost";

/// True for a name of the array's own.
pub(crate) fn is_own(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// Names that callers see begin behind it.
pub(crate) const OWN_NAMES_END: &[u8] = b"\0\xff";

/// The name that pieces of snapshots carry in their layout markers: no object has it: names that begin with a
/// zero byte are refused.
pub(crate) const SNAPSHOT_NAME: &[u8] = b"\0index";
