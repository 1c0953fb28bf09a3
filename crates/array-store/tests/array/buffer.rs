//! BUF-1 to BUF-4: small objects in two mirrored files, whatever fails and whenever.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{ArrayShape, Driver, Model, content, formatted, named, options, powered, shape};
use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{ArrayStore, BufferFile, BufferFiles, ErrorKind, IndexPlace, Options, RecoveryReport};
use shingle_base::{Blocks, crc32c};
use shingle_erasure::Code;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_sim::{CommandKind, Random, Sim, SimDevice, Survival, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

/// A file in memory whose power can fail.
pub(super) struct SimFile {
    rt: Runtime,
    durable: RefCell<Vec<u8>>,
    /// Writes that have not returned.
    pending: RefCell<BTreeMap<u64, (u64, Bytes)>>,
    next: Cell<u64>,
    broken: Cell<bool>,
    /// Blocks that cannot be read until they are written again, by number.
    unreadable: RefCell<Vec<u64>>,
}

impl SimFile {
    pub(super) fn new(rt: &Runtime, bytes: Vec<u8>) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            durable: RefCell::new(bytes),
            pending: RefCell::default(),
            next: Cell::default(),
            broken: Cell::default(),
            unreadable: RefCell::default(),
        })
    }

    /// What a power cut leaves: of writes that have not returned, any blocks of 512 bytes.
    fn image(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut bytes = self.durable.borrow().clone();
        for (offset, data) in self.pending.borrow().values() {
            let share = [0.0, 0.5, 1.0][random.below(3) as usize];
            for (at, piece) in data.chunks(512).enumerate() {
                if random.chance(share) {
                    put_at(&mut bytes, *offset as usize + at * 512, piece);
                }
            }
        }
        bytes
    }
}

fn put_at(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.resize(bytes.len().max(at + piece.len()), 0);
    bytes[at..at + piece.len()].copy_from_slice(piece);
}

impl BufferFile for SimFile {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async move {
            let blocks = offset / 4096..(offset + length as u64).div_ceil(4096);
            if self.broken.get() || self.unreadable.borrow().iter().any(|block| blocks.contains(block)) {
                return Err(io::Error::other("broken"));
            }
            let durable = self.durable.borrow();
            let rest = durable.get(offset as usize..).unwrap_or_default();
            Ok(Bytes::copy_from_slice(&rest[..length.min(rest.len())]))
        })
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let number = self.next.replace(self.next.get() + 1);
            self.pending.borrow_mut().insert(number, (offset, data.clone()));
            self.rt.sleep(Duration::from_micros(self.rt.random() % 150)).await;
            self.pending.borrow_mut().remove(&number);
            if self.broken.get() {
                return Err(io::Error::other("broken"));
            }
            put_at(&mut self.durable.borrow_mut(), offset as usize, &data);
            let written = offset / 4096..(offset + data.len() as u64).div_ceil(4096);
            self.unreadable.borrow_mut().retain(|block| !written.contains(block));
            Ok(())
        })
    }
}

pub(super) fn files(files: &[Rc<SimFile>; 2]) -> BufferFiles {
    BufferFiles([files[0].clone(), files[1].clone()])
}

async fn try_open(
    rt: &Runtime,
    devices: &[SimDevice],
    buffer: Option<&[Rc<SimFile>; 2]>,
    options: Options,
) -> shingle_array_store::Result<(ArrayStore, RecoveryReport)> {
    ArrayStore::open_with_buffer(rt, &named(devices), &IndexPlace::Memory, options, buffer.map(files)).await
}

fn plain() -> Options {
    Options { background: false, buffer_bytes: 512 << 10, ..Options::default() }
}

fn media() -> Vec<MemoryDevice> {
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 3];
    formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 40_000, drives })
}

/// What a power cut leaves of everything.
pub(super) struct Left {
    pub(super) devices: Vec<MemoryDevice>,
    pub(super) files: [Vec<u8>; 2],
}

pub(super) fn left(devices: &[SimDevice], files: &[Rc<SimFile>; 2], seed: u64) -> Left {
    let survival = if seed.is_multiple_of(2) { Survival::AnySubset } else { Survival::Prefix };
    let image = |(at, device): (usize, &SimDevice)| device.crash_image_with(seed + at as u64, survival);
    Left {
        devices: devices.iter().enumerate().map(image).collect(),
        files: [files[0].image(seed), files[1].image(seed + 1)],
    }
}

