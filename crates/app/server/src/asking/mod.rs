//! Questions of commands to a running server about its open engines, through the socket in its data directory.
//!
//! A command posts one question in JSON. The answer is lines of JSON; the last one has the outcome.
//!
//! # Invariants
//! - SV-ASK-1: an answer takes bounded memory, on any subject: the server goes on when earlier lines were read.
//! - SV-ASK-2: a client that goes away, or reads nothing for [`lines::STALL`], ends the work. (`test_running.py`)
//! - SV-ASK-3: at most [`SEATS`] questions and sessions are answered at a time, and each engine has at most one check.

mod answer;
mod client;
mod head;
mod lines;
pub(crate) mod session;
mod verbs;
mod wire;

pub(crate) use answer::respond;
pub use client::Running;
pub use session::Served;
pub use wire::ArrayStanding;

/// Questions that are answered at a time.
pub(crate) const SEATS: usize = 8;
/// Bytes of a question: an array of 255 drives with long names takes a part of it.
const QUESTION_BYTES_MAX: usize = 256 << 10;
/// Bytes of a line of an answer: the longest names, with every byte escaped, take a part of it.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Path of the request that carries a question.
pub(crate) const PATH: &str = "/ask";
