//! The owner's life: opening, serving calls, closing.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{ArrayStore, Version};
use shingle_buckets::{Desks, Names};
use shingle_runtime::owner::Calls;
use shingle_runtime::{Runtime, Task};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::mpsc;

use super::counting::PAGE;
use super::{Core, fresh_version};
use crate::client::ArrayClient;
use crate::errors::{from_array, malformed};
use crate::format::BucketRecord;
use crate::names;
use crate::notices::Notice;
use crate::options::Options;
use crate::places::Places;

/// Calls that only read and are under way. Many: each drive's queue bounds what reads do, and one that waits for a drive
/// must hold up none that do not.
const READS_UNDER_WAY: usize = 1 << 16;

/// A store on an array: the owner's side. It lives on one thread; front ends use [`ArrayEngine::client`].
///
/// Dropping it stops nothing: call [`ArrayEngine::close`], or let the executor end, which is as safe as a power cut.
pub struct ArrayEngine {
    core: Rc<Core>,
    client: ArrayClient,
    closed: Task<StoreResult<()>>,
}

impl ArrayEngine {
    /// Takes over an array that is open, and starts serving. Nobody else may use the array's objects.
    ///
    /// # Errors
    /// `Invalid` if the array holds objects that were put there otherwise; `Corrupt`, `Device`, `NoSpace`, `Unavailable`.
    pub async fn open(rt: Runtime, store: ArrayStore, options: Options) -> StoreResult<Self> {
        refuse_strangers(&store)?;
        // Every version from here on is later.
        let opened = fresh_version(&store)?;
        let begun = Begun::begin(&rt, store, options, opened).await?;
        let core = &begun.core;
        core.settle_uploads().await?;
        core.expect_restored()?;
        rt.spawn_detached(core.clone().count());
        rt.spawn_detached(core.clone().find_orphans());
        let purge = rt.spawn(core.clone().run_purge());
        Ok(begun.serve(&rt, Some(purge)))
    }

    /// The same of an array that is open for reading only: calls that change something fail, and nothing is tidied up.
    ///
    /// # Errors
    /// As [`ArrayEngine::open`].
    pub async fn open_to_read(rt: Runtime, store: ArrayStore, options: Options) -> StoreResult<Self> {
        refuse_strangers(&store)?;
        Ok(Begun::begin(&rt, store, options, Version(u64::MAX)).await?.serve(&rt, None))
    }

    /// A handle for front ends, from any thread.
    pub fn client(&self) -> ArrayClient {
        self.client.clone()
    }

    /// Completes once the store was closed by [`ArrayClient::close`] and all calls have been answered. The array is closed
    /// then.
    ///
    /// # Errors
    /// `Device`, `Unavailable`: nothing is lost, but the next opening takes longer.
    pub async fn closed(self) -> StoreResult<()> {
        let Self { core, client, closed } = self;
        drop((core, client));
        let lost = |_| StoreError::new(StoreErrorKind::Unavailable, "the array's owner ended before it was closed");
        closed.await.map_err(lost)?
    }

    /// Answers what has been asked, and closes the array.
    ///
    /// # Errors
    /// As [`ArrayEngine::closed`].
    pub async fn close(self) -> StoreResult<()> {
        self.core.closing.begin();
        self.closed().await
    }
}

/// An owner that does not serve yet.
struct Begun {
    core: Rc<Core>,
    client: ArrayClient,
    calls: [Calls<Core>; 3],
    noticed: mpsc::UnboundedReceiver<Notice>,
}

impl Begun {
    async fn begin(rt: &Runtime, store: ArrayStore, options: Options, opened: Version) -> StoreResult<Self> {
        let names = Names::new(load_buckets(rt, &store).await?);
        let (desks, calls) = Desks::new(options.queue_depth, READS_UNDER_WAY);
        let (notices, noticed) = mpsc::unbounded_channel();
        let places = Places::new(&options);
        let client = ArrayClient::new(desks, notices, names.buckets(), places.clone(), &options);
        let core = Core::new(rt.clone(), store, options, names, opened, places);
        Ok(Self { core, client, calls, noticed })
    }

    /// Serves calls until it is closed; with `purge` under way.
    fn serve(self, rt: &Runtime, purge: Option<Task<()>>) -> ArrayEngine {
        let Self { core, client, calls, noticed } = self;
        rt.spawn_detached(run_notices(core.clone(), noticed));
        let serving = calls.map(|calls| rt.spawn(calls.serve(rt.clone(), core.clone(), |core| &core.closing)));
        let closing = core.clone();
        let closed = rt.spawn(async move {
            for task in serving {
                let _ = task.await;
            }
            closing.purge.wake();
            if let Some(purge) = purge {
                let _ = purge.await;
            }
            closing.writers.clear();
            closing.close_readers();
            closing.store.clone().close().await.map_err(from_array)
        });
        ArrayEngine { core, client, closed }
    }
}

async fn run_notices(core: Rc<Core>, mut noticed: mpsc::UnboundedReceiver<Notice>) {
    while let Some(notice) = noticed.recv().await {
        match notice {
            Notice::ReaderGone(number) => core.close_reader(number),
            Notice::WriterGone(number) => core.writers.drop(number),
            Notice::BytesCame { writer, call } => core.bytes_came(writer, call),
        }
    }
}

/// An array that `shingle array put` wrote to is not one of buckets: its objects would never be seen.
pub(super) fn refuse_strangers(store: &ArrayStore) -> StoreResult<()> {
    let mut after: Option<Bytes> = None;
    loop {
        let found = store.list(b"", after.as_deref(), 1).map_err(from_array)?;
        let Some(object) = found.into_iter().next() else { return Ok(()) };
        let kind = object.name.first().copied().unwrap_or(0);
        if !names::is_ours(&object.name) {
            return Err(stranger(&object.name));
        }
        // Behind all of this kind.
        after = Some(Bytes::from([&[kind][..], &[0xff; 32]].concat()));
    }
}

fn stranger(name: &[u8]) -> StoreError {
    let name = String::from_utf8_lossy(name).escape_debug().to_string();
    let message = format!(
        "the array holds `{name}`, which `shingle array put` wrote and no bucket holds: give the server an array of its own, or \
         delete such objects first"
    );
    StoreError::new(StoreErrorKind::Invalid, message)
}

pub(super) async fn load_buckets(rt: &Runtime, store: &ArrayStore) -> StoreResult<BTreeMap<String, u64>> {
    let mut buckets = BTreeMap::new();
    let mut after: Option<Bytes> = None;
    loop {
        let page = store.list(&[names::BUCKET], after.as_deref(), PAGE).map_err(from_array)?;
        let Some(last) = page.last() else { return Ok(buckets) };
        after = Some(last.name.clone());
        for object in &page {
            // Its name may begin as ours do; it has no attributes.
            if object.attributes.is_empty() {
                return Err(stranger(&object.name));
            }
            let record = BucketRecord::decode(&object.attributes).map_err(|error| malformed(&object.name, error))?;
            let name = String::from_utf8_lossy(object.name.get(1..).unwrap_or_default());
            buckets.insert(name.into_owned(), record.created_unix_ns);
        }
        rt.yield_now().await;
    }
}