/// Runs a history on fresh drives and files; what a power cut at its end leaves.
fn history<F>(test: impl FnOnce(Runtime, ArrayStore, [Rc<SimFile>; 2]) -> F + 'static) -> Left
where
    F: Future<Output = ()> + 'static,
{
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        test(rt, store, buffer.clone()).await;
        left(&devices, &buffer, 1)
    })
}

/// Opens what is left with both files, and with each alone, the other new.
fn with_either<F>(left: Left, check: impl Fn(ArrayStore) -> F + Clone + 'static)
where
    F: Future<Output = ()> + 'static,
{
    for lost in [None, Some(0), Some(1)] {
        let mut files = left.files.clone();
        if let Some(lost) = lost {
            files[lost] = Vec::new();
        }
        let (media, check) = (left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), check.clone());
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            check(store).await;
        });
    }
}

async fn put(store: &ArrayStore, name: &str, key: u64) {
    store.put(name.to_owned(), content((key, 3000)), Bytes::from_static(b"with it")).await.unwrap();
}

async fn is(store: &ArrayStore, name: &str, key: u64) {
    assert!(store.get(name.to_owned()).await.unwrap() == content((key, 3000)), "{name}");
    assert_eq!(&store.head(name.as_bytes()).unwrap().attributes[..], b"with it");
}

#[test]
fn a_small_object_is_there_before_any_segment_is_written() {
    let left = history(|_, store, _| async move {
        put(&store, "o", 1).await;
        let stats = store.stats().unwrap();
        assert_eq!((stats.live, stats.buffered, stats.objects), (0, 3000, 1));
        is(&store, "o", 1).await;
        assert_eq!(store.list(b"", None, 9).unwrap().len(), 1);
        let reader = store.open_object("o").unwrap();
        assert_eq!(&reader.read(1000, 5).await.unwrap()[..], &content((1, 3000))[1000..1005]);
        // A segment's worth is written to one; whoever reads goes on.
        for number in 0..20 {
            put(&store, &format!("p{number}"), number).await;
        }
        store.put("big", content((5, 90_000)), Bytes::new()).await.unwrap();
        assert!(store.stats().unwrap().live > 30_000);
        assert!(reader.read(0, 3000).await.unwrap() == content((1, 3000)));
        is(&store, "o", 1).await;
    });
    with_either(left, |store| async move {
        is(&store, "o", 1).await;
        for number in 0..20 {
            is(&store, &format!("p{number}"), number).await;
        }
        assert_eq!(store.stats().unwrap().objects, 22);
    });
}

#[test]
fn what_was_replaced_or_deleted_in_the_buffer_stays_so() {
    let left = history(|_, store, _| async move {
        store.put("was big", content((1, 90_000)), Bytes::new()).await.unwrap();
        put(&store, "was big", 2).await;
        put(&store, "twice", 3).await;
        put(&store, "twice", 4).await;
        put(&store, "gone", 5).await;
        assert!(store.delete("gone").await.unwrap());
        put(&store, "back", 6).await;
        assert!(store.delete("back").await.unwrap());
        put(&store, "back", 7).await;
        put(&store, "grows", 8).await;
        store.put("grows", content((9, 90_000)), Bytes::new()).await.unwrap();
        assert!(store.delete("grows").await.unwrap());
        // Tombstones that snapshots made superfluous are not in the way of anything that the buffer has.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
    });
    with_either(left, |store| async move {
        is(&store, "was big", 2).await;
        is(&store, "twice", 4).await;
        is(&store, "back", 7).await;
        for name in ["gone", "grows"] {
            assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
        }
        assert_eq!(store.stats().unwrap().objects, 3);
    });
}

