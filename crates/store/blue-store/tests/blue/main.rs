//! The store: semantics, a model, power cuts at every command, faults, damage, full drives. One program, so that it links once.

mod checking;
mod cleaning;
mod common;
mod crash;
mod damage;
mod driver;
mod dropped;
mod full;
mod growth;
mod keeping;
mod kv;
mod lives;
mod long;
mod lost_cache;
mod openings;
mod pieces;
mod promises;
mod repair;
mod room;
mod semantics;
mod sharing;
mod spoilt;
mod superblocks;
mod tight;
mod watched;
mod world;
