//! Experiments at quick scale: their orders, and the same figures for a seed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dissertation;
mod orderings;
mod own_traces;
mod same_seed;