/// BUF-3: a deletion that the power cut kept from the log is added to it, since its tombstone is not kept for ever.
#[test]
fn a_deletion_that_only_the_drives_know_of_is_kept() {
    let tries = 40;
    for wait in 0..tries {
        let cut = history(move |rt, store, _| async move {
            put(&store, "o", 1).await;
            let delete = Box::pin(store.delete("o"));
            // The power fails somewhere in the middle.
            let cut = Box::pin(rt.sleep(Duration::from_micros(wait * 10)));
            std::mem::forget(futures_util::future::select(delete, cut).await);
        });
        let Left { devices, files } = cut;
        let (again, there) = Sim::new(wait).run(move |rt| async move {
            let devices = powered(&rt, &devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            let there = store.head(b"o").is_ok();
            // Its tombstone is superfluous now, as far as the drives know.
            store.snapshot().await.unwrap();
            (left(&devices, &buffer, wait), there)
        });
        with_either(again, move |store| async move {
            assert_eq!(store.head(b"o").is_ok(), there, "{wait}");
        });
    }
}

/// BUF-4.
#[test]
fn an_array_is_not_opened_without_what_it_acknowledged() {
    let left = history(|_, store, _| async move { put(&store, "o", 1).await });
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &left.devices);
        let Err(error) = try_open(&rt, &devices, None, plain()).await else { panic!("opened without its buffer") };
        assert!(error.kind == ErrorKind::Format && error.message.contains("buffer"), "{error}");
        let other = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, b"something else".to_vec())];
        let Err(error) = try_open(&rt, &devices, Some(&other), plain()).await else { panic!("opened with others") };
        assert_eq!(error.kind, ErrorKind::Format);
        let (store, _) = try_open(&rt, &devices, None, Options { abandon_buffer: true, ..plain() }).await.unwrap();
        assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// Two arrays whose files were mixed up: what waits in another array's buffer is not written over.
#[test]
fn another_arrays_buffer_is_left_alone() {
    for closed in [false, true] {
        let Left { files, .. } = history(move |_, store, _| async move {
            put(&store, "o", 1).await;
            if closed {
                store.close().await.unwrap();
            }
        });
        let of_another = files.map(|mut bytes| {
            // The array's id, and the checksum, of both heads.
            for head in bytes.chunks_mut(4096).take(2) {
                head[8] ^= 1;
                let crc = crc32c(&head[..72]).to_le_bytes();
                head[72..76].copy_from_slice(&crc);
            }
            bytes
        });
        for both in [false, true] {
            let of_another = of_another.clone();
            Sim::new(2).run(move |rt| async move {
                let devices = powered(&rt, &media());
                let second = if both { of_another[1].clone() } else { Vec::new() };
                let buffer = [SimFile::new(&rt, second), SimFile::new(&rt, of_another[0].clone())];
                let opened = try_open(&rt, &devices, Some(&buffer), plain()).await;
                assert_eq!(opened.is_ok(), closed);
                if let Err(error) = opened {
                    assert!(error.kind == ErrorKind::Format && error.message.contains("belongs to array"), "{error}");
                    assert!(buffer[1].durable.borrow()[..] == of_another[0][..], "it was written to");
                }
            });
        }
    }
}

#[test]
fn a_closed_array_needs_no_buffer() {
    Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        put(&store, "o", 1).await;
        store.close().await.unwrap();
        let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
        let (store, _) = try_open(&rt, &devices, None, plain()).await.unwrap();
        is(&store, "o", 1).await;
        assert_eq!(store.stats().unwrap().live, 3000);
    });
}

/// RING-1: after a clean close the same files get a new buffer, whose log begins where the old one's did.
#[test]
fn what_a_former_buffer_logged_does_not_come_back() {
    let old = history(|_, store, _| async move {
        put(&store, "deleted", 1).await;
        put(&store, "replaced", 2).await;
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "replaced", 3).await;
        assert!(store.delete("replaced").await.unwrap());
        // No tombstone is needed any more.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
        store.close().await.unwrap();
    });
    for puts in 0..3 {
        let (media, files) = (old.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), old.files.clone());
        let again = Sim::new(4).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            for number in 0..puts {
                // As long as the first record of the old log.
                put(&store, "another", number).await;
            }
            left(&devices, &buffer, puts)
        });
        with_either(again, move |store| async move {
            let names: Vec<_> = store.list(b"", None, 9).unwrap().into_iter().map(|object| object.name).collect();
            assert_eq!(names, ["another"][..usize::from(puts > 0)], "{puts} puts");
        });
    }
}

/// BUF-6: however little is written, it leaves the buffer.
#[test]
fn nothing_stays_in_the_buffer_alone_for_long() {
    Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let options = Options { background: true, buffer_time: Duration::from_secs(5), ..plain() };
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
        for number in 0..3 {
            store.put("empty", Bytes::new(), Bytes::from_static(b"with it")).await.unwrap();
            put(&store, "o", number).await;
            rt.sleep(Duration::from_secs(2)).await;
            assert_eq!(store.stats().unwrap().buffered, 3000, "not at once");
            rt.sleep(Duration::from_secs(6)).await;
            assert_eq!(store.stats().unwrap().buffered, 0);
        }
        // Without either file nothing is missed.
        let devices = powered(&rt, &devices.iter().map(|device| device.crash_image(1)).collect::<Vec<_>>());
        let alone = Options { abandon_buffer: true, ..plain() };
        let (store, _) = try_open(&rt, &devices, None, alone).await.unwrap();
        is(&store, "o", 2).await;
        assert_eq!(&store.head(b"empty").unwrap().attributes[..], b"with it");
    });
}

