//! Parts that engines on zoned drives share.
//!
//! **Owns** the joining of many calls into one, flushes that are shared, the account of losses, tries for room in a journal, the table of
//! an engine's zones, the writing of what waits for a zone, and the life of a keeper's task.
//! **Knows nothing of** records, chunks, sets or any engine's formats, and of no policy: engines choose.

mod flush;
mod join;
mod journal;
mod keeper;
mod losses;
mod write;
mod zones;

pub use flush::{Flusher, flush};
pub use join::Joint;
pub use journal::JournalRoom;
pub use keeper::Keeper;
pub use losses::Losses;
pub use write::{AfterFailure, Command, Lane, Writer, ZoneCommands, give_up_active, write_lane};
pub use zones::{Pin, Reset, Status, Vacated, Written, Zone, ZoneTable};
