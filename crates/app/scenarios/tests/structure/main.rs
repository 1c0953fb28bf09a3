//! The shape of the source tree: files of one subject, modules without circles, invariants that a test holds, tables
//! that the code follows, comments that name their subject.

mod circles;
mod invariants;
mod lengths;
mod sources;
mod tables;
mod words;
