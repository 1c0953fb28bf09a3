//! Random histories of an array, and the trivial model that says what must be found afterwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_array_store::{
    ArrayDrive, ArrayStore, CleaningPolicy, ErrorKind, FormatOptions, IndexPlace, Options, RecoveryReport,
};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice};

/// Content of an object: its bytes follow from the key.
pub(crate) type Content = (u64, usize);

/// One object.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelObject {
    /// The last acknowledged content; `None`: not there.
    pub(crate) acked: Option<Content>,
    /// Effect of a call that was not answered yet.
    pub(crate) trying: Option<Option<Content>>,
}

/// Contents that an array must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) objects: BTreeMap<String, ModelObject>,
    /// All that a [`Driver`] ever put under a name.
    pub(crate) ever: BTreeMap<String, Vec<Content>>,
}

/// The bytes of an object.
pub(crate) fn content((key, size): Content) -> Bytes {
    shingle_sim::contents(key, 0, size as u64).into()
}

/// The shape of an array: the seed decides it.
#[derive(Clone, Debug)]
pub(crate) struct ArrayShape {
    pub(crate) code: Code,
    pub(crate) segment_length: u32,
    pub(crate) drives: Vec<Geometry>,
}

pub(crate) fn shape(random: &mut Random) -> ArrayShape {
    let drawn = shingle_sim::lives::ArrayShape::draw(random);
    let code = Code::new(drawn.data, drawn.parity).unwrap();
    ArrayShape { code, segment_length: drawn.segment_length, drives: drawn.drives }
}

pub(crate) fn options(random: &mut Random) -> Options {
    let turn_segments = 1 + random.below(4) as u32;
    Options {
        turn_segments,
        open_sets: Some(turn_segments as usize),
        available_sets: 3 + random.below(4) as usize,
        in_flight: 1 + random.below(3) as usize,
        coalesce: random.chance(0.7),
        read_only: false,
        cleaning: if random.chance(0.5) { CleaningPolicy::Greedy } else { CleaningPolicy::Lifetime },
        background: random.chance(0.5),
        snapshot_interval: Duration::from_millis(5 + random.below(100)),
        rebuild_rate: None,
        // The sets of these arrays are few: in half of them superblocks are written as if they were many.
        whole_table: if random.chance(0.5) { 0 } else { 64 << 10 },
        // Drawn beside the others: what a seed did before it does still.
        cleaners: Some(1 + random.clone().below(4) as usize),
        ..Options::default()
    }
}

/// Names for messages, over simulated devices.
pub(crate) fn named(devices: &[SimDevice]) -> Vec<ArrayDrive> {
    let drive =
        |(number, device): (usize, &SimDevice)| ArrayDrive { name: format!("d{number}"), dev: Rc::new(device.clone()) };
    devices.iter().enumerate().map(drive).collect()
}

/// Simulated devices over media.
pub(crate) fn powered(rt: &Runtime, media: &[MemoryDevice]) -> Vec<SimDevice> {
    media.iter().map(|medium| SimDevice::new(rt, medium)).collect()
}

/// Freshly formatted drives.
pub(crate) fn formatted(shape: &ArrayShape) -> Vec<MemoryDevice> {
    let shape = shape.clone();
    Sim::new(1).run(|rt| async move {
        let media: Vec<MemoryDevice> = shape.drives.iter().cloned().map(MemoryDevice::new).collect();
        let devices = powered(&rt, &media);
        let options = FormatOptions { segment_length: shape.segment_length, ..FormatOptions::new(shape.code) };
        shingle_array_store::format(&rt, &named(&devices), &options).await.unwrap();
        devices.iter().map(SimDevice::image).collect()
    })
}

pub(crate) async fn open(rt: &Runtime, devices: &[SimDevice], options: Options) -> (ArrayStore, RecoveryReport) {
    ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, options).await.unwrap()
}

/// One caller; its objects are its own, so that its calls on each come one after the other.
pub(crate) struct Driver {
    pub(crate) rt: Runtime,
    pub(crate) store: ArrayStore,
    pub(crate) model: Rc<RefCell<Model>>,
    pub(crate) random: Random,
    pub(crate) caller: u64,
    pub(crate) names: u64,
    /// Sizes are up to this.
    pub(crate) size_max: u64,
    /// Drives fail, or are away: calls may fail, too.
    pub(crate) faulty: bool,
}

impl Driver {
    fn name(&mut self) -> String {
        format!("c{}/{}", self.caller, self.random.below(self.names))
    }

