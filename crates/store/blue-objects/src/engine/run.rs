//! The owner's life: opening, serving calls, closing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_blue_store::{BlueErrorKind, Store, Transaction};
use shingle_buckets::{Desks, Names};
use shingle_runtime::owner::{Calls, Closing};
use shingle_runtime::{Runtime, Task};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::mpsc;

use super::Core;
use super::counting::PAGE;
use super::doomed::Purge;
use super::layouts::Layouts;
use super::pins::Pins;
use super::tally::Tally;
use super::writers::Writers;
use crate::client::BlueClient;
use crate::errors::{corrupt, from_blue, invalid, malformed};
use crate::format::{
    BucketRecord, Held, OPENING_ATTRIBUTE, STORE_ATTRIBUTE, StoreRecord, decode_opening, encode_opening,
};
use crate::ids;
use crate::notices::Notice;
use crate::options::Options;

/// Calls that only read and are under way. Many: one that waits for the drive must hold up none that do not.
const READS_UNDER_WAY: usize = 1 << 16;

/// Buckets on a blue store: the owner's side. It lives on one thread; front ends use [`BlueEngine::client`].
///
/// Dropping it stops nothing: call [`BlueEngine::close`], or let the executor end, which is as safe as a power cut.
pub struct BlueEngine {
    core: Rc<Core>,
    client: BlueClient,
    closed: Task<StoreResult<()>>,
}

impl BlueEngine {
    /// Takes over a store that is open, and starts serving. A store of no objects gets its first. Nobody else may use the store's objects.
    ///
    /// # Errors
    /// `Invalid` if the store holds objects that were put there otherwise; `Corrupt`, `Device`, `NoSpace`, `Unavailable`: nothing that
    /// cannot be read is taken for gone.
    pub async fn open(rt: Runtime, store: Store, options: Options) -> StoreResult<Self> {
        make_if_empty(&store, &options).await?;
        let found = load(&store).await?;
        // Numbers of this opening are given out once this is durable. (BO-NUM-1)
        let opening = found.opening + 1;
        let mut transaction = Transaction::new();
        // Also on a full drive, from which objects are to be deleted.
        transaction.set_attribute(&ids::root(), OPENING_ATTRIBUTE, encode_opening(opening)).with_reserve();
        store.submit(ids::COLLECTION.id, transaction).await.map_err(from_blue)?;
        let begun = Begun::begin(&rt, store, options, found, opening);
        rt.spawn_detached(begun.core.clone().count());
        let purge = rt.spawn(begun.core.clone().run_purge());
        Ok(begun.serve(&rt, Some(purge)))
    }

    /// The same of a store that is open for reading only: calls that change something fail, and nothing is tidied up.
    ///
    /// # Errors
    /// As [`BlueEngine::open`].
    pub async fn open_to_read(rt: Runtime, store: Store, options: Options) -> StoreResult<Self> {
        let found = if is_unused(&store).await? { Found::default() } else { load(&store).await? };
        Ok(Begun::begin(&rt, store, options, found, 0).serve(&rt, None))
    }

    /// A handle for front ends, from any thread.
    pub fn client(&self) -> BlueClient {
        self.client.clone()
    }

    /// Completes once the store was closed by [`BlueClient::close`] and all calls have been answered. The blue store is closed then.
    ///
    /// # Errors
    /// `Device`, `Unavailable`: nothing is lost, but the next opening takes longer.
    pub async fn closed(self) -> StoreResult<()> {
        let Self { core, client, closed } = self;
        drop((core, client));
        let lost = |_| StoreError::new(StoreErrorKind::Unavailable, "the store's owner ended before it was closed");
        closed.await.map_err(lost)?
    }

    /// Answers what has been asked, and closes the store.
    ///
    /// # Errors
    /// As [`BlueEngine::closed`].
    pub async fn close(self) -> StoreResult<()> {
        self.core.closing.begin();
        self.closed().await
    }
}

/// All that an opening finds.
#[derive(Default)]
struct Found {
    piece_bytes: u64,
    opening: u64,
    /// Buckets by name.
    buckets: BTreeMap<String, BucketRecord>,
    going: Vec<Held>,
}

/// True if nobody has put anything there yet.
pub(crate) async fn is_unused(store: &Store) -> StoreResult<bool> {
    let collections = store.collections();
    if collections.is_empty() {
        return Ok(true);
    }
    if collections != [ids::COLLECTION] {
        return Err(invalid(STRANGER));
    }
    // The first objects come in one transaction, so one is there if all are.
    Ok(store.list(ids::COLLECTION.id, None, 1).await.map_err(from_blue)?.is_empty())
}

