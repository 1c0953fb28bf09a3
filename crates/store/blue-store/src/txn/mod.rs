//! Transactions on their way: checked, applied to the state in memory, made durable.

mod apply;
mod batch;
mod bill;
mod commit;
mod copies;
mod load;
mod pass;
mod plan;
mod run;
mod settle;

pub(crate) use apply::build;
pub(crate) use load::Shards;