/// Offsets of some objects' records in a file: behind 51 bytes that each begins with.
fn record_of(file: &[u8], name: &[u8]) -> usize {
    file.windows(name.len()).position(|window| window == name).unwrap() - 51
}

/// RING-2: rot is told from a torn end, and costs what it hit, if both files have it.
#[test]
fn rot_in_the_log_is_made_up_for_by_the_other_file_or_told() {
    let left = history(|_, store, _| async move {
        for name in ["first", "second", "third", "fourth"] {
            put(&store, name, 1).await;
        }
        assert!(store.delete("fourth").await.unwrap());
    });
    let rotten = |names: [&'static str; 2]| {
        let mut files = left.files.clone();
        for (file, name) in files.iter_mut().zip(names) {
            let at = record_of(file, name.as_bytes());
            file[at + 100] ^= 1;
        }
        files
    };
    let media = || left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>();
    let (devices, files) = (media(), rotten(["first", "third"]));
    Sim::new(9).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert_eq!((report.damage, report.objects), (Vec::new(), 3));
        for name in ["first", "second", "third"] {
            is(&store, name, 1).await;
        }
        assert!(buffer[0].durable.borrow()[..] == buffer[1].durable.borrow()[..], "each was mended");
    });
    let (devices, files) = (media(), rotten(["second"; 2]));
    Sim::new(9).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let Err(error) = try_open(&rt, &devices, Some(&buffer), plain()).await else { panic!("opened with a gap") };
        assert!(error.kind == ErrorKind::Format && error.message.contains("1 of its records"), "{error}");
        let only = Options { read_only: true, ..plain() };
        let (store, report) = try_open(&rt, &devices, Some(&buffer), only).await.unwrap();
        assert_eq!((report.damage.len(), report.objects), (1, 2));
        store.close().await.unwrap();
        let options = Options { abandon_buffer: true, ..plain() };
        let (store, report) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
        assert_eq!((report.damage.len(), report.objects), (1, 2));
        put(&store, "new", 2).await;
        // Told once.
        let left = super::buffer::left(&devices, &buffer, 1);
        let devices = powered(&rt, &left.devices);
        let buffer = left.files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert_eq!((report.damage, report.objects), (Vec::new(), 3));
        is(&store, "first", 1).await;
        is(&store, "third", 1).await;
    });
}

/// BUF-7: blocks that cannot be read, of both files or of the only one: what no file has is told, the last record too, and all else
/// is there.
#[test]
fn a_block_that_cannot_be_read_costs_what_it_holds_or_is_told() {
    // Records of three to two blocks, from the third block on.
    let names = ["first", "second", "third", "fourth"];
    let left = history(move |_, store, _| async move {
        for name in names {
            put(&store, name, 1).await;
        }
    });
    let block_of = |file: &[u8], name: &str| record_of(file, name.as_bytes()) as u64 / 4096;
    let [second, last] = ["second", "fourth"].map(|name| block_of(&left.files[0], name));
    let none = Vec::new;
    // Blocks of the first file, of the second; the second is lost; how many records are.
    let cases = [
        (vec![0, second], vec![1, last], false, 0),
        (vec![0, 1], none(), false, 0),
        (vec![last], none(), false, 0),
        (vec![last], vec![last], false, 1),
        (vec![last], none(), true, 1),
        (vec![2], vec![2], false, 1),
    ];
    for (number, (first, other, alone, lost)) in cases.into_iter().enumerate() {
        let media: Vec<_> = left.devices.iter().map(MemoryDevice::snapshot).collect();
        let mut files = left.files.clone();
        if alone {
            files[1] = Vec::new();
        }
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            buffer[0].unreadable.replace(first);
            buffer[1].unreadable.replace(other);
            match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, report)) => {
                    assert_eq!((lost, report.damage), (0, Vec::<String>::new()), "case {number}");
                    for name in names {
                        is(&store, name, 1).await;
                    }
                    // Behind the end of the log may be zeros.
                    let records = |file: &SimFile| {
                        let durable = file.durable.borrow();
                        let end = durable.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                        durable[8192..=end].to_vec()
                    };
                    assert!(records(&buffer[0]) == records(&buffer[1]), "case {number}: each was mended");
                }
                Err(error) => {
                    assert!(lost > 0 && error.message.contains("of its records"), "case {number}: {error}");
                    assert!(buffer.iter().all(|file| file.next.get() == 0), "case {number}: it was written to");
                }
            }
        });
    }
}

