//! Several clients of one store, side by side, through the store's lives: what tests of object stores have in common.
//!
//! **Owns** the clients. **Knows nothing of** drives, and of how a life ends.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_store_api::ObjectStore;

use crate::clients::{Client, Sizes};

/// Clients that work at once, each with keys of its own.
#[derive(Clone)]
pub struct Crowd(Rc<RefCell<Vec<Client>>>);

impl Crowd {
    /// So many clients that have done nothing yet.
    pub fn new(seed: u64, count: u64, keys: u64, sizes: Sizes) -> Self {
        let client = |number| Client::new(&format!("c{number}"), seed * 10 + number, keys, sizes);
        Self(Rc::new(RefCell::new((0..count).map(client).collect())))
    }

    /// A copy that shares nothing with this one: what the clients know now, and what they were doing.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().iter().map(Client::fork).collect())))
    }

    /// The life ends in this moment: what calls come to that go on afterwards is nobody's business.
    pub fn freeze(&self) {
        let frozen = self.fork().0.take();
        self.0.replace(frozen);
    }

    /// Holds the store against what each client knows; what it was doing is settled as it was found.
    ///
    /// # Panics
    /// If the store has something else; with `what`.
    pub async fn verify(&self, store: &dyn ObjectStore, what: &str) {
        let verified = self.fork();
        let mut clients = verified.0.take();
        for client in &mut clients {
            client.verify(store).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
        }
        // Only then: a life may end in the middle.
        self.0.replace(clients);
    }

    /// Every client makes so many calls. It knows at each moment what was acknowledged by then.
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