    /// Does `steps` random things.
    pub(crate) async fn run(mut self, steps: u64) {
        for _ in 0..steps {
            let name = self.name();
            match self.random.below(100) {
                0..55 => self.put(name).await,
                55..70 => self.read(name).await,
                70..85 => self.delete(name).await,
                85..90 => self.kept("snapshot", self.store.snapshot().await),
                90..95 => self.kept("gc", self.store.gc(1).await.map(drop)),
                95..97 => self.give_up(name).await,
                _ => self.rt.sleep(Duration::from_millis(self.random.below(5))).await,
            }
        }
    }

    /// Holds that a call failed for want of space, or with the drives.
    fn excused(&self, what: &str, error: &shingle_array_store::Error) {
        let with_drives = matches!(error.kind, ErrorKind::Stopped | ErrorKind::Device) && self.faulty;
        assert!(error.kind == ErrorKind::NoSpace || with_drives, "{what}: {error}");
    }

    fn kept(&self, what: &str, result: shingle_array_store::Result<()>) {
        if let Err(error) = result {
            self.excused(what, &error);
        }
    }

    async fn put(&mut self, name: String) {
        let size = if self.random.chance(0.3) { self.random.below(3000) } else { self.random.below(self.size_max) };
        let new = (self.random.number(), size as usize);
        self.model.borrow_mut().ever.entry(name.clone()).or_default().push(new);
        self.model.borrow_mut().objects.entry(name.clone()).or_default().trying = Some(Some(new));
        let result = self.put_in_pieces(&name, content(new)).await;
        let mut model = self.model.borrow_mut();
        let object = model.objects.get_mut(&name).unwrap();
        match result {
            Ok(()) => *object = ModelObject { acked: Some(new), trying: None },
            Err(error) if matches!(error.kind, ErrorKind::NoSpace) => object.trying = None,
            Err(error) => self.excused("put", &error),
        }
    }

    async fn put_in_pieces(&mut self, name: &str, mut data: Bytes) -> shingle_array_store::Result<()> {
        let attributes = data.slice(..data.len().min(9));
        let mut put = self.store.begin_put(name.to_owned())?;
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(1 + self.random.below(30_000) as usize));
            put.write(piece).await?;
        }
        put.finish(attributes).await.map(drop)
    }

    /// A version that is dropped before it is complete.
    async fn give_up(&mut self, name: String) {
        if let Ok(mut put) = self.store.begin_put(name) {
            drop(put.write(content((1, self.random.below(self.size_max) as usize))).await);
        }
    }

    async fn delete(&mut self, name: String) {
        self.model.borrow_mut().objects.entry(name.clone()).or_default().trying = Some(None);
        match self.store.delete(name.clone()).await {
            Ok(_) => drop(self.model.borrow_mut().objects.insert(name, ModelObject::default())),
            Err(error) => self.excused("delete", &error),
        }
    }

    async fn read(&mut self, name: String) {
        let expected = self.model.borrow().objects.get(&name).cloned().unwrap_or_default();
        if expected.trying.is_some() {
            return;
        }
        match (self.store.open_object(name.clone()), expected.acked) {
            (Ok(reader), Some(object)) => {
                let expected = content(object);
                assert_eq!(reader.object().size, expected.len() as u64, "{name}");
                if !expected.is_empty() {
                    let from = self.random.below(expected.len() as u64);
                    let length = 1 + self.random.below(expected.len() as u64 - from);
                    let found = reader.read(from, length).await.unwrap();
                    assert!(!found.is_empty());
                    assert!(found == expected[from as usize..from as usize + found.len()], "{name}: other bytes");
                }
            }
            (Err(error), None) => assert_eq!(error.kind, ErrorKind::NotFound, "{name}: {error}"),
            (Ok(_), None) => panic!("{name} is there although it was deleted"),
            (Err(error), Some(_)) => assert_eq!(error.kind, ErrorKind::Stopped, "{name} is gone: {error}"),
        }
    }
}

impl Model {
    /// Holds the array against the model; what was neither acknowledged nor refused is settled as it was found.
    pub(crate) async fn settle(&mut self, store: &ArrayStore, context: &str) {
        for (name, object) in &mut self.objects {
            let found = match store.get(name.clone()).await {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => panic!("{context}: {name}: {error}"),
            };
            let is = |expected: &Option<Content>| expected.map(content) == found;
            let expected = [Some(object.acked), object.trying].into_iter().flatten().find(is);
            let Some(expected) = expected else {
                let found = found.map(|bytes| bytes.len());
                panic!("{context}: {name} has {found:?} bytes, or other ones than {object:?}");
            };
            *object = ModelObject { acked: expected, trying: None };
        }
        let listed = store.list(b"", None, usize::MAX).unwrap();
        let expected = self.objects.iter().filter(|(_, object)| object.acked.is_some());
        assert!(
            listed.iter().map(|object| &object.name[..]).eq(expected.map(|(name, _)| name.as_bytes())),
            "{context}: other objects are listed than are there"
        );
    }
}
