//! The array as its callers see it, on simulated drives: histories, power cuts, lost drives, rot, and what each rule is for.
//! One program, since compiling the engine into each of ten takes longer than running all of them.

mod amplification;
mod buffer;
mod columns;
mod common;
mod crash;
mod drives;
mod failing;
mod formatting;
mod hollow;
mod hung;
mod judging;
mod lives;
mod losses;
mod members;
mod model;
mod promises;
mod rebuild;
mod recovery_rules;
mod rules;
mod slow;
mod slow_writes;
mod stuck;
