//! The load of Table 3 on one drive, up to a power cut.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::{AlignedBuf, Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Options, Stream};
use shingle_record::sliced_record_blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{MemoryDevice, ZonedDevice};

use crate::error::LabError;
use crate::rig::drives::LabDrive;
use crate::rig::engine::Setup;

/// A kind of stream of Table 3, for one drive of sixty.
struct Kind {
    stream: Stream,
    /// Bytes a second, which decides its share.
    rate: f64,
    /// Chunks being written at a time: jobs times files, over sixty.
    files: u64,
    /// Bytes of an append, from and to.
    io: (u32, u32),
    /// Bytes of a chunk.
    chunk: u32,
}

const MB: f64 = 1e6 / 60.0;

/// Chunks of "256 MB" are as long as a zone holds appends (section 5.4, strategy 2).
const TABLE_3: [Kind; 4] = [
    Kind { stream: Stream::Gc, rate: 3200.0 * MB, files: 3, io: (1 << 20, 1 << 20), chunk: 256 << 20 },
    Kind { stream: Stream::Gc, rate: 160.0 * MB, files: 3, io: (1 << 20, 1 << 20), chunk: 64 << 20 },
    Kind { stream: Stream::Data, rate: 600.0 * MB, files: 15, io: (1 << 20, 1 << 20), chunk: 256 << 20 },
    Kind { stream: Stream::Meta, rate: 80.0 * MB, files: 8, io: (4 << 10, 128 << 10), chunk: 4 << 20 },
];

/// A chunk being written.
struct File {
    id: ChunkId,
    length: u32,
    blocks: u64,
}

/// The load as one sequence of appends in its own time.
struct Load {
    rt: Runtime,
    store: ChunkStore,
    random: Random,
    zeros: bytes::Bytes,
    /// Of each kind: the time of its next append, the index of its file, and the files.
    kinds: Vec<(f64, usize, Vec<Option<File>>)>,
    began: f64,
    next_id: u64,
    /// Blocks of a zone for records.
    room: u64,
}

impl Load {
    /// Makes the next `steps` appends.
    async fn run(&mut self, steps: u64) -> Result<(), LabError> {
        for _ in 0..steps {
            let due = |at: &usize| self.kinds[*at].0;
            let next = (0..self.kinds.len()).min_by(|left, right| due(left).total_cmp(&due(right)));
            if let Some(kind) = next {
                self.append(kind).await?;
            }
        }
        Ok(())
    }

    async fn append(&mut self, kind: usize) -> Result<(), LabError> {
        let error = |error: shingle_chunk_store::Error| LabError(error.to_string());
        let Kind { stream, rate, io, chunk, .. } = TABLE_3[kind];
        let (due, at, files) = &mut self.kinds[kind];
        let length = self.random.between(u64::from(io.0) / 4096, u64::from(io.1) / 4096) as u32 * 4096;
        let blocks = sliced_record_blocks(u64::from(length)).0;
        let number = *at;
        *at = (*at + 1) % files.len();
        let now = self.rt.now().nanos as f64 / 1e9 - self.began;
        if *due > now {
            self.rt.sleep(Duration::from_secs_f64(*due - now)).await;
        }
        *due += f64::from(length) / rate;
        if let Some(file) = &files[number]
            && (file.length + length > chunk || file.blocks + blocks > self.room)
        {
            self.store.seal(file.id).await.map_err(error)?;
            files[number] = None;
        }
        let file = match &mut files[number] {
            Some(file) => file,
            empty => {
                let id = ChunkId::from_u64(self.next_id);
                self.next_id += 1;
                self.store.create(id, stream).await.map_err(error)?;
                empty.insert(File { id, length: 0, blocks: 0 })
            }
        };
        let data = vec![self.zeros.slice(..length as usize)];
        self.store.append(file.id, u64::from(file.length), data).await.map_err(error)?;
        file.length += length;
        file.blocks += blocks;
        Ok(())
    }
}

/// A drive as a power cut leaves it at several ages, in seconds after a checkpoint at 60 %.
pub(super) fn fill(
    drive: &LabDrive,
    setup: Setup,
    ages: &[u64],
    seed: u64,
) -> Result<Vec<(u64, MemoryDevice)>, LabError> {
    let options = Options { checkpoint_every: Duration::from_secs(1 << 40), ..setup.options() };
    let (medium, zones) = (drive.medium(), drive.geometry().zone_count);
    let ages = ages.to_vec();
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::without_power_cuts(&rt, medium);
        device.set_latency(Duration::ZERO);
        let error = |error: shingle_chunk_store::Error| LabError(error.to_string());
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        ChunkStore::format(&rt, shared.clone(), &FormatOptions::default()).await.map_err(error)?;
        use_metazones(&device).await?;
        let (store, _) = ChunkStore::open(&rt, shared, options).await.map_err(error)?;
        let kinds = TABLE_3.iter().map(|kind| (0.0, 0, (0..kind.files).map(|_| None).collect()));
        let mut load = Load {
            rt: rt.clone(),
            store: store.clone(),
            random: Random::new(seed),
            zeros: AlignedBuf::zeroed(Blocks(256)).freeze(),
            kinds: kinds.collect(),
            began: rt.now().nanos as f64 / 1e9,
            next_id: 0,
            room: device.geometry().zone_capacity.0 - 1,
        };
        while used(&store) < 0.6 {
            load.run(u64::from(zones / 8)).await?;
        }
        store.checkpoint().await.map_err(error)?;
        let began = rt.now();
        let mut images = Vec::new();
        for age in ages {
            while rt.now().since(began) < Duration::from_secs(age) {
                load.run(1).await?;
            }
            let image = device.image();
            image.power_cycle();
            images.push((age, image));
        }
        Ok(images)
    })
}

/// The share of data zones that are written.
fn used(store: &ChunkStore) -> f64 {
    let zones = store.zones();
    let written: u64 = zones.iter().map(|zone| u64::from(zone.written_blocks)).sum();
    let capacity: u64 = zones.iter().map(|zone| u64::from(zone.capacity_blocks)).sum();
    written as f64 / capacity.max(1) as f64
}

/// Writes a block to every empty metazone: after a while all have been in use, and each has a head to be read.
async fn use_metazones(device: &SimDevice) -> Result<(), LabError> {
    let geometry = device.geometry().clone();
    let metazones = shingle_chunk_store::Layout::default_metazones(&geometry);
    let error = |error: shingle_zoned::DeviceError| LabError(error.to_string());
    let first = geometry.conventional_zones + 1;
    for info in device.report(shingle_base::ZoneId(first), metazones).await.map_err(error)? {
        if info.written == Blocks::ZERO {
            let block = AlignedBuf::zeroed(Blocks(1)).freeze();
            device.write(info.start, vec![block]).await.map_err(error)?;
        }
    }
    Ok(())
}
