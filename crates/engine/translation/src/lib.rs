//! The data plane of translation layers: random writes on zoned drives. (FSTL, section III.)
//!
//! A [`Volume`] writes at frontiers in zones, out of place; keeps an extent map of its sectors in memory; journals each write with
//! its data; and copies and resets zones as room is needed. See `docs/decisions/0081-translation-data-plane.md`.
//!
//! **Owns** the volume on a drive: formats, map, zones, recovery. **Knows nothing of** file systems and exports above it.
//!
//! # Invariants
//! Each module states its own: TL-MAP and TL-PLACE of the map, TL-SIZE of the layout, TL-ORDER and TL-WRITE of writes, TL-READ of
//! reads, TL-ZONE and TL-RESET of zones, TL-ROOM of room, TL-STEP and TL-PACE of cleaning beside callers, TL-CKPT of checkpoints, TL-SNAP of snapshots, TL-REC of recovery.

mod checkpoint;
mod clean;
mod config;
mod control;
mod drive;
mod engine;
mod failure;
mod format;
mod identity;
mod keeper;
mod layout;
mod lifecycle;
mod map;
mod pace;
pub mod parse;
mod payload;
mod place;
mod read;
mod recovery;
mod room;
mod snapshot;
mod state;
mod stats;
mod volume;
mod write;
mod zones;

pub use clean::Copied;
pub use config::{FormatOptions, Options};
pub use control::{Control, ControlShape, Event, ZoneName, ZoneUse, ZoneView};
pub use format::ENGINE;
pub use map::{Extent, ExtentMap, LENGTH_MAX, Malformed};
pub use place::{Place, Stride};
pub use recovery::{RecoveryReport, Unknown};
pub use room::FREE_MIN;
pub use snapshot::{SnapshotInfo, SnapshotView};
pub use stats::{Counters, VolumeStats};
pub use volume::{Identified, Volume};
pub use write::Route;
