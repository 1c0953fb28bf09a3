//! Buckets on a blue store as their callers see them, on simulated drives, with power cuts in between.

mod contract;
mod counting;
mod crash;
mod damage;
mod full;
mod lives;
mod parts;
mod scene;
