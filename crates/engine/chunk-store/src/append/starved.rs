//! Chunks with appends that wait for a zone, by pool, in the order they began to wait.

use std::collections::VecDeque;

use crate::append::pools::PoolId;
use crate::index::Handle;

/// Queues of chunks, one for each pool.
#[derive(Debug)]
pub(crate) struct Starved {
    pools: Vec<VecDeque<Handle>>,
}

impl Starved {
    pub(crate) fn new(pools: usize) -> Self {
        Self { pools: vec![VecDeque::new(); pools] }
    }

    /// A chunk, which is in no queue, waits for a zone of the pool.
    pub(crate) fn push(&mut self, pool: PoolId, chunk: Handle) {
        self.pools[pool].push_back(chunk);
    }

    /// Takes out all that wait for a zone of the pool.
    pub(crate) fn take(&mut self, pool: PoolId) -> VecDeque<Handle> {
        std::mem::take(&mut self.pools[pool])
    }

    /// The first pool that chunks wait for.
    pub(crate) fn first(&self) -> Option<PoolId> {
        self.pools.iter().position(|waiting| !waiting.is_empty())
    }

    /// True if a chunk waits.
    pub(crate) fn any(&self) -> bool {
        self.first().is_some()
    }

    /// All that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.pools.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_wait_for_their_pool_in_the_order_they_came() {
        let mut starved = Starved::new(3);
        assert_eq!((starved.any(), starved.first()), (false, None));
        for (pool, chunk) in [(2, 9), (1, 8), (2, 7)] {
            starved.push(pool, chunk);
        }
        assert_eq!((starved.first(), starved.iter().collect::<Vec<_>>()), (Some(1), vec![8, 9, 7]));
        assert_eq!((starved.take(1), starved.take(2)), (VecDeque::from([8]), VecDeque::from([9, 7])));
        assert!(!starved.any());
    }
}
