//! Opening files: superblock, checkpoint, journal, and the records that were written to logs since.
//!
//! All that happened since the checkpoint is gone through again by number: entries of the journal, and records that are found in the
//! zones of logs.
//!
//! # Invariants
//! - ZF-REC-1: every change of names and every byte that was durable is there. Of bytes that were appended without a sync a file has a
//!   prefix, and nothing else.
//! - ZF-REC-2: a log ends at a record that is not whole only if all its blocks can be read, and nothing says that they were durable: no
//!   record behind them, and no end of the zone in the journal. If they cannot be read, the opening is refused.
//! - ZF-REC-3: a record that was durable and is not whole stays in its log, and fails when it is read. If nothing tells whose it is, the
//!   opening is refused.
//! - ZF-REC-4: what was found is durable, and the ends of zones of logs are in the journal, before anybody is answered.

mod find;
mod load;
mod replay;
mod report;
mod scan;
mod start;

pub(crate) use find::find;
pub use report::RecoveryReport;
