//! Volumes: the contract, a model, power cuts at every command, and chains of lives with faults. One program, so that it links once.

mod abandoned;
mod closing;
mod common;
mod contract;
mod controllers;
mod crash;
mod failed_writes;
mod full;
mod gathering;
mod hollow;
mod host_full;
mod idle_frontiers;
mod limits;
mod lives;
mod mapped;
mod model;
mod openings;
mod smaller;
mod snapshots;
mod stuck_zones;
mod unreadable;
