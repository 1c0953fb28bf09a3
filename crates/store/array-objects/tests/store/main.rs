//! A store on an array as its callers see it, on simulated drives, with power cuts in between.

mod calls;
mod contract;
mod crash;
mod lives;
mod parts;
mod salvage;
mod scene;
mod unsure;
