//! The landing log: small appends of all chunks land together, and reach their chunks' own zones in large pieces.
//!
//! If every chunk has its own zone each append is a seek, however short. So short ones are written to a few landing
//! zones first, in the order they come, many to a write, and acknowledged there. Their bytes stay in memory until there
//! is much to move at once ([`mover`]); then the index takes them, and the landed records are dead. A landing zone is
//! never written twice, and is garbage once all its records are dead.
//!
//! A landed record is an ordinary data record. If its bytes cannot be moved, for want of space, after errors, or
//! because memory was lost with the power, the index takes it in its landing zone ([`Engine::adopt`]).
//!
//! # Invariants
//! - CS-LAND-1: what a chunk has in landing zones is a run of whole appends behind its indexed bytes (CS-TAIL-1), each durable
//!   before the next of the chunk is written: a power cut leaves a prefix, wherever its parts lie.
//! - CS-LAND-2: an append goes to the chunk's own zone only behind all that landed, in the same zone and order.
//! - CS-LAND-3: a landing zone's `indexed_to` stays before its oldest record that is neither in the index nor dead
//!   (CS-ZONE-3), and the zone is not reset while there is one.
//! - CS-LAND-4: what landed is not dead unless its move counts (CS-APP-7): else it is moved another time. `what_landed_stays_where_the_zone_of_its_move_loses_its_cache`.

mod log;
mod mover;
mod phases;
mod state;
mod tail;
mod zones;

pub(crate) use crate::landing::state::LandingLog;
pub(crate) use crate::landing::tail::Tail;