#[test]
fn files_of_the_version_before_are_refused_if_objects_may_wait_in_them() {
    for closed in [false, true] {
        let left = history(move |_, store, _| async move {
            put(&store, "o", 1).await;
            if closed {
                store.close().await.unwrap();
            }
        });
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &left.devices);
            let mut before = b"SHGABF01".to_vec();
            before.extend_from_slice(&left.files[0][8..16]);
            [7u64, 1, 1 << 20].iter().for_each(|number| before.extend_from_slice(&number.to_le_bytes()));
            before.extend_from_slice(&crc32c(&before).to_le_bytes());
            before.resize(3 << 12, 0);
            let buffer = [SimFile::new(&rt, before.clone()), SimFile::new(&rt, before)];
            match try_open(&rt, &devices, Some(&buffer), plain()).await {
                Ok((store, _)) => {
                    assert!(closed, "opened without what waits");
                    is(&store, "o", 1).await;
                }
                Err(error) => {
                    assert!(!closed && error.kind == ErrorKind::Format, "{error}");
                    assert!(error.message.contains("version 01"), "{error}");
                    assert!(buffer[0].next.get() == 0, "it was written to");
                }
            }
        });
    }
}

/// BUF-1: what the failed file says is old, and nobody believes it when it comes back.
#[test]
fn a_file_that_failed_is_done_without_and_not_believed_later() {
    let left = history(|_, store, buffer| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
        buffer[0].broken.set(true);
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "after", 3).await;
        is(&store, "before", 1).await;
    });
    Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &left.devices);
        let buffer = left.files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        is(&store, "before", 1).await;
        is(&store, "after", 3).await;
        assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
        put(&store, "last", 4).await;
        // It was brought up to date: either will do again.
        assert!(buffer[0].durable.borrow()[..] == buffer[1].durable.borrow()[..]);
    });
}

/// BUF-3 and BUF-4: where both files fail for a while, nothing is acknowledged that is in neither, deletions hold, and what
/// the files say is not believed when they are back.
#[test]
fn with_both_files_failing_what_is_acknowledged_stays_so() {
    for (wait, closed) in [(0, false), (0, true), (50, false), (200, false)] {
        let kept = Rc::new(RefCell::new(Vec::new()));
        let told = kept.clone();
        let left = history(move |rt, store, buffer| async move {
            for name in ["before", "deleted", "replaced"] {
                put(&store, name, 1).await;
            }
            let puts = (0..10).map(|number| {
                let (rt, store, told) = (rt.clone(), store.clone(), told.clone());
                async move {
                    rt.sleep(Duration::from_micros(number * 5)).await;
                    let name = format!("meanwhile {number}");
                    if store.put(name.clone(), content((number, 3000)), Bytes::from_static(b"with it")).await.is_ok() {
                        told.borrow_mut().push((name, number));
                    }
                }
            });
            let fail = async {
                rt.sleep(Duration::from_micros(wait)).await;
                buffer.iter().for_each(|file| file.broken.set(true));
            };
            futures_util::future::join(join_all(puts), fail).await;
            assert!(store.delete("deleted").await.unwrap());
            put(&store, "replaced", 2).await;
            assert!(store.delete("replaced").await.unwrap());
            assert!(!store.delete("replaced").await.unwrap());
            put(&store, "after", 3).await;
            // As far as the drives know, tombstones are needed no more.
            store.snapshot().await.unwrap();
            store.snapshot().await.unwrap();
            if closed {
                store.close().await.unwrap();
            }
        });
        let kept = kept.take();
        with_either(left, move |store| {
            let kept = kept.clone();
            async move {
                is(&store, "before", 1).await;
                is(&store, "after", 3).await;
                for (name, key) in kept {
                    is(&store, &name, key).await;
                }
                for name in ["deleted", "replaced"] {
                    assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
                }
            }
        });
    }
}

