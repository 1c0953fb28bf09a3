//! Several clients of one store, side by side, through the store's lives: the common part of object stores' tests.
//!
//! **Owns** the clients. **Knows nothing of** drives, and of the end of a life.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_store_api::ObjectStore;

use crate::clients::{Client, Sizes};

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
        let verified = self.fork();
        let mut clients = verified.0.take();
        for client in &mut clients {
            client.verify(store).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
        }
        // Only now: a life may end in the middle.
        self.0.replace(clients);
    }

    /// Every client makes `calls` calls, and notes each acknowledgement as it comes.
    ///
    /// # Panics
    /// If the store breaks its contract; with `what`.
    pub async fn work<S: ObjectStore + Clone + 'static>(&self, rt: &Runtime, store: &S, calls: usize, what: &str) {
        let client = |number: usize| {
            let (store, crowd, what) = (store.clone(), self.0.clone(), what.to_owned());
            async move {
                for _ in 0..calls {
                    let mut client = crowd.borrow()[number].clone();
                    client.work(&store, 1).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
                    crowd.borrow_mut()[number] = client;
                }
            }
        };
        let count = self.0.borrow().len();
        let working: Vec<_> = (0..count).map(|number| rt.spawn(client(number))).collect();
        for client in working {
            assert!(client.await.is_ok(), "{what}: a client was lost");
        }
    }
}
