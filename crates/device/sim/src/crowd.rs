//! Several clients of one store, side by side, through the store's lives: the common part of object stores' tests.
//!
//! **Owns** the clients. **Knows nothing of** drives, and of the end of a life.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_runtime::Runtime;
use shingle_store_api::ObjectStore;

use crate::clients::{Client, Failure, Sizes};

/// Clients that work at once, each with keys of its own.
#[derive(Clone)]
pub struct Crowd(Rc<RefCell<Vec<Client>>>);

impl Crowd {
    /// `count` clients that have done nothing yet.
    pub fn new(seed: u64, count: u64, keys: u64, sizes: Sizes) -> Self {
        let client = |number| Client::new(&format!("c{number}"), seed * 10 + number, keys, sizes);
        Self(Rc::new(RefCell::new((0..count).map(client).collect())))
    }

    /// A copy that shares nothing with this one: the clients' present knowledge, and their calls under way.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().iter().map(Client::fork).collect())))
    }

    /// The life ends at this moment: results of calls that go on afterwards do not count.
    pub fn freeze(&self) {
        let frozen = self.fork().0.take();
        self.0.replace(frozen);
    }

    /// Checks the store against each client's knowledge; calls under way are settled as they are found.
    ///
    /// # Panics
    /// If the store breaks a promise; with `what`.
    pub async fn verify(&self, store: &dyn ObjectStore, what: &str) {
        self.try_verify(store).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    }

    /// As [`verify`](Self::verify), for a store whose drives may fail meanwhile.
    ///
    /// # Errors
    /// The first failure; the clients know then what they knew before.
    pub async fn try_verify(&self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let verified = self.fork();
        let mut clients = verified.0.take();
        for client in &mut clients {
            client.verify(store).await?;
        }
        // Only now: a life may end in the middle.
        self.0.replace(clients);
        Ok(())
    }

    /// Every client makes `calls` calls, and notes each acknowledgement as it comes.
    ///
    /// # Panics
    /// If the store breaks its contract; with `what`.
    pub async fn work<S: ObjectStore + Clone + 'static>(&self, rt: &Runtime, store: &S, calls: usize, what: &str) {
        if let Some(failure) = self.try_work(rt, store, calls).await.first() {
            panic!("{what}: {failure}");
        }
    }

    /// As [`work`](Self::work), for a store whose drives may fail meanwhile. A client ends with its first failure: that call has
    /// happened or not, as one under way at the end of a life.
    pub async fn try_work<S>(&self, rt: &Runtime, store: &S, calls: usize) -> Vec<Failure>
    where
        S: ObjectStore + Clone + 'static,
    {
        let client = |number: usize| {
            let (store, crowd) = (store.clone(), self.0.clone());
            async move {
                for _ in 0..calls {
                    let mut client = crowd.borrow()[number].clone();
                    client.work(&store, 1).await?;
                    crowd.borrow_mut()[number] = client;
                }
                Ok(())
            }
        };
        let count = self.0.borrow().len();
        let working: Vec<_> = (0..count).map(|number| rt.spawn(client(number))).collect();
        let done = join_all(working).await.into_iter().map(|done| done.expect("a client is not lost"));
        done.filter_map(Result::err).collect()
    }
}
