//! Skylight: what a drive is inside, told from the times of its commands. (Dissertation of Aghayev, chapter 2.)
//!
//! **Owns** the contract of a drive under test ([`Target`]), the statistics, and the examinations. **Knows nothing of** the
//! insides of modelled drives: an examination sees the contract alone.

pub mod answer;
pub mod emit;
pub mod exam;
mod findings;
pub mod loads;
mod random;
pub mod report;
mod session;
pub mod stats;
mod survey;
mod target;

pub use findings::{BandAt, Findings, SCHEMA};
pub use random::Random;
pub use session::{Done, Halt, Session, Unwatched, Watch, intervals, latencies};
pub use survey::{Step, survey};
pub use target::{Access, BLOCK, Host, MIB, Modelled, Nanos, Op, Taken, Target, TargetError};
