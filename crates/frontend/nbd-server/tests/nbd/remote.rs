//! A block store that is a client: many requests at a time on one connection, replies in any order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_runtime::Runtime;
use shingle_store_api::{
    BlockStore, Durability, LocalStoreFuture, MappedRun, StoreError, StoreErrorKind, StoreResult, accessed,
};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

use crate::client::{Client, FLUSH, FUA, Message, READ, STATUS, TRIM, WRITE, ZEROES, number, request};

/// Bytes of the store: of the export's first ones, and fewer than one request may have.
const SIZE: u64 = 16 << 20;

pub(crate) struct Remote {
    sector_bytes: u64,
    requests: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Rc<RefCell<BTreeMap<u64, Waiting>>>,
    cookie: Cell<u64>,
}

/// A request under way, and the data of its reply so far.
struct Waiting {
    offset: u64,
    answer: oneshot::Sender<StoreResult<Answer>>,
    so_far: Answer,
}

/// Tells those who wait that no reply will come.
struct HangUp(Rc<RefCell<BTreeMap<u64, Waiting>>>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.borrow_mut().clear();
    }
}

#[derive(Default)]
struct Answer {
    data: Vec<u8>,
    runs: Vec<MappedRun>,
}

impl Remote {
    /// A store of sectors of `sector_bytes`, by a client that has an export.
    pub(crate) fn new(rt: &Runtime, client: Client, sector_bytes: u64) -> Self {
        let (reader, mut writer) = tokio::io::split(client.socket);
        let (requests, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        rt.spawn_detached(async move {
            while let Some(bytes) = queue.recv().await {
                writer.write_all(&bytes).await.unwrap();
            }
        });
        let waiting: Rc<RefCell<BTreeMap<u64, Waiting>>> = Rc::default();
        let served = waiting.clone();
        let mut replies = Client { socket: Box::new(tokio::io::join(reader, tokio::io::sink())), structured: true };
        rt.spawn_detached(async move {
            let _hang_up = HangUp(served.clone());
            loop {
                let message = replies.message().await;
                take(&mut served.borrow_mut(), message);
            }
        });
        Self { sector_bytes, requests, waiting, cookie: Cell::new(0) }
    }

    /// Sends a request at once: it is done also if nobody waits for the reply.
    async fn ask(&self, kind: (u16, u16), offset: u64, length: u64, data: &[Bytes]) -> StoreResult<Answer> {
        if kind.0 != FLUSH {
            accessed(self, offset, length)?;
        }
        self.cookie.set(self.cookie.get() + 1);
        let (answer, answered) = oneshot::channel();
        self.waiting.borrow_mut().insert(self.cookie.get(), Waiting { offset, answer, so_far: Answer::default() });
        self.requests.send([request(kind, self.cookie.get(), offset, length as u32), data.concat()].concat()).unwrap();
        answered.await.expect("the connection stays")
    }
}

/// Takes a message for the request that it is for.
fn take(waiting: &mut BTreeMap<u64, Waiting>, message: Message) {
    let (cookie, done, error) = match message {
        Message::Simple { error, cookie } => (cookie, true, error),
        Message::Chunk { done, kind, cookie, data } => {
            let Waiting { offset, so_far, .. } = waiting.get_mut(&cookie).expect("a reply to a request");
            let mut error = 0;
            match kind {
                1 => {
                    assert_eq!(number(&data[..8]), *offset + so_far.data.len() as u64);
                    so_far.data.extend(&data[8..]);
                }
                2 => so_far.data.resize(so_far.data.len() + number(&data[8..]) as usize, 0),
                5 => {
                    let mut at = *offset;
                    for run in data[4..].chunks(8) {
                        let (length, mapped) = (number(&run[..4]), number(&run[4..]) == 0);
                        so_far.runs.push(MappedRun { offset: at, length, mapped });
                        at += length;
                    }
                }
                0x8001 => error = number(&data[..4]) as u32,
                other => panic!("a chunk of kind {other}"),
            }
            (cookie, done, error)
        }
    };
    if done {
        let Waiting { answer, so_far, .. } = waiting.remove(&cookie).expect("one reply to a request");
        let kind = match error {
            22 => StoreErrorKind::Invalid,
            28 => StoreErrorKind::NoSpace,
            108 => StoreErrorKind::Unavailable,
            _ => StoreErrorKind::Device,
        };
        let result = if error == 0 { Ok(so_far) } else { Err(StoreError::new(kind, format!("errno {error}"))) };
        // Nobody may wait for it.
        let _ = answer.send(result);
    }
}

fn fua(durability: Durability) -> u16 {
    if durability == Durability::Durable { FUA } else { 0 }
}

impl BlockStore for Remote {
    fn size_bytes(&self) -> u64 {
        SIZE
    }

    fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        async move { Ok(self.ask((READ, 0), offset, length, &[]).await?.data.into()) }.boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        async move {
            let length = data.iter().map(|piece| piece.len() as u64).sum();
            self.ask((WRITE, fua(durability)), offset, length, &data).await.map(drop)
        }
        .boxed_local()
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        async move { self.ask((FLUSH, 0), 0, 0, &[]).await.map(drop) }.boxed_local()
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        async move { self.ask((TRIM, 0), offset, length, &[]).await.map(drop) }.boxed_local()
    }

    fn write_zeros(&self, offset: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        async move { self.ask((ZEROES, fua(durability)), offset, length, &[]).await.map(drop) }.boxed_local()
    }

    fn mapped(&self, offset: u64, length: u64, runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        async move {
            let one = if runs_max == 1 { 8 } else { 0 };
            let mut runs = self.ask((STATUS, one), offset, length, &[]).await?.runs;
            runs.truncate(runs_max);
            Ok(runs)
        }
        .boxed_local()
    }
}