/// BUF-1: a file that was away while the other was used is not believed when it is all there is.
#[test]
fn a_file_that_was_away_is_not_believed_when_it_comes_back_alone() {
    let Left { devices, files: [first, stale] } = history(|_, store, _| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
    });
    let Left { devices, files: [newest, anew] } = Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = [first, Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
        let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        assert!(report.buffer.len() == 1 && report.buffer[0].contains("second"), "{:?}", report.buffer);
        assert!(store.delete("deleted").await.unwrap());
        put(&store, "after", 3).await;
        left(&devices, &buffer, 1)
    });
    for files in [[newest.clone(), stale.clone()], [stale.clone(), newest], [anew, stale.clone()]] {
        let devices: Vec<_> = devices.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(5).run(move |rt| async move {
            let devices = powered(&rt, &devices);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, report) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            assert_eq!(report.buffer.len(), 1);
            is(&store, "before", 1).await;
            is(&store, "after", 3).await;
            assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
        });
    }
}

/// BUF-1: a file that failed or was away while the other went on lacks what was acknowledged since: alone it counts for nothing.
#[test]
fn a_file_that_was_left_behind_is_refused_where_it_is_all_that_is_left() {
    let failed = history(|_, store, buffer| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
        buffer[1].broken.set(true);
        put(&store, "after", 3).await;
        assert!(store.delete("deleted").await.unwrap());
        // As far as the drives know, its tombstone is needed no more.
        store.snapshot().await.unwrap();
        store.snapshot().await.unwrap();
    });
    let before = history(|_, store, _| async move {
        put(&store, "before", 1).await;
        put(&store, "deleted", 2).await;
    });
    let Left { devices, files: [first, stale] } = before;
    let away = Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &devices);
        let buffer = [first, Vec::new()].map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        put(&store, "after", 3).await;
        let Left { devices, files: [first, _] } = left(&devices, &buffer, 1);
        Left { devices, files: [first, stale] }
    });
    for Left { devices, files: [_, stale] } in [failed, away] {
        for files in [[Vec::new(), stale.clone()], [stale.clone(), Vec::new()]] {
            let devices: Vec<_> = devices.iter().map(MemoryDevice::snapshot).collect();
            Sim::new(5).run(move |rt| async move {
                let devices = powered(&rt, &devices);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                for read_only in [true, false] {
                    let options = Options { read_only, ..plain() };
                    let Err(error) = try_open(&rt, &devices, Some(&buffer), options).await else {
                        panic!("an old file was believed")
                    };
                    assert!(error.kind == ErrorKind::Format && error.message.contains("older"), "{error}");
                }
                assert!(buffer.iter().all(|file| file.next.get() == 0), "it was written to");
                let options = Options { abandon_buffer: true, ..plain() };
                let (store, report) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
                assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
                assert_eq!(store.head(b"deleted").unwrap_err().kind, ErrorKind::NotFound);
            });
        }
    }
}

/// BUF-1: whenever the power fails while one file is left behind, each of them has what was acknowledged or is not believed.
#[test]
fn cut_while_a_file_is_left_behind() {
    for (wait, broken) in (0..30).flat_map(|wait| [(wait, 0), (wait, 1)]) {
        let kept = Rc::new(RefCell::new(Vec::new()));
        let told = kept.clone();
        let left = history(move |rt, store, buffer| async move {
            put(&store, "before", 1).await;
            buffer[broken].broken.set(true);
            let puts = Box::pin(async move {
                for number in 0..4 {
                    let name = format!("meanwhile {number}");
                    put(&store, &name, number).await;
                    told.borrow_mut().push((name, number));
                }
            });
            let cut = Box::pin(rt.sleep(Duration::from_micros(wait * 40)));
            std::mem::forget(futures_util::future::select(puts, cut).await);
        });
        let kept = kept.take();
        for lost in [None, Some(0), Some(1)] {
            let mut files = left.files.clone();
            if let Some(lost) = lost {
                files[lost] = Vec::new();
            }
            let (devices, kept) = (left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), kept.clone());
            Sim::new(9).run(move |rt| async move {
                let devices = powered(&rt, &devices);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                let context = format!("{wait}: {broken} broken, {lost:?} lost, {} kept", kept.len());
                match try_open(&rt, &devices, Some(&buffer), plain()).await {
                    Ok((store, _)) => {
                        is(&store, "before", 1).await;
                        for (name, key) in &kept {
                            assert!(store.head(name.as_bytes()).is_ok(), "{context}: {name}");
                            is(&store, name, *key).await;
                        }
                    }
                    Err(error) => {
                        assert!(error.message.contains("older") && lost == Some(1 - broken), "{context}: {error}")
                    }
                }
            });
        }
    }
}

