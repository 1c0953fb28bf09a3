//! One store out of several: a bucket lives on one of them, and an object can lie on another by its storage class.
//!
//! A bucket's home is the store that has a bucket of its name. Another store that keeps some of its objects has a guest
//! of it: a bucket of that name with a slash before it, which no S3 name has. So the stores themselves hold all that
//! must be known.
//!
//! **Owns** the choice of the store that an object is written to, and that it is on one of them only. **Knows nothing
//! of** the stores' engines.
//!
//! # Invariants
//! - PL-PLC-1: a commit is answered once no other store has the key. If power fails before the answer, either the old or
//!   the new object is seen afterwards.
//! - PL-PLC-2: if two stores have a key, everyone sees the object that was committed last.
//! - PL-PLC-4: a listing shows each key that exists from its beginning to its end exactly once, even if the key moves
//!   between stores meanwhile: a listing during which a move removed an old copy is made again.
//! - PL-PLC-5: a change goes on to its end when its caller goes away, as in the stores themselves: the next caller finds
//!   all of it or nothing, and finds it finished.
//! - PL-PLC-3: conditions are checked against the object that everyone sees, and hold until the commit.
//! - PL-PLC-6: a site that does not answer, or is silent for ever, stops its own buckets alone: nothing that another bucket needs
//!   is held while a site is asked (PL-NAME-1). A bucket is noted before it is made on a site; a site without notes that was never
//!   open could have any bucket.
//! - PL-PLC-7: a delete that is acknowledged is final on every site of its bucket, also where an earlier put failed and may have
//!   landed. `a_delete_after_a_put_that_may_have_landed_on_any_site_is_final`.
//! - PL-PLC-8: a bucket whose deletion failed on a site can be deleted to its end or made anew, whether its site has it yet or not.
//!   `a_bucket_whose_deletion_failed_can_be_deleted_and_made_anew`.
//! - PL-PLC-9: a bucket or guest whose creation failed may be there, and is ended on its site before its bucket is made on another one, and
//!   with its bucket: two sites never come with homes of one name. No guest is made, and nothing is read or written, where the home turns
//!   out not to be there. `a_bucket_whose_creation_failed_on_a_site_is_made_on_another`.
//!
//! Tests: `tests/placement.rs`; `tests/absent.rs` and `tests/silent.rs` for sites that refuse or stay silent; `tests/unsure.rs` for calls that failed and
//! may have happened; `tests/moves.rs` for keys that go from store to store and callers that go away.

mod by_name;
mod merge;
mod moves;
mod site;
mod store;
mod tidy;
mod whole;
mod writer;

pub use site::{Noted, Notes, Site};
pub use store::Placement;
