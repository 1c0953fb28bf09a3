//! Bounds, and one access after another.

use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::Runtime;
use shingle_sim::Random;
use shingle_store_api::{BlockStore, Durability, StoreErrorKind};

use super::{refused, shadow_of};

const CACHED: Durability = Durability::Cached;
const DURABLE: Durability = Durability::Durable;

/// API-BLK-1: of no call, and nothing changes.
pub async fn accesses_that_are_not_of_whole_sectors_inside_are_refused(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let (size, sector, sectors) = (store.size_bytes(), store.sector_bytes(), shadow.sectors());
    shadow.write(store, 0..2, DURABLE).await.unwrap();
    shadow.write(store, sectors - 2..sectors, DURABLE).await.unwrap();
    let wrong = StoreErrorKind::Invalid;
    let short = [
        (0, 0),
        (1, sector),
        (sector / 2, sector),
        (0, 1),
        (0, sector - 1),
        (0, sector + 1),
        (sector - 1, 1),
        (size, 0),
        (size, sector),
        (size - sector, 2 * sector),
        (size + sector, sector),
        (u64::MAX - sector + 1, sector),
        (u64::MAX, 1),
    ];
    for (offset, length) in short {
        let data = || vec![Bytes::from(vec![7; length as usize])];
        for durability in [CACHED, DURABLE] {
            assert_eq!(refused(store.write(offset, data(), durability).await), wrong, "write of {length} at {offset}");
        }
    }
    let long = [(0, size + sector), (sector, size), (0, u64::MAX), (sector, u64::MAX - sector + 1), (0, 1 << 63)];
    for (offset, length) in short.into_iter().chain(long) {
        let at = format!("{length} at {offset}");
        assert_eq!(refused(store.read(offset, length).await), wrong, "read of {at}");
        assert_eq!(refused(store.trim(offset, length).await), wrong, "trim of {at}");
        assert_eq!(refused(store.mapped(offset, length, 9).await), wrong, "mapped runs of {at}");
        for durability in [CACHED, DURABLE] {
            assert_eq!(refused(store.write_zeros(offset, length, durability).await), wrong, "zeros of {at}");
        }
    }
    assert_eq!(refused(store.write(0, Vec::new(), DURABLE).await), wrong, "a write of nothing");
    assert_eq!(refused(store.write(0, vec![Bytes::new(), Bytes::new()], DURABLE).await), wrong, "empty pieces");
    // Each piece is of whole sectors, and together they end outside.
    let piece = Bytes::from(vec![7; sector as usize]);
    assert_eq!(refused(store.write(size - sector, vec![piece.clone(), piece], DURABLE).await), wrong);
    shadow.verify(store).await.unwrap();
}

/// Anywhere, and as a whole.
pub async fn sectors_that_were_never_written_read_as_zeros(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sectors = shadow.sectors();
    for range in [0..1, sectors - 1..sectors, 3..100, sectors / 2..sectors / 2 + 1] {
        shadow.read(store, range).await.unwrap();
    }
    shadow.verify(store).await.unwrap();
    // Those beside a written one, too.
    shadow.write(store, 11..12, CACHED).await.unwrap();
    shadow.read(store, 0..40).await.unwrap();
}

/// In one access, too.
pub async fn both_ends_of_a_store_can_be_written(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sectors = shadow.sectors();
    for durability in [CACHED, DURABLE] {
        for range in [0..1, sectors - 1..sectors, 0..9, sectors - 9..sectors] {
            shadow.write(store, range.clone(), durability).await.unwrap();
            shadow.read(store, range).await.unwrap();
        }
    }
    shadow.write(store, 0..sectors, CACHED).await.unwrap();
    shadow.verify(store).await.unwrap();
    shadow.mapped(store, 0..sectors, 3).await.unwrap();
    shadow.trim(store, 0..sectors).await.unwrap();
    shadow.write_zeros(store, sectors - 1..sectors, DURABLE).await.unwrap();
    shadow.verify(store).await.unwrap();
}

/// They end anywhere, and some are empty.
pub async fn a_write_is_of_all_its_pieces(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sector = shadow.sector_bytes() as usize;
    let cuts: [&[usize]; 7] = [
        &[sector],
        &[1],
        &[0, sector - 1, sector + 1],
        &[3 * sector],
        &[17, 17, 18],
        &[0],
        &[sector / 2, sector * 5 / 2, 3 * sector],
    ];
    for (at, cuts) in (0..).map(|number| number * 3).zip(cuts) {
        let in_pieces = |mut data: Bytes| {
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(data.split_to(cut - from));
                from = *cut;
            }
            pieces.push(data);
            pieces
        };
        shadow.write_pieces(store, at..at + 4, CACHED, in_pieces).await.unwrap();
        shadow.read(store, at..at + 4).await.unwrap();
    }
    // One piece for each 16 bytes of many sectors.
    let crumbs = |mut data: Bytes| {
        let mut pieces = Vec::new();
        while !data.is_empty() {
            pieces.push(data.split_to(16));
        }
        pieces
    };
    shadow.write_pieces(store, 100..140, DURABLE, crumbs).await.unwrap();
    shadow.verify(store).await.unwrap();
}

/// API-BLK-2, with no two calls under way together.
pub async fn of_writes_that_follow_each_other_the_last_is_read(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let mut random = Random::new(1);
    for _ in 0..400 {
        let (first, length) = (random.below(120), random.between(1, 40));
        let durability = if random.chance(0.5) { CACHED } else { DURABLE };
        shadow.write(store, first..first + length, durability).await.unwrap();
        let from = random.below(100);
        shadow.read(store, from..from + random.between(1, 60)).await.unwrap();
    }
    shadow.read(store, 0..200).await.unwrap();
}

/// From the last to the first, and every second of them again.
pub async fn sectors_written_one_by_one_are_read_together(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    for sector in (0..90).rev() {
        shadow.write(store, sector..sector + 1, CACHED).await.unwrap();
    }
    shadow.read(store, 0..100).await.unwrap();
    for sector in (0..90).step_by(2) {
        shadow.write(store, sector..sector + 1, CACHED).await.unwrap();
    }
    shadow.read(store, 0..100).await.unwrap();
}

/// They are larger than any write of a drive.
pub async fn large_writes_are_read_in_any_pieces(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let of = |bytes: u64| bytes / shadow.sector_bytes();
    for (first, length, durability) in
        [(5, of(4 << 20), CACHED), (of(2 << 20), of(9 << 20), DURABLE), (0, of(1 << 20) + 1, CACHED)]
    {
        shadow.write(store, first..first + length, durability).await.unwrap();
        shadow.read(store, first..first + length).await.unwrap();
    }
    let mut random = Random::new(2);
    for _ in 0..100 {
        let first = random.below(of(10 << 20));
        shadow.read(store, first..first + random.between(1, of(1 << 20))).await.unwrap();
    }
    shadow.verify(store).await.unwrap();
}

/// Nothing, cached and durable writes; two flushes at once.
pub async fn a_flush_is_answered_whatever_was_written(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    shadow.flush(store).await.unwrap();
    for durability in [CACHED, DURABLE] {
        shadow.write(store, 3..70, durability).await.unwrap();
        shadow.flush(store).await.unwrap();
        shadow.flush(store).await.unwrap();
        shadow.read(store, 0..80).await.unwrap();
    }
    shadow.write(store, 20..30, CACHED).await.unwrap();
    let (one, other) = futures_util::future::join(shadow.flush(store), shadow.flush(store)).await;
    one.and(other).unwrap();
    shadow.verify(store).await.unwrap();
}