/// Whoever only reads sees what is buffered, and writes neither to the drives nor to the files.
#[test]
fn reading_only_shows_what_is_buffered_and_changes_nothing() {
    let left = history(|_, store, _| async move {
        store.put("replaced", content((1, 90_000)), Bytes::new()).await.unwrap();
        store.put("on the drives", content((1, 90_000)), Bytes::new()).await.unwrap();
        put(&store, "replaced", 2).await;
        put(&store, "o", 3).await;
        put(&store, "deleted", 4).await;
        assert!(store.delete("deleted").await.unwrap());
    });
    for lost in [None, Some(0), Some(1)] {
        let mut files = left.files.clone();
        if let Some(lost) = lost {
            files[lost].truncate(10);
        }
        let media: Vec<_> = left.devices.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.clone().map(|bytes| SimFile::new(&rt, bytes));
            devices.iter().for_each(|device| {
                device.on_command(|command, _| {
                    assert!(matches!(command.kind, CommandKind::Read | CommandKind::Report), "{command:?}");
                });
            });
            let only = Options { read_only: true, ..plain() };
            let (store, report) = try_open(&rt, &devices, Some(&buffer), only.clone()).await.unwrap();
            assert_eq!((report.objects, report.buffer.len()), (3, usize::from(lost.is_some())));
            is(&store, "replaced", 2).await;
            is(&store, "o", 3).await;
            let names: Vec<_> = store.list(b"", None, 9).unwrap().into_iter().map(|object| object.name).collect();
            assert_eq!(names, ["o", "on the drives", "replaced"]);
            assert_eq!(store.put("p", Bytes::new(), Bytes::new()).await.unwrap_err().kind, ErrorKind::Invalid);
            assert_eq!(store.delete("o").await.unwrap_err().kind, ErrorKind::Invalid);
            store.close().await.unwrap();
            for (file, before) in buffer.iter().zip(&files) {
                assert!(file.next.get() == 0 && file.durable.borrow()[..] == before[..]);
            }
            let Err(error) = try_open(&rt, &devices, None, only.clone()).await else { panic!("opened without") };
            assert!(error.kind == ErrorKind::Format && error.message.contains("not named"), "{error}");
            let (store, _) = try_open(&rt, &devices, None, Options { abandon_buffer: true, ..only }).await.unwrap();
            assert!(store.get("replaced").await.unwrap() == content((1, 90_000)));
            store.close().await.unwrap();
        });
    }
}

/// BUF-5: when neither the drives nor the buffer take another object, all that is there can be deleted.
#[test]
fn with_array_and_buffer_full_everything_can_be_deleted() {
    for small in [1, 900, 3000] {
        let left = Sim::new(small).run(move |rt| async move {
            let devices = powered(&rt, &media());
            let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            let options = Options { buffer_bytes: 64 << 10, ..plain() };
            let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
            // Those small ones that go first are in the log, and not in the buffer any more.
            for number in 0.. {
                if store.put(format!("big{number}"), content((1, 40_000)), Bytes::new()).await.is_err() {
                    break;
                }
            }
            for number in 0.. {
                let done = store.put(format!("small{number}"), content((2, small as usize)), Bytes::new()).await;
                if let Err(error) = done {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    break;
                }
            }
            assert!(store.stats().unwrap().buffered > 0);
            let all = store.list(b"", None, 10_000).unwrap();
            let mut small = all.into_iter().filter(|object| object.name.starts_with(b"small"));
            for object in small.by_ref().take(20) {
                assert!(store.delete(object.name).await.unwrap());
            }
            // Together: the room for tombstones on the drives is another matter.
            let deletions = join_all(small.map(|object| store.delete(object.name))).await;
            assert!(deletions.into_iter().all(Result::unwrap));
            left(&devices, &buffer, 7)
        });
        with_either(left, |store| async move {
            assert_eq!(store.list(b"small", None, 9).unwrap(), []);
            assert!(!store.list(b"big", None, 9).unwrap().is_empty());
        });
    }
}

