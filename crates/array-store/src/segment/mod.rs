//! Segments: their shape, their writing, their reading.

mod frames;
mod hollow;
mod read;
mod rotation;
mod shape;

pub(crate) use frames::{FrameContext, fragment_frames};
pub(crate) use hollow::{fragment_hollow, read_hollow, zeros};
pub(crate) use read::{Fault, Source, read_part};
pub(crate) use rotation::Rotation;
pub(crate) use shape::Shape;
