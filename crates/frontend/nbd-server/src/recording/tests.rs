//! Recordings into files, full devices, and places that take nothing.

use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc;

use flate2::bufread::MultiGzDecoder;
use shingle_block_trace::blocks::BlockTrace;

use super::*;

const SIZE: u64 = 1 << 30;

/// A file that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("shingle-{}-{name}", std::process::id())))
    }

    fn ios(&self) -> Vec<Io> {
        self.ios_of(SIZE)
    }

    fn ios_of(&self, size: u64) -> Vec<Io> {
        let trace = MultiGzDecoder::new(BufReader::new(File::open(&self.0).unwrap()));
        let trace = BlockTrace::read(Box::new(BufReader::new(trace))).unwrap();
        assert_eq!((trace.head().name.as_str(), trace.head().size), ("disk", size));
        trace.map(Result::unwrap).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(at: u64) -> Order {
    Order::Write { span: Span { offset: at * 4096, length: 4096 }, durability: Durability::Durable }
}

/// A file that takes so many bytes, and then fails, or waits for the end of the channel.
struct Small {
    file: File,
    left: usize,
    waits: Option<mpsc::Receiver<()>>,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            let Some(waits) = &self.waits else { return Err(io::ErrorKind::StorageFull.into()) };
            let _ = waits.recv();
            return self.file.write(bytes);
        }
        let now = self.left.min(bytes.len());
        self.left -= now;
        self.file.write(&bytes[..now])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Destination for Small {
    fn take_back(&mut self, length: u64) {
        Destination::take_back(&mut self.file, length);
    }
}

fn small(file: &Scratch, left: usize, waits: Option<mpsc::Receiver<()>>) -> Recording {
    let file = create(&file.0).unwrap();
    Recording::into(Box::new(Small { file, left, waits }), "a recording".to_owned(), "disk", SIZE).unwrap()
}

#[tokio::test]
async fn requests_of_all_kinds_are_read_back_as_they_came() {
    let file = Scratch::new("kinds.trace.gz");
    let recording = Recording::begin(&file.0, "disk", SIZE).unwrap();
    let notes = recording.notes();
    let span = Span { offset: 8192, length: 4096 };
    let (cached, durable) = (Durability::Cached, Durability::Durable);
    let orders = [
        Order::Write { span, durability: durable },
        Order::Read { span, holes: true },
        Order::Status { span, one: false },
        Order::Flush,
        Order::Trim { span, durability: cached },
        Order::Zero { span, durability: cached, filled: false },
        Order::Zero { span, durability: durable, filled: true },
    ];
    let mut noted: Vec<_> = orders.into_iter().filter_map(|order| notes.came(order)).collect();
    assert_eq!(noted.len(), 6, "the state of blocks is no I/O");
    noted.remove(1).answered();
    notes.came(Order::Flush).unwrap().answered();
    let again = Recording::begin(&file.0, "disk", SIZE).map(drop).unwrap_err();
    assert!(again.kind() == io::ErrorKind::AlreadyExists && again.to_string().contains("another file"), "{again}");
    recording.finish().await;
    // Later requests are not in it.
    assert!(notes.came(Order::Flush).is_none());
    noted.remove(0).answered();
    let ios = file.ios();
    let kinds: Vec<_> = ios.iter().map(|io| (io.kind, io.fua, io.took.is_some())).collect();
    let (read, written, flush) = (IoKind::Read, IoKind::Write, IoKind::Flush);
    assert_eq!(kinds[..3], [(written, true, false), (read, false, true), (flush, false, false)]);
    assert_eq!(
        kinds[3..],
        [(IoKind::Trim, false, false), (IoKind::Zero, false, false), (written, true, false), (flush, false, true)]
    );
    assert_eq!((ios[6].after.as_slice(), ios[0].offset, ios[0].length), (&[5][..], 8192, 4096));
}

/// NBD-REC-2: zeros that are to take their room are writes, and those of a trace are shorter than a client may ask for.
#[tokio::test]
async fn zeros_of_any_length_that_take_their_room_are_in_it_as_writes() {
    let (file, gib) = (Scratch::new("zeros.trace.gz"), 1 << 30);
    let recording = Recording::begin(&file.0, "disk", 8 * gib).unwrap();
    let notes = recording.notes();
    let longest = u64::from(u32::MAX);
    let asked =
        [(0, gib), (4096, gib), (700, longest), (5 * gib - 1, 2), (3 * gib, 4096), (8 * gib - longest, longest)];
    for (offset, length) in asked {
        let order = Order::Zero { span: Span { offset, length }, durability: Durability::Durable, filled: true };
        let noted = notes.came(order).unwrap_or_else(|| panic!("{length} bytes of zeros at {offset} are not noted"));
        noted.answered();
    }
    recording.finish().await;
    let ios = file.ios_of(8 * gib);
    let mut rest = ios.iter();
    for (offset, length) in asked {
        let (start, end) = (offset / 512 * 512, (offset + length).next_multiple_of(512));
        let mut at = start;
        while at < end {
            let io = rest.next().expect("all bytes are in it");
            assert_eq!((io.kind, io.fua, io.took.is_some()), (IoKind::Write, true, true));
            // A sector that two parts have is in both.
            assert!(io.offset <= at && io.offset + io.length > at && at - io.offset < 512, "{io:?} at {at}");
            at = io.offset + io.length;
        }
        assert_eq!(at, end, "{length} bytes at {offset}");
    }
    assert_eq!(rest.next(), None);
}

/// NBD-REC-1 and NBD-REC-2.
#[tokio::test]
async fn a_full_disk_ends_the_recording_and_leaves_a_whole_trace() {
    let file = Scratch::new("full.trace.gz");
    let recording = small(&file, 50_000, None);
    let notes = recording.notes();
    let mut noted = 0;
    for at in (0..SIZE / 4096).cycle() {
        let Some(one) = notes.came(write(at)) else { break };
        one.answered();
        noted += 1;
    }
    recording.finish().await;
    let ios = file.ios();
    assert!(!ios.is_empty() && ios.len() < noted, "{} of {noted}", ios.len());
    assert!(ios.iter().enumerate().all(|(at, io)| io.offset == at as u64 * 4096), "a beginning of it");
    assert!(std::fs::metadata(&file.0).unwrap().len() <= 50_000);
    assert_eq!(notes.state().ready.len(), 0, "nothing is kept");
}

/// NBD-REC-1.
#[tokio::test]
async fn a_file_that_takes_nothing_holds_up_nobody() {
    let file = Scratch::new("slow.trace.gz");
    let (hold, waits) = mpsc::channel();
    let recording = small(&file, 1, Some(waits));
    let notes = recording.notes();
    let mut noted = 0;
    while let Some(one) = notes.came(write(noted % 1000)) {
        one.answered();
        noted += 1;
        assert!(noted <= 2 * BEHIND_MAX as u64, "memory is not bounded");
    }
    assert!(noted > BEHIND_MAX as u64 / 2, "{noted}");
    drop(hold);
    recording.finish().await;
    assert_eq!(file.ios().len() as u64, noted, "what was noted before is whole");
}

#[tokio::test]
async fn a_device_is_written_to_as_it_is() {
    let recording = Recording::begin(Path::new("/dev/full"), "disk", SIZE).unwrap();
    let notes = recording.notes();
    while notes.came(write(0)).is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    recording.finish().await;
    let missing = Recording::begin(Path::new("/no/such/folder/x"), "disk", SIZE).map(drop).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn packed_parts_follow_each_other() {
    let file = Scratch::new("parts.gz");
    let mut packed = Packed::new(Box::new(create(&file.0).unwrap()));
    for part in ["one\n", "two\n", ""] {
        packed.write_all(part.as_bytes()).unwrap();
        packed.end_part().unwrap();
    }
    let mut text = String::new();
    MultiGzDecoder::new(BufReader::new(File::open(&file.0).unwrap())).read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\n");
}