/// BUF-4: when the array is full and both files fail, what is buffered can be deleted, and what is not deleted stays.
#[test]
fn with_a_full_array_and_both_files_gone_everything_can_be_deleted() {
    for closed in [false, true] {
        let left = Sim::new(5).run(move |rt| async move {
            let devices = powered(&rt, &media());
            let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
            let options = Options { buffer_bytes: 64 << 10, ..plain() };
            let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
            let fill = async |name: &str, length: usize| {
                for number in 0.. {
                    let put = store.put(format!("{name}{number}"), content((number, length)), Bytes::new());
                    if put.await.is_err() {
                        return number;
                    }
                }
                unreachable!()
            };
            let (big, small) = (fill("big", 40_000).await, fill("small", 3000).await);
            let buffered = store.stats().unwrap().buffered;
            assert!(buffered > 10_000, "{buffered}");
            buffer.iter().for_each(|file| file.broken.set(true));
            // The newest are buffered.
            for number in (2..small).rev() {
                let deleted = store.delete(format!("small{number}")).await;
                assert!(deleted.unwrap_or_else(|error| panic!("small{number}: {error}")));
            }
            assert_eq!(store.stats().unwrap().buffered, 0);
            // The cleaner has what it needs still.
            for number in 1..big {
                assert!(store.delete(format!("big{number}")).await.unwrap());
            }
            for number in 1..big / 2 {
                store.put(format!("new{number}"), content((number, 40_000)), Bytes::new()).await.unwrap();
            }
            if closed {
                store.close().await.unwrap();
            }
            left(&devices, &buffer, 7)
        });
        with_either(left, |store| async move {
            let names = |prefix: &[u8]| store.list(prefix, None, 9).unwrap().len();
            assert_eq!((names(b"small"), names(b"big")), (2, 1));
            for number in 0..2 {
                let found = store.get(format!("small{number}")).await.unwrap();
                assert!(found == content((number, 3000)), "small{number}");
            }
        });
    }
}

/// BUF-2: far more goes through than fits, round after round.
#[test]
fn the_ring_is_used_again() {
    Sim::new(6).run(|rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let options = || Options { buffer_bytes: 128 << 10, ..plain() };
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options()).await.unwrap();
        for number in 0..300 {
            put(&store, &format!("o{}", number % 40), number).await;
        }
        assert!(buffer[0].durable.borrow().len() <= 2 * 4096 + (128 << 10));
        let Left { devices, files } = left(&devices, &buffer, 3);
        let devices = powered(&rt, &devices);
        let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options()).await.unwrap();
        for number in 260..300 {
            is(&store, &format!("o{}", number % 40), number).await;
        }
        assert_eq!(store.stats().unwrap().objects, 40);
    });
}

fn random_options(random: &mut Random) -> Options {
    Options { buffer_bytes: 40_000 + random.below(200_000) as u32, ..options(random) }
}

/// A power cut at random commands of random histories: as `crash.rs`, with the buffer, of which a file may be lost too.
#[test]
fn cut_anywhere_with_either_file() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let mut media = formatted(&shape(&mut random));
        let mut files: [Vec<u8>; 2] = Default::default();
        let mut model = Model::default();
        for round in 0..3 {
            let opened = random_options(&mut random);
            let mut drawn = Random::new(random.number());
            let callers = 1 + random.below(4);
            (media, files, model) = Sim::new(seed * 7 + round).run(move |rt| async move {
                let context = format!("seed {seed}, round {round}");
                let devices = powered(&rt, &media);
                let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
                let (store, report) = try_open(&rt, &devices, Some(&buffer), opened).await.unwrap();
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                model.settle(&store, &context).await;
                let model = Rc::new(RefCell::new(model));
                let cut = Rc::new(RefCell::new(None));
                let at = drawn.below(1500);
                let number = Rc::new(Cell::new(0));
                for device in &devices {
                    let (all, buffer, model) = (devices.clone(), buffer.clone(), model.clone());
                    let (cut, number) = (cut.clone(), number.clone());
                    device.on_command(move |_, _| {
                        number.set(number.get() + 1);
                        if number.get() == at {
                            *cut.borrow_mut() = Some((left(&all, &buffer, seed + at), model.borrow().clone()));
                        }
                    });
                }
                let drivers: Vec<_> = (0..callers)
                    .map(|caller| Driver {
                        rt: rt.clone(),
                        store: store.clone(),
                        model: model.clone(),
                        random: Random::new(drawn.number()),
                        caller,
                        names: 5,
                        size_max: [4_000, 60_000][drawn.below(2) as usize],
                    })
                    .map(|driver| rt.spawn(driver.run(40)))
                    .collect();
                for driver in drivers {
                    driver.await.unwrap();
                }
                devices.iter().for_each(|device| device.on_command(|_, _| {}));
                let found = cut.take().unwrap_or_else(|| (left(&devices, &buffer, seed), model.borrow().clone()));
                let (Left { devices, mut files }, model) = found;
                match drawn.below(3) {
                    0 => {}
                    lost => files[lost as usize - 1] = Vec::new(),
                }
                (devices, files, model)
            });
        }
    }
}