/// Makes the first objects of a store.
async fn make_if_empty(store: &Store, options: &Options) -> StoreResult<()> {
    if !is_unused(store).await? {
        return Ok(());
    }
    if store.collections().is_empty() {
        store.create_collection(ids::COLLECTION).await.map_err(from_blue)?;
    }
    let record = StoreRecord { piece_bytes: options.piece_bytes };
    let mut transaction = Transaction::new();
    transaction.create(&ids::root()).create(&ids::going());
    transaction.set_attribute(&ids::root(), STORE_ATTRIBUTE, record.encode());
    transaction.set_attribute(&ids::root(), OPENING_ATTRIBUTE, encode_opening(0));
    store.submit(ids::COLLECTION.id, transaction).await.map_err(from_blue)
}

const STRANGER: &str = "the store holds objects that are in no bucket: give the server a drive of its own";

/// Looks at all that has to be known before the first call.
async fn load(store: &Store) -> StoreResult<Found> {
    let root = match store.stat(&ids::root()).await {
        Ok(root) => root,
        Err(error) if error.kind == BlueErrorKind::NotFound => return Err(invalid(STRANGER)),
        Err(error) => return Err(from_blue(error)),
    };
    let attribute = |name: &[u8]| root.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let record = attribute(STORE_ATTRIBUTE).ok_or_else(|| corrupt("the store does not say how it was made"))?;
    let record = StoreRecord::decode(record).map_err(|error| malformed(STORE_ATTRIBUTE, error))?;
    let opening = attribute(OPENING_ATTRIBUTE).and_then(|value| decode_opening(value));
    let opening = opening.ok_or_else(|| corrupt("the store does not say how often it was opened"))?;
    let mut found = Found { piece_bytes: record.piece_bytes, opening, ..Found::default() };
    for (name, value) in all(store, &ids::root()).await? {
        let record = BucketRecord::decode(&value).map_err(|error| malformed(&name, error))?;
        for index in [ids::names(record.number), ids::uploads(record.number)] {
            store.stat(&index).await.map_err(from_blue)?;
        }
        let name = String::from_utf8(name).map_err(|_| corrupt("the name of a bucket is no text"))?;
        found.buckets.insert(name, record);
    }
    for (name, _) in all(store, &ids::going()).await? {
        let held = Held::parse(&name).ok_or_else(|| corrupt("the list of what goes has a key of nothing"))?;
        found.going.push(held);
    }
    Ok(found)
}

/// Keys and values of an omap.
async fn all(store: &Store, id: &shingle_blue_store::ObjectId) -> StoreResult<Vec<(Vec<u8>, bytes::Bytes)>> {
    let (mut all, mut from) = (Vec::new(), Vec::new());
    loop {
        let page = store.omap_list(id, &from, PAGE).await.map_err(from_blue)?;
        let Some((last, _)) = page.last() else { return Ok(all) };
        from = [&last[..], b"\0"].concat();
        all.extend(page);
    }
}

/// An owner that does not serve yet.
struct Begun {
    core: Rc<Core>,
    client: BlueClient,
    calls: [Calls<Core>; 3],
    noticed: mpsc::UnboundedReceiver<Notice>,
}

impl Begun {
    fn begin(rt: &Runtime, store: Store, options: Options, found: Found, opening: u64) -> Self {
        let created = found.buckets.iter().map(|(name, bucket)| (name.clone(), bucket.created_unix_ns));
        let names = Names::new(created.collect());
        let numbers = found.buckets.into_iter().map(|(name, bucket)| (name, bucket.number)).collect();
        let (desks, calls) = Desks::new(options.queue_depth, READS_UNDER_WAY);
        let (notices, noticed) = mpsc::unbounded_channel();
        let client = BlueClient::new(desks, notices, names.buckets(), &options);
        let core = Rc::new(Core {
            rt: rt.clone(),
            store,
            options,
            piece_bytes: found.piece_bytes.max(1),
            names,
            numbers: RefCell::new(numbers),
            writers: Writers::default(),
            pins: Pins::default(),
            layouts: Layouts::default(),
            purge: Purge::default(),
            tally: Tally::default(),
            opening,
            next: Cell::new(1),
            closing: Closing::default(),
        });
        found.going.into_iter().for_each(|held| core.purge.add(held));
        Self { core, client, calls, noticed }
    }

    /// Serves calls until it is closed; with `purge` under way.
    fn serve(self, rt: &Runtime, purge: Option<Task<()>>) -> BlueEngine {
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
            closing.store.clone().close().await.map_err(from_blue)
        });
        BlueEngine { core, client, closed }
    }
}

async fn run_notices(core: Rc<Core>, mut noticed: mpsc::UnboundedReceiver<Notice>) {
    while let Some(notice) = noticed.recv().await {
        match notice {
            Notice::ReaderGone(number) => core.unpin(number),
            Notice::WriterGone(number) => core.drop_stream(number),
        }
    }
}
