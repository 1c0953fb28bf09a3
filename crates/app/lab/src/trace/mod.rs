//! Traces: recorded commands of real file systems, and the way to play them on a modelled drive.

pub mod recording;
pub mod replay;
