//! The shape of the source tree: files of one subject, modules without circles, invariants that a test holds.

mod circles;
mod invariants;
mod lengths;
mod sources;
