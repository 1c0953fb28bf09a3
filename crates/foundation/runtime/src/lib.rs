//! Clock, tasks, randomness and blocking work, as engines see them.
//!
//! An engine gets a [`Runtime`] and takes nothing from the operating system: so the same code runs on a
//! thread against a drive ([`real`]) and, in crate `sim`, in virtual time from a seed.
//!
//! **Owns** the contracts and their real versions. **Knows nothing of** devices or engines.
//!
//! # Invariants
//! - RT-1: tasks of one runtime never run at the same time; between two `await`s an engine is alone.
//! - RT-2: in a simulation, the seed decides everything: order of tasks, times and random numbers.

mod local;
pub mod locks;
pub mod memory;
pub mod owner;
pub mod real;
mod rest;
mod time;
mod work;

pub use futures_util::future::LocalBoxFuture;
pub use local::{Contract, Runtime, Task, TaskLost};
pub use rest::Rests;
pub use time::{Instant, UnixTime};
pub use work::Work;
