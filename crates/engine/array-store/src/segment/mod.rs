//! Segments: their shape, their writing, their reading.

mod frames;
mod framing;
mod hedge;
mod hollow;
mod read;
mod rotation;
mod shape;

pub(crate) use frames::{FrameContext, fragment_frames};
pub(crate) use framing::Framing;
pub(crate) use hedge::read_part;
pub(crate) use hollow::{fragment_hollow, read_hollow, zeros};
pub(crate) use read::{Fault, FaultKind, Source};
pub(crate) use shape::Shape;
