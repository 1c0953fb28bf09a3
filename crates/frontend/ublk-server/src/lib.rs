//! Zoned devices and block stores as disks of the kernel: `/dev/ublkbN`.
//!
//! A disk lies on the thread of its owner: the kernel's requests come there, and are done there by the [backend](Backend), each in a
//! task of its own. The kernel's part is that of `shingle-zoned-linux`.
//!
//! **Owns** the translation of requests and failures, and the life of a disk. **Knows nothing of** engines, files and volumes: it sees
//! a [`ZonedDevice`](shingle_zoned::ZonedDevice) or a [`BlockStore`](shingle_store_api::BlockStore).
//!
//! # Invariants
//! - UB-ACK-1: a request is answered after its command completed, with what that said; each is answered once.
//! - UB-READ-1: a read gives the bytes that were written, or zeros where no byte was, as a new drive's; never those of other places.
//!   (`reads_go_on_with_zeros_behind_the_write_pointer`)
//! - UB-END-1: a disk that ends in order has served all that the kernel held for it.

mod backend;
mod disk;
mod errno;
mod store;
mod zoned;

pub use backend::{Backend, Done, Refused};
pub use disk::Disk;
pub use store::StoreDisk;
pub use zoned::ZonedDisk;
