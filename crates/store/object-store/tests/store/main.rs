//! The object store as its callers see it, on chunk stores in memory and on zones, with crashes in between.

mod accepting;
mod checking;
mod chunks;
mod contract;
mod crash;
mod ending;
mod even;
mod full_index;
mod gc;
mod harm;
mod histories;
mod host_full;
mod hung;
mod lives;
mod opening_cost;
mod parts;
mod promises;
mod reading;
mod recovery;
mod short_ways;
mod slow;
mod space;
mod unseen;
mod unsure;
mod world;
mod zones;
