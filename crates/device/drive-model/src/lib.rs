//! Service times of drives: conventional disks (CMR), host-managed and drive-managed shingled disks (HM-SMR, DM-SMR), zoned
//! flash (ZNS) and SSDs.
//!
//! **Owns** the mechanics: arm, rotation, recording zones, queue, caches, zone management; and mapping layers over them.
//! **Knows nothing of** data, zone states or errors (crate `zoned`), and of clocks: time is a number that it is given.
//!
//! A [`Drive`] is a state machine: commands are [submitted](Drive::submit) at a time, and complete when it is
//! [advanced](Drive::advance) to a later one. Everything is a function of the profile and the commands. The profile has all
//! constants; they change only by calibration against published figures. Random numbers come from the seed of its jitter, if it has any.
//!
//! # Invariants
//! - DM-MODEL-1: the same commands at the same times complete at the same times, to the nanosecond, on every machine:
//!   integers, and of floating point only the operations that IEEE 754 defines exactly (`+ - * /`, square root).

mod cache;
mod command;
mod disk;
mod drive;
mod flash;
mod late;
mod model;
mod motion;
mod profile;
mod random;
mod seek;
mod surface;
pub mod translation;

pub use command::{Command, CommandId, Nanos, Op};
pub use drive::Drive;
pub use model::{Model, Written};
pub use motion::Motion;

pub use profile::{
    Cache, CachePlace, Figure, Flash, FullyAssociative, Jitter, Kind, Mechanics, MediaCache, PageMapped, Profile,
    ProfileError, Published, Queue, Recording, SetAssociative, Shape, Translation, Zones,
};
pub use seek::SeekCurve;
pub use surface::{Position, Surface};
