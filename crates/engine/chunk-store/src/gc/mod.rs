//! Garbage collection of zones: pick a victim, move what lives, swap the index. (SMRstore, section 5.5.)
//!
//! # Invariants
//! - CS-GC-1: the index is swapped only when the copies are durable; until then the victim is pinned and untouched.
//! - CS-GC-2: records keep their ranges when they move (CS-APP-4), so that original and copy are interchangeable.
//! - CS-GC-3: while copies are not swapped in, their zone's `indexed_to` stays before them, so recovery scans them.
//! - CS-GC-4: a copy is numbered only while its chunk lives, so that it never passes for a record of a later chunk of the
//!   same id.
//! - CS-GC-5: a zone with copies that are not swapped in yet is not reset, even if all else in it dies meanwhile.
//! - CS-GC-6: what lives in a zone that can be read only is moved away before GC does anything but win what appends wait
//!   for.
//! - CS-GC-7: a victim of which [`FAILED_READS_MAX`](migrate::FAILED_READS_MAX) reads failed is given up, so that it keeps
//!   no other from being emptied for long. Records copied by then count, and it rests (CS-GC-10). The next try begins where this one
//!   ended, round and round, so that bad records do not keep good ones behind them. `gc_gives_up_a_zone_that_cannot_be_read`,
//!   `good_records_behind_many_bad_ones_are_moved_by_a_later_try`.
//! - CS-GC-8: the index is pointed at no copy unless the drive said after the flush that its zone can be written still: one that
//!   can be read only, or is offline, may have lost the copy before. The original stays, and its zone can be a victim
//!   again; nor does an opening tell of that copy as lost (CS-MARK-6). `originals_stay_where_the_zone_with_their_copies_goes_offline`,
//!   `originals_stay_where_the_zone_with_their_copies_loses_its_cache`.
//! - CS-GC-9: emptying a zone ends, even if the caller who asked for it goes away. `a_step_of_gc_ends_though_its_caller_went_away`.
//! - CS-GC-11: a step that finds the drive gone stops the store. `gc_that_finds_the_drive_gone_stops_the_store`.
//! - CS-GC-12: no pause between runs goes on while appends wait for space. `a_pause_of_gc_ends_once_appends_wait_for_space`.
//! - CS-GC-13: where callers have no zone left, nothing is copied out of a zone behind a record that cannot be moved; and while zones rest, nothing
//!   before all of its records have been read. Else copies out of zones that are not won would take the room that the next victim needs.
//!   `zones_whose_rest_ends_leave_gc_time_for_others`.

mod collector;
mod lifetime;
mod migrate;
mod policy;
mod rests;
mod swap;
mod task;
mod throttle;
mod victims;

pub(crate) use collector::{Collector, Destination, Destinations};
pub(crate) use lifetime::Lifetimes;
pub use policy::{Candidate, CostBenefit, ExpectedDeath, Greedy, VictimPolicy};
pub use task::{GcReport, GcStatus};
