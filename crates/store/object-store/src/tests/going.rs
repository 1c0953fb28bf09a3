//! An open that meets a file on its way out, or rows that name what is not there.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_buckets::{Attributes, Catalog, Names};
use shingle_chunk_store::Stream;
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_store_api::{StoreErrorKind, StoreResult};
use tokio::sync::mpsc;

use crate::backup::BackupState;
use crate::client::direct::Direct;
use crate::engine::reading::ranges;
use crate::engine::{Core, Recovered};
use crate::files::{Files, LogFile};
use crate::format::BlobRef;
use crate::index::{Batch, Index, MemoryIndex, Recent, Space};
use crate::indexer::Totals;
use crate::keys;
use crate::options::Options;
use crate::records::{FileRecord, Ghosts, Item, Location, ObjectRecord};

/// The number of the file that goes.
const FILE: u64 = 7;

/// The place of all rows.
const PLACE: Location = Location { file: FILE, ordinal: 0, offset: 0, head: 0, data: 1 };

/// A store with object `k` in bucket `b` in its index, and those files.
fn core_of(runtime: &Runtime, index: Arc<Recent>, large: bool, files: Files) -> Rc<Core> {
    let record = ObjectRecord { size: 1, large, attributes: Attributes::default() };
    let item = Item { version: 1, location: PLACE, ghosts: Ghosts::default(), payload: record.encode() };
    let changes = vec![(Space::Objects, keys::object("b", "k"), Some(item.encode()))];
    index.apply(Batch { changes }).unwrap();
    let names = Names::new(BTreeMap::from([("b".to_owned(), 1)]));
    let direct = Arc::new(Direct {
        rows: index.rows(),
        files: files.pinnables.clone(),
        drives: Vec::new(),
        set: 1,
        buckets: names.buckets(),
        sequence: AtomicU64::new(1),
        segment_bytes: AtomicU32::new(0),
        failed: AtomicBool::new(false),
        opens: AtomicU64::new(0),
        read_bytes: AtomicU64::new(0),
    });
    let recovered = Recovered {
        set: 1,
        drives: Vec::new(),
        files,
        totals: Totals::default(),
        sequence: 1,
        names,
        dead_blobs: BTreeSet::new(),
        backup: BackupState::default(),
        incomplete: false,
    };
    let (indexing, _submissions) = mpsc::unbounded_channel();
    Core::new(runtime.clone(), Options::default(), index, recovered, indexing, direct)
}

/// OS-PIN-1: the row is in memory, and so is found without a wait; the file takes no pin until another task of the same thread has had
/// its turn. An open that did not yield would hold the thread for ever.
#[test]
fn an_open_that_meets_a_file_on_its_way_out_lets_others_run() {
    Sim::new(1).run(|runtime| async move {
        let index = Recent::new(Arc::new(MemoryIndex::new()), 1 << 20);
        let mut files = Files::default();
        // Its drive is missing: an open that gets its pin ends with that error.
        files.insert(FILE, LogFile::new(None, Stream::Data, FileRecord { dropping: true, ..FileRecord::default() }));
        let core = core_of(&runtime, index.clone(), false, files);
        assert!(index.row(&keys::object("b", "k")).is_some(), "the row is not in memory");
        let (releases, _released) = mpsc::unbounded_channel();
        let stays = core.clone();
        let other =
            runtime.spawn(async move { stays.files.borrow_mut().get_mut(FILE).unwrap().record.dropping = false });
        let opened = core.open_object("b", "k", &releases).await;
        assert_eq!(opened.err().map(|error| error.kind), Some(StoreErrorKind::Unavailable));
        other.await.unwrap();
    });
}

async fn kind_of<T>(
    runtime: &Runtime,
    what: &str,
    call: impl Future<Output = StoreResult<T>>,
) -> Option<StoreErrorKind> {
    match select(Box::pin(call), Box::pin(runtime.sleep(Duration::from_secs(1)))).await {
        Either::Left((result, _)) => result.err().map(|error| error.kind),
        Either::Right(_) => panic!("{what} goes on for ever"),
    }
}

/// OS-RD-2: the index lacks a row, or names a file that is not there, and will for ever. All who ask hear of it.
#[test]
fn a_row_that_names_what_is_not_there_is_an_error() {
    // Rows are in the index alone, or in memory, too.
    for cache_bytes in [0, 1 << 20] {
        Sim::new(1).run(move |runtime| async move {
            let (releases, _released) = mpsc::unbounded_channel();
            let corrupt = Some(StoreErrorKind::Corrupt);
            for large in [true, false] {
                let index = Recent::new(Arc::new(MemoryIndex::new()), cache_bytes);
                let core = core_of(&runtime, index.clone(), large, Files::default());
                let opening = core.open_object("b", "k", &releases);
                assert_eq!(kind_of(&runtime, "an open", opening).await, corrupt, "large: {large}");
                let head = kind_of(&runtime, "a head", core.object("b", "k", true)).await;
                assert_eq!(head, corrupt.filter(|_| large), "large: {large}");
                let blob = BlobRef { blob: 3, number: 0, segment_bytes: 1, size: 1 };
                let row = (Space::Segments, keys::segment(blob.blob, 0), Some(PLACE.encode()));
                index.apply(Batch { changes: vec![row] }).unwrap();
                let locating = core.locate(ranges(&[blob], 0, 1), releases.clone());
                assert_eq!(kind_of(&runtime, "a read", locating).await, corrupt);
            }
        });
    }
}
