//! Zoned devices: the contract, and the devices that need no hardware.
//!
//! A zoned device is an array of zones. A *conventional* zone is written anywhere; a *sequential* zone only at its
//! write pointer, and is emptied as a whole by a reset. The contract covers what ZBC, ZAC and ZNS drives do.
//!
//! **Owns** the contract ([`ZonedDevice`]), the zone state machine, memory and file devices, views.
//! **Knows nothing of** records, engines, or time.

pub mod contract_suite;
mod device;
mod error;
mod file;
mod flushes;
mod geometry;
pub mod lanes;
mod machine;
mod memory;
mod patience;
mod peek;
mod pieces;
mod preset;
mod view;
mod zone;

pub use device::{DeviceFuture, ZonedDevice};
pub use error::{DeviceError, DeviceErrorKind, DeviceResult, Violation};
pub use file::{
    CreateOptions, FileDevice, FileDeviceError, FileDeviceErrorKind, Held, HostFile, HostIo, TakenFile,
    parse_file_device,
};
pub use flushes::Flushes;
pub use geometry::{Geometry, GeometryError};
pub use machine::{Applied, ImpossibleState, Machine, Target, gathered_length};
pub use memory::{Keep, MemoryDevice};
pub use patience::{patiently, read_patiently, report_patiently};
pub use peek::PeekDevice;
pub use preset::GeometrySpec;
pub use view::{Share, ZoneRange, ZoneRangeError};
pub use zone::{ZoneInfo, ZoneOp, ZoneState};
