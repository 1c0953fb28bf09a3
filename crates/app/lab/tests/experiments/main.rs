//! Experiments at quick scale: their goals and orders, and the same figures for a seed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dissertation;
mod goals;
mod orderings;
mod own_traces;
mod same_seed;
