//! Transactions that pass one that waits for room, which may be theirs to make.
//!
//! # Invariants
//! - BLU-PASS-1: a transaction passes only if it asks for it, needs no room, succeeds, and has nothing in common with those that it passes:
//!   no object, but for other keys of one's omap. So each of them finds what it would have found in the order of submission.

use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{Either, select};

use super::plan;
use super::run::Turn;
use crate::engine::Engine;
use crate::error::BlueResult;
use crate::ids::ObjectId;
use crate::sequence::{Collection, Job, Reply};
use crate::transaction::{Operation, Transaction};

/// Jobs that are passed at most.
const PASSED_MAX: usize = 256;

/// Something that a transaction has to do with: an object as a whole, or a key of its omap.
type Touch<'t> = (&'t ObjectId, Option<&'t [u8]>);

impl Engine {
    /// Promises blocks to a transaction. As long as it waits for them, others of its collection pass it.
    pub(super) async fn reserve_behind(
        self: &Rc<Self>,
        collection: &Rc<Collection>,
        transaction: &Transaction,
        blocks: u64,
    ) -> BlueResult<()> {
        let mut reserving = pin!(self.reserve(blocks));
        if let Some(done) = (&mut reserving).now_or_never() {
            return done;
        }
        loop {
            while let Some((at, passing, reply)) = take_passing(collection, transaction) {
                self.pass(collection, at, passing, reply).await;
            }
            // `notify_one` leaves a permit for jobs that came meanwhile.
            let queued = pin!(collection.queued.notified());
            if let Either::Left((done, _)) = select(&mut reserving, queued).await {
                return done;
            }
        }
    }

    /// Has a transaction happen before its turn; one that fails waits for it, at its place in the queue.
    async fn pass(self: &Rc<Self>, collection: &Rc<Collection>, at: usize, mut passing: Transaction, reply: Reply) {
        match self.prepare(collection, &passing, Turn::Passes).await {
            Ok(prepared) => {
                let change = self.happen(prepared, passing);
                self.commit(collection, change, reply);
                let mut state = self.state.borrow_mut();
                state.counters.passed += 1;
                // It is under way, and may make room: whoever waits goes on waiting.
                state.full = None;
            }
            Err(_) => {
                passing.passes = false;
                collection.queue.borrow_mut().insert(at, Job::Transaction(passing, reply));
            }
        }
    }
}

/// It may pass, and needs no room. A clone may copy bytes.
fn passes(transaction: &Transaction) -> bool {
    let operations = &transaction.operations;
    transaction.passes
        && plan::blocks(operations) == 0
        && operations.iter().all(|operation| operation.source().is_none())
}

/// Takes the first transaction out of the queue that passes `waiting` and all before it, with its place. (BLU-PASS-1)
fn take_passing(collection: &Collection, waiting: &Transaction) -> Option<(usize, Transaction, Reply)> {
    let mut queue = collection.queue.borrow_mut();
    let passed = queue.iter().take(PASSED_MAX).map_while(|job| match job {
        Job::Transaction(transaction, _) => Some(transaction),
        // It waits until all that was submitted before it is durable, and only that.
        Job::Hold(..) => None,
    });
    let mut touched: Vec<Touch<'_>> = touches(waiting).collect();
    let mut found = None;
    for (at, transaction) in passed.enumerate() {
        if passes(transaction) && !meet(&touched, transaction) {
            found = Some(at);
            break;
        }
        touched.extend(touches(transaction));
    }
    let at = found?;
    match queue.remove(at)? {
        Job::Transaction(transaction, reply) => Some((at, transaction, reply)),
        hold @ Job::Hold(..) => {
            queue.insert(at, hold);
            None
        }
    }
}

fn touches(transaction: &Transaction) -> impl Iterator<Item = Touch<'_>> {
    transaction.operations.iter().flat_map(|operation| {
        let key = match operation {
            Operation::OmapSet { key, .. } | Operation::OmapRemove { key, .. } => Some(&key[..]),
            _ => None,
        };
        [Some((operation.target(), key)), operation.source().map(|from| (from, None))].into_iter().flatten()
    })
}

fn meet(touched: &[Touch<'_>], transaction: &Transaction) -> bool {
    let same = |one: &Touch<'_>, other: &Touch<'_>| {
        one.0 == other.0 && one.1.zip(other.1).is_none_or(|(one, other)| one == other)
    };
    touches(transaction).any(|touch| touched.iter().any(|other| same(&touch, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BLU-PASS-1
    #[test]
    fn a_transaction_meets_another_in_an_object_or_in_a_key_of_an_omap() {
        let (one, other) = (ObjectId::new(1, "a"), ObjectId::new(1, "b"));
        let meets = |first: &dyn Fn(&mut Transaction), second: &dyn Fn(&mut Transaction)| {
            let made = |build: &dyn Fn(&mut Transaction)| {
                let mut transaction = Transaction::new();
                build(&mut transaction);
                transaction
            };
            let (first, second) = (made(first), made(second));
            let touched: Vec<_> = touches(&first).collect();
            let there = meet(&touched, &second);
            let back: Vec<_> = touches(&second).collect();
            assert_eq!(there, meet(&back, &first));
            there
        };
        let set = |id: &ObjectId, key: &'static str| {
            let id = id.clone();
            move |transaction: &mut Transaction| {
                transaction.omap_set(&id, key, "value");
            }
        };
        let remove = |id: &ObjectId| {
            let id = id.clone();
            move |transaction: &mut Transaction| {
                transaction.remove(&id);
            }
        };
        assert!(!meets(&set(&one, "k"), &set(&one, "l")) && meets(&set(&one, "k"), &set(&one, "k")));
        assert!(meets(&set(&one, "k"), &remove(&one)) && !meets(&set(&one, "k"), &remove(&other)));
        let clone = |transaction: &mut Transaction| {
            transaction.clone_object(&one, &other);
        };
        assert!(meets(&clone, &set(&one, "k")) && meets(&clone, &remove(&other)));
    }
}
