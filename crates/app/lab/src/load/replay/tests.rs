//! Replays on a store that takes a known time for everything.

use std::cell::RefCell;

use shingle_sim::Sim;
use shingle_store_api::{LocalStoreFuture, StoreError, StoreErrorKind};

use super::*;

/// A store of 1 MiB that takes a millisecond for a call and 3 s for one at 512 KiB, any number at once; and its calls.
struct Fixed {
    rt: Runtime,
    calls: RefCell<Vec<(u64, String)>>,
}

impl Fixed {
    fn call(&self, what: String, offset: u64) -> LocalStoreFuture<'_, ()> {
        let ms = self.rt.now().nanos / 1_000_000;
        self.calls.borrow_mut().push((ms, what));
        Box::pin(async move {
            self.rt.sleep(Duration::from_millis(if offset == 512 << 10 { 3000 } else { 1 })).await;
            if offset >= 1 << 20 {
                return Err(StoreError::new(StoreErrorKind::Invalid, "not inside"));
            }
            Ok(())
        })
    }
}

impl BlockStore for Fixed {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn sector_bytes(&self) -> u64 {
        4096
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let called = self.call(format!("read {offset} {length}"), offset);
        Box::pin(async move { called.await.map(|()| Bytes::new()) })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let length: usize = data.iter().map(Bytes::len).sum();
        self.call(format!("write {offset} {length} {durability:?}"), offset)
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        self.call("flush".to_owned(), 0)
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        self.call(format!("trim {offset} {length}"), offset)
    }
}

const MS: u64 = 1_000_000;

fn io(at_ms: u64, after: &[u32]) -> Io {
    Io { after: after.to_vec(), took: Some(5 * MS), ..Io::new(at_ms * MS, IoKind::Read, 0, 4096) }
}

fn run(ios: Vec<Io>, pace: Pace) -> (Result<Replayed, LabError>, Vec<(u64, String)>) {
    Sim::new(1).run(move |rt| async move {
        let store = Rc::new(Fixed { rt: rt.clone(), calls: RefCell::default() });
        let ios = Box::new(ios.into_iter().map(Ok));
        let replayed = replay(&rt, store.clone(), ios, pace, |_| {}).await;
        (replayed, store.calls.take())
    })
}

fn times(ios: Vec<Io>, pace: Pace) -> Vec<u64> {
    let (replayed, calls) = run(ios, pace);
    replayed.unwrap();
    calls.into_iter().map(|call| call.0).collect()
}

/// LAB-RPL-1
#[test]
fn each_pace_keeps_dependencies_and_its_own_time() {
    // The third waits for the first, which takes 3 s here, and came 7 ms after its recorded end.
    let slow = Io { offset: 512 << 10, ..io(0, &[]) };
    let ios = || vec![slow.clone(), io(10, &[]), io(12, &[2]), io(20, &[])];
    assert_eq!(times(ios(), Pace::Open), [0, 10, 20, 3000], "by arrival, but for the dependency");
    assert_eq!(times(ios(), Pace::Closed), [0, 10, 18, 3007], "think time after the dependency");
    assert_eq!(times(ios(), Pace::Depth(4)), [0, 0, 0, 3000]);
    assert_eq!(times(ios(), Pace::Depth(1)), [0, 3000, 3001, 3002]);
    assert_eq!(times(ios(), Pace::Depth(2)), [0, 0, 3000, 3000]);
}

/// An I/O on a store that is behind is as late as it is, and so is the next.
#[test]
fn times_count_from_when_an_io_was_due() {
    let slow = |at| Io { offset: 512 << 10, ..io(at, &[]) };
    let (replayed, _) = run(vec![slow(0), slow(1000), io(1000, &[1]), io(10_000, &[])], Pace::Open);
    let replayed = replayed.unwrap();
    // 3 s, 3 s, 1 ms after its dependency, 1 ms.
    assert_eq!((replayed.all.percentile(0) / 10_000, replayed.all.summary().longest_ms), (100, 3000.0));
    assert_eq!((replayed.ios, replayed.dependent, replayed.read_bytes), (4, 1, 4 * 4096));
    assert_eq!(replayed.took, Duration::from_millis(10_001));
    // From 0 to 3 s, and from there to 4 s, nothing completes; from 4.001 to 10 s nothing is outstanding.
    assert_eq!((replayed.stalls, replayed.longest_stall), (2, Duration::from_secs(3)));
}

/// LAB-RPL-2
#[test]
fn a_store_that_is_far_behind_holds_up_the_trace() {
    let ios = (0..OUTSTANDING_MAX as u64 + 10).map(|_| Io { offset: 512 << 10, ..io(0, &[]) }).collect();
    let times = times(ios, Pace::Open);
    assert_eq!((times[OUTSTANDING_MAX - 1], times[OUTSTANDING_MAX]), (0, 3000));
}

#[test]
fn ios_keep_their_kind_and_become_whole_sectors() {
    let ios = vec![
        Io { fua: true, ..Io::new(0, IoKind::Write, 512, 1 << 10) },
        Io::new(MS, IoKind::Write, 4096, 4096),
        Io::flush(2 * MS),
        Io::new(3 * MS, IoKind::Trim, 0, 8192),
        Io::new(4 * MS, IoKind::Read, 3584, 1024),
        Io { fua: true, ..Io::new(5 * MS, IoKind::Trim, 0, 4096) },
        Io { fua: true, ..Io::new(8 * MS, IoKind::Zero, 4096, 8192) },
    ];
    let (replayed, calls) = run(ios, Pace::Open);
    let words: Vec<_> = calls.iter().map(|call| call.1.as_str()).collect();
    assert_eq!(words[..5], ["write 0 4096 Durable", "write 4096 4096 Cached", "flush", "trim 0 8192", "read 0 8192"]);
    // A store that has nothing better for zeros writes them.
    assert_eq!(words[5..], ["trim 0 4096", "flush", "write 4096 8192 Durable"]);
    let replayed = replayed.unwrap();
    assert_eq!((replayed.widened, replayed.written_bytes, replayed.reads.count()), (2, 5120, 1));
}

#[test]
fn a_replay_that_cannot_be_says_why() {
    let refused = |ios, pace| run(ios, pace).0.map(|_| ()).unwrap_err().0;
    assert!(refused(vec![], Pace::Open).contains("no I/Os"));
    assert!(refused(vec![io(0, &[]), io(1, &[])], Pace::Closed).contains("--infer-dependencies"));
    let outside = vec![io(0, &[]), Io { offset: 1 << 20, ..io(0, &[]) }];
    let error = refused(outside, Pace::Depth(1));
    assert!(error.contains("I/O 1 (Read)") && error.contains("not inside"), "{error}");
    for text in ["open", "closed", "depth:31"] {
        assert_eq!(text.parse::<Pace>().unwrap().to_string(), text);
    }
    for text in ["", "depth:0", "depth:x", "depth", "depth:5000"] {
        assert!(text.parse::<Pace>().unwrap_err().contains("depth:N"), "{text}");
    }
}
