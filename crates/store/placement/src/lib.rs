//! One store out of several: a bucket lives on one of them, and an object can lie on another by its storage class.
//!
//! A bucket's home is the store that has a bucket of its name. Another store that keeps some of its objects has a guest of
//! it: a bucket of that name with a slash before it, which no S3 name has. So everything that is to be known lies in the
//! stores themselves.
//!
//! **Owns** which store an object is written to, and that it is on one of them only. **Knows nothing of** what the stores
//! are.
//!
//! # Invariants
//! - PLC-1: a commit is answered once no other store has the key: so an older object there is gone, or the newer one was not
//!   acknowledged, whichever of the two a power cut leaves.
//! - PLC-2: where two stores have a key, everyone sees the one that was committed last.
//! - PLC-4: a listing shows each key that was there before it began and is not deleted until it ends, also one that goes from
//!   store to store meanwhile.
//! - PLC-5: what changes something goes on to its end also when its caller goes away, as in the stores themselves: whoever
//!   comes next finds either all of it or nothing, and finds it finished.
//! - PLC-3: conditions are checked against what everyone sees, and hold until the commit.
//! - PLC-6: a site that does not answer stops what concerns its own buckets alone. Which ones these are is noted before a bucket is
//!   made there; as long as nothing was noted of a site that was not open yet, it could have any.
//!
//! Tests: `tests/placement.rs`; `tests/absent.rs` for sites that do not answer; `tests/moves.rs` for keys that go from store to store and callers that go away.

mod keys;
mod merge;
mod moves;
mod site;
mod store;
mod tidy;
mod whole;
mod writer;

pub use site::{Noted, Notes, Site};
pub use store::Placement;
