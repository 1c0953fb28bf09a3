//! An open that meets a file on its way out.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use shingle_buckets::{Attributes, Names};
use shingle_chunk_store::Stream;
use shingle_sim::Sim;
use shingle_store_api::StoreErrorKind;
use tokio::sync::mpsc;

use crate::backup::BackupState;
use crate::client::direct::Direct;
use crate::engine::{Core, Recovered};
use crate::files::{Files, LogFile};
use crate::index::{Batch, Index, MemoryIndex, Recent, Space};
use crate::indexer::Totals;
use crate::keys;
use crate::options::Options;
use crate::records::{FileRecord, Ghosts, Item, Location, ObjectRecord};

/// The number of the file that goes.
const FILE: u64 = 7;

/// OS-PIN-1: the row is in memory, and so is found without a wait; the file takes no pin until another task of the same thread has had
/// its turn. An open that did not yield would hold the thread for ever.
#[test]
fn an_open_that_meets_a_file_on_its_way_out_lets_others_run() {
    Sim::new(1).run(|runtime| async move {
        let index = Recent::new(Arc::new(MemoryIndex::new()), 1 << 20);
        let record = ObjectRecord { size: 1, large: false, attributes: Attributes::default() };
        let location = Location { file: FILE, ordinal: 0, offset: 0, head: 0, data: 1 };
        let item = Item { version: 1, location, ghosts: Ghosts::default(), payload: record.encode() };
        let key = keys::object("b", "k");
        index.apply(Batch { changes: vec![(Space::Objects, key.clone(), Some(item.encode()))] }).unwrap();
        assert!(index.row(&key).is_some(), "the row is not in memory");
        let mut files = Files::default();
        // Its drive is missing: an open that gets its pin ends with that error.
        files.insert(FILE, LogFile::new(None, Stream::Data, FileRecord { dropping: true, ..FileRecord::default() }));
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
        let core = Core::new(runtime.clone(), Options::default(), index, recovered, indexing, direct);
        let (releases, _released) = mpsc::unbounded_channel();
        let stays = core.clone();
        let other =
            runtime.spawn(async move { stays.files.borrow_mut().get_mut(FILE).unwrap().record.dropping = false });
        let opened = core.open_object("b", "k", &releases).await;
        assert_eq!(opened.err().map(|error| error.kind), Some(StoreErrorKind::Unavailable));
        other.await.unwrap();
    });
}
