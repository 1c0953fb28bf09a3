//! Writing: appends become pieces, pieces become records of a lane's zone, several in one command.

mod append;
mod lane;
mod piece;
mod spare;
mod sync;
mod worker;
mod zone;

pub(crate) use lane::{COPIES, LOGS, Lanes, OWN, STREAMS, reserve};
pub(crate) use piece::{Copying, Piece, Target, cut};
