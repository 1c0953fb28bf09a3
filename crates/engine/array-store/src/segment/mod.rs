//! Segments: their shape, their writing, their reading.

mod columns;
mod frames;
mod framing;
mod hedge;
mod hollow;
mod payload;
mod read;
mod rotation;
mod shape;

pub(crate) use columns::{Columns, Rows};
pub(crate) use frames::{FrameContext, fragment_frames};
pub(crate) use framing::Framing;
pub(crate) use payload::{For, Payload};
pub(crate) use read::{Fault, FaultKind, Source};
pub(crate) use shape::Shape;
