//! The metadata log of a store: marks, room, losses.

#[path = "../common/mod.rs"]
mod common;
mod log_loss;
mod log_room;
mod marks;
mod moved;
