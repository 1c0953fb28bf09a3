//! Files on zones: semantics, a model, power cuts at every command, chains of lives with faults, damage, full drives. One program, so that
//! it links once.

mod common;
mod crash;
mod damage;
mod driver;
mod full;
mod holes;
mod host_full;
mod limits;
mod lives;
mod lsm;
mod merge_tree;
mod openings;
mod pressure;
mod semantics;
mod steps;
mod store;
mod superblocks;
mod world;
