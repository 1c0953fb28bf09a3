//! Segments: their shape, their writing, their reading.

mod frames;
mod hedge;
mod hollow;
mod read;
mod rotation;
mod shape;

pub(crate) use frames::{FrameContext, fragment_frames};
pub(crate) use hedge::read_part;
pub(crate) use hollow::{fragment_hollow, read_hollow, zeros};
pub(crate) use read::{Fault, FaultKind, Source};
pub(crate) use rotation::Rotation;
pub(crate) use shape::Shape;
