//! Compressed bytes of which little is left: BLU-THIN-1.

use shingle_blue_store::{Access, CollectionId, Compression, Hints, ObjectId, Store, Transaction};
use shingle_sim::{Random, Sim, contents, seeds};

use crate::common::fresh;

/// Content of a compressed blob.
const BLOB: usize = 128 << 10;
const BLOCK: usize = 4096;

/// Bytes that take about a quarter of their blocks.
fn squeezable(seed: u64, length: usize) -> Vec<u8> {
    let noise = contents(seed, 0, length as u64);
    noise
        .chunks(BLOCK)
        .flat_map(|block| [&block[..block.len() / 4], &vec![0; block.len() - block.len() / 4]].concat())
        .collect()
}

/// An object as it has to be.
struct Model {
    store: Store,
    collection: CollectionId,
    id: ObjectId,
    bytes: Vec<u8>,
}

impl Model {
    /// An object of several compressed blobs.
    async fn new(store: Store, collection: CollectionId, seed: u64, compression: Compression) -> Self {
        let (id, bytes) = (ObjectId::new(1, "o"), squeezable(seed, 4 * BLOB));
        let mut transaction = Transaction::new();
        transaction.set_hints(&id, Hints { compression, access: Access::Random, ..Hints::default() }).write(
            &id,
            0,
            bytes.clone(),
        );
        store.submit(collection, transaction).await.unwrap();
        Self { store, collection, id, bytes }
    }

    async fn write(&mut self, at: usize, data: Vec<u8>) {
        self.bytes[at..at + data.len()].copy_from_slice(&data);
        let mut transaction = Transaction::new();
        transaction.write(&self.id, at as u64, data);
        self.store.submit(self.collection, transaction).await.unwrap();
    }

    /// Live blocks, once all of it is in zones.
    async fn settled(&self, context: &str) -> u64 {
        self.store.flush_deferred().await.unwrap();
        assert!(self.store.read(&self.id, 0, u64::MAX).await.unwrap() == self.bytes, "{context}");
        assert_eq!(self.store.check(true).await.unwrap(), [], "{context}");
        self.store.stats().live_bytes / BLOCK as u64
    }
}

/// Writes that are deferred, and writes that are not, leave an eighth of each compressed blob: that is what it takes, and not all that it took.
#[test]
fn what_is_left_of_compressed_bytes_is_written_anew() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        for step in [BLOCK, 4 * BLOCK] {
            Sim::new(1).run(move |rt| async move {
                let context = format!("{compression:?}, writes of {step} bytes");
                let (_device, store, collection) = fresh(&rt).await;
                let mut model = Model::new(store, collection, 1, compression).await;
                let before = model.settled(&context).await;
                assert!((32..=48).contains(&before), "{context}: {before} blocks");
                for blob in 0..4 {
                    for from in (BLOB / 8..BLOB).step_by(step) {
                        model.write(blob * BLOB + from, contents(blob as u64, from as u64, step as u64)).await;
                    }
                }
                // A quarter of four blocks of each, beside 28 blocks of noise.
                let after = model.settled(&context).await;
                assert!(after <= 4 * (28 + 2), "{context}: {after} blocks");
                assert_eq!(model.store.stats().counters.thin_rewritten, 4, "{context}");
            });
        }
    }
}

/// Writes anywhere: what is shown is what was written, and compressed bytes keep at most twice the blocks that they would take now, each
/// piece by itself.
#[test]
fn compressed_bytes_under_many_writes_stay_small() {
    let mut rewritten = 0;
    for seed in seeds(20) {
        rewritten += Sim::new(seed).run(move |rt| async move {
            let context = format!("seed {seed}");
            let (_device, store, collection) = fresh(&rt).await;
            let mut random = Random::new(seed);
            let mut model = Model::new(store, collection, seed, Compression::Zstd).await;
            // Blocks that have been overwritten.
            let mut noisy = vec![false; model.bytes.len() / BLOCK];
            for number in 0..120 {
                let blocks = 1 + random.below(6) as usize;
                let at = random.below((noisy.len() - blocks) as u64 + 1) as usize;
                noisy[at..at + blocks].fill(true);
                model.write(at * BLOCK, contents(seed, number << 20, (blocks * BLOCK) as u64)).await;
            }
            let after = model.settled(&context).await as usize;
            let mut most = noisy.iter().filter(|noisy| **noisy).count();
            for blob in noisy.chunks(BLOB / BLOCK) {
                let pieces = blob.split(|noisy| *noisy).filter(|piece| !piece.is_empty());
                most += (2 * pieces.map(|piece| piece.len().div_ceil(4) + 1).sum::<usize>()).min(BLOB / BLOCK);
            }
            assert!(after <= most, "{context}: {after} blocks, {most} at most");
            model.store.stats().counters.thin_rewritten
        });
    }
    assert!(rewritten > 0, "none was rewritten");
}

/// Others keep what they share, and read it as it was.
#[test]
fn shared_compressed_bytes_stay_as_they_are() {
    Sim::new(1).run(|rt| async move {
        let (_device, store, collection) = fresh(&rt).await;
        let mut model = Model::new(store.clone(), collection, 1, Compression::Zstd).await;
        let (copy, whole) = (ObjectId::new(1, "o").at_generation(1), model.bytes.clone());
        let mut transaction = Transaction::new();
        transaction.clone_object(&model.id, &copy);
        store.submit(collection, transaction).await.unwrap();
        model.write(BLOCK, contents(1, 0, (4 * BLOB - BLOCK) as u64)).await;
        model.settled("shared").await;
        assert!(store.read(&copy, 0, u64::MAX).await.unwrap() == whole);
        assert_eq!(store.stats().counters.thin_rewritten, 0);
    });
}
