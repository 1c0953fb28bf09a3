//! Real bytes: everything that stores in a simulation wrote, and bytes of formats' golden tests.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_array_store::{ArrayDrive, ArrayStore, BufferFile, BufferFiles, IndexPlace};
use shingle_base::{Blocks, BufferPool, ChunkId, StoreId, ZoneId};
use shingle_chunk_store::{ChunkClient, ChunkStore, Stream};
use shingle_erasure::Code;
use shingle_object_store::index::{Space, Step, View};
use shingle_object_store::{Drive, MemoryIndex, ObjectEngine, Options};
use shingle_partitions::{PartitionTable, Wanted};
use shingle_record::{Expect, Header, RecordPlace, RecordType, frame_sliced, parse_journal};
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_scenarios::parsers::{CHUNK, array_chain, sample_pair};
use shingle_sim::clients::{bytes_of, commit, put};
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability, ObjectStore};
use shingle_translation::Volume;
use shingle_zone_files::{CreateOptions, FileKind, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

fn geometry() -> Geometry {
    Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 30, 0, 16) }
}

/// Everything of which some parser may make sense.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let mut found = hand_made();
    let (media, buffer) = array();
    let (objects, metadata) = crate::blue::store();
    for medium in media.iter().chain([&chunk_store(), &volume(), &partitions(), &files(), &objects]) {
        harvest(medium, &mut found);
    }
    found.extend(metadata);
    found.extend(crate::blue::buckets());
    found.push(buffer);
    found.extend(index_rows());
    found
}

/// The records of a drive, their payloads, what their headers say of these, and entries of journals.
fn harvest(medium: &MemoryDevice, found: &mut Vec<Vec<u8>>) {
    for zone in (0..medium.geometry().zone_count).map(ZoneId) {
        let info = medium.zone(zone);
        let mut block = 0;
        while block < info.written.0 {
            let at = info.start + Blocks(block);
            let first = medium.read_now(at, Blocks(1)).unwrap();
            let header = Header::decode(&first, &Expect::default()).ok();
            let blocks = header.map_or(1, |header| header.blocks().0).clamp(1, info.written.0 - block);
            block += blocks;
            let Some(header) = header.filter(|_| blocks <= 16) else { continue };
            let record = medium.read_now(at, Blocks(blocks)).unwrap();
            let length = (96 + header.length as usize).min(record.len());
            found.push(record[..length].to_vec());
            let payload = record.slice(96..length);
            found.push(payload.to_vec());
            found.push([&header.info[..], &payload].concat());
            found.push([&(payload.len() as u32).to_le_bytes()[..], &payload].concat());
            found.extend(parse_journal(&payload).into_iter().flatten().map(|entry| entry.bytes.to_vec()));
        }
    }
}

/// A drive with partitions, of which some were removed.
fn partitions() -> MemoryDevice {
    Sim::new(4).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        PartitionTable::format(&rt, &shared, false).await.unwrap();
        let mut table = PartitionTable::open(&rt, &shared).await.unwrap();
        for (name, zones) in [("a", Some(3)), ("b-2", Some(2)), ("rest", None)] {
            table.add(&rt, &[Wanted { name: name.to_owned(), zones, ..Wanted::default() }]).await.unwrap();
        }
        table.remove("b-2").await.unwrap();
        device.image()
    })
}

/// A drive with a volume that was written, in order and not, with a checkpoint in between.
fn volume() -> MemoryDevice {
    Sim::new(3).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        Volume::format(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        let (volume, _) = Volume::open(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        for round in 0..3 {
            for at in 0..300 {
                let data = vec![bytes_of(at, 4096)];
                volume.write(at * 7 % 300 * 4096, data, Durability::Durable).await.unwrap();
            }
            volume.take_snapshot(&format!("round-{round}")).await.unwrap();
            if round == 1 {
                volume.checkpoint().await.unwrap();
            }
        }
        volume.remove_snapshot("round-0").await.unwrap();
        volume.resize(volume.size_bytes() / 2).await.unwrap();
        device.image()
    })
}

/// A drive with files: names that came and went, logs and tables, a checkpoint.
fn files() -> MemoryDevice {
    Sim::new(5).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        ZoneFiles::format(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        files.make_dir("db").await.unwrap();
        for number in 0..20 {
            let kind = if number % 2 == 0 { FileKind::Wal } else { FileKind::Sst };
            let path = format!("db/{number}");
            let file = files.create(&path, CreateOptions { kind, ..Default::default() }).await.unwrap();
            for at in 0..3 {
                file.append(vec![bytes_of(at, 3000)]).await.unwrap();
                file.sync().await.unwrap();
            }
            file.truncate(8000).await.unwrap();
            files.link(&path, &format!("l{number}")).await.unwrap();
            files.rename(&path, &format!("db/r{}", number / 2)).await.unwrap();
            files.remove(&format!("l{number}")).await.unwrap();
            if number == 12 {
                files.checkpoint().await.unwrap();
            }
        }
        device.image()
    })
}

/// All rows of the index of an object store.
fn index_rows() -> Vec<Vec<u8>> {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        ChunkStore::format(&rt, Rc::new(device.clone()), &Default::default()).await.unwrap();
        let (chunks, _) = ChunkStore::open(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        let id = chunks.id();
        let (client, requests) = ChunkClient::channel(16);
        drop(rt.spawn(async move { chunks.serve(requests).await }));
        let (drives, index) = (vec![Drive { client, store: id, hides: false }], MemoryIndex::new());
        let options = Options { segment_bytes: 4 << 10, part_bytes_min: 1, ..Options::default() };
        let (engine, _) = ObjectEngine::open(rt.clone(), drives, Arc::new(index.clone()), options, None).await.unwrap();
        let store = engine.client();
        store.create_bucket("bucket").await.unwrap();
        for number in 0..6 {
            let data = bytes_of(number, 3000 * number as usize);
            put(&store, "bucket", &format!("key/{number}"), &data, commit("e")).await.unwrap();
        }
        store.delete("bucket", "key/1").await.unwrap();
        let upload = store.begin_upload("bucket", "parts", Default::default()).await.unwrap();
        let mut part = store.begin_part("bucket", "parts", upload.id, 1).await.unwrap();
        part.write(bytes_of(9, 9000)).await.unwrap();
        part.commit(commit("p")).await.unwrap();
        let mut rows = Vec::new();
        for space in Space::ALL {
            let row = &mut |_: &[u8], row: Bytes| {
                rows.push(row.to_vec());
                Step::Next
            };
            index.scan(space, &[], row).unwrap();
        }
        engine.close().await;
        rows
    })
}

fn chunk_store() -> MemoryDevice {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        ChunkStore::format(&rt, Rc::new(device.clone()), &Default::default()).await.unwrap();
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        for number in 0..20 {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::ALL[number as usize % 3]).await.unwrap();
            store.append(id, 0, vec![vec![7; 300 * (number as usize + 1)].into()]).await.unwrap();
            match number % 4 {
                0 => store.delete(id).await.unwrap(),
                1 => drop(store.seal(id).await.unwrap()),
                _ => {}
            }
            if number % 8 == 5 {
                store.checkpoint().await.unwrap();
            }
        }
        // So many that the log goes on from zone to zone.
        for _ in 0..40 {
            store.checkpoint().await.unwrap();
        }
        device.image()
    })
}

/// A file in memory.
#[derive(Default)]
struct File(RefCell<Vec<u8>>);

impl BufferFile for File {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async move {
            let bytes = self.0.borrow();
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            Ok(Bytes::copy_from_slice(&rest[..length.min(rest.len())]))
        })
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        let mut bytes = self.0.borrow_mut();
        let end = offset as usize + data.len();
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[offset as usize..end].copy_from_slice(&data);
        Box::pin(async { Ok(()) })
    }
}

async fn write_array(rt: Runtime, devices: Vec<SimDevice>, files: [Rc<File>; 2]) {
    let drives: Vec<ArrayDrive> = devices
        .iter()
        .enumerate()
        .map(|(number, device)| ArrayDrive { name: format!("d{number}"), dev: Rc::new(device.clone()) })
        .collect();
    let code = Code::new(2, 1).unwrap();
    let options =
        shingle_array_store::FormatOptions { segment_length: 8000, ..shingle_array_store::FormatOptions::new(code) };
    shingle_array_store::format(&rt, &drives, &options).await.unwrap();
    for with_buffer in [false, true] {
        let options = shingle_array_store::Options { buffer_bytes: 32 << 10, ..Default::default() };
        let buffer = BufferFiles([files[0].clone(), files[1].clone()]);
        let (store, _) =
            ArrayStore::open_with_buffer(&rt, &drives, &IndexPlace::Memory, options, with_buffer.then_some(buffer))
                .await
                .unwrap();
        for number in 0..40usize {
            let data = Bytes::from(vec![number as u8; 20 + number * 300]);
            store.put(format!("o/{number}"), data, Bytes::from_static(b"at")).await.unwrap();
            if number % 3 == 0 {
                store.delete(format!("o/{}", number / 2)).await.unwrap();
            }
            if number == 20 {
                store.snapshot().await.unwrap();
            }
        }
        if !with_buffer {
            store.close().await.unwrap();
        }
    }
}

fn array() -> (Vec<MemoryDevice>, Vec<u8>) {
    Sim::new(1).run(|rt| async move {
        let new = |_| SimDevice::new(&rt, &MemoryDevice::new(geometry()));
        let devices: Vec<SimDevice> = (0..3).map(new).collect();
        let files: [Rc<File>; 2] = Default::default();
        write_array(rt.clone(), devices.clone(), files.clone()).await;
        let buffer = files[0].0.borrow().clone();
        (devices.iter().map(SimDevice::image).collect(), buffer)
    })
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hand_made() -> Vec<Vec<u8>> {
    let place = RecordPlace { store: StoreId(1), epoch: 9, zone: ZoneId(1), block: 0 };
    let data = Bytes::from(vec![3u8; 10_000]);
    let sliced = frame_sliced(RecordType(0x0101), &place, 10, CHUNK, 0, &[data], &BufferPool::new(0));
    let range: Vec<u8> = [10_000u32, 0, 10_000].iter().flat_map(|number| number.to_le_bytes()).collect();
    let golden = [
        // Entries of object files: a deletion, an object, the end of an upload.
        "53484f45010400004e000000000000001ef100000000000003000000e705000000100000000000001600000000000000684c7c32\
         c0ca3fef0600000070686f746f7308000000612fc39f2e6a7067",
        "53484f45010100004e000000000000001ef100000000000003000000e705000000100000000000004700000004000000de3aa393\
         9037c7570600000070686f746f7308000000612fc39f2e6a706700002a36fe9c971703000000616263010000000c000000636f6e\
         74656e742d747970650a000000746578742f706c61696e64617461",
        "53484f45010300004e000000000000001ef100000000000003000000e705000000100000000000007c00000000000000ead27f50\
         776426f60600000070686f746f7308000000612fc39f2e6a706700002a36fe9c971703000000616263010000000c000000636f6e\
         74656e742d747970650a000000746578742f706c61696e01020000004d0000000000000002000000e8030000c409000000000000\
         4d0000000000000002000000e8030000c409000000000000",
        // A piece of an index's backup.
        "53484f420100000009000000000000000700000002000000020000001a000000887c299541246fe70303000000050000006b6579\
         76616c7565040000000000000000",
        // The file of a drive: its header, and the entry of zone 0.
        "5348494e474c455a0100000005000000400000000000000030000000000000001000000000000000002000000000000000000000\
         020000000300000024ce3313",
    ];
    let part = [1u8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0].repeat(2);
    let manifest = [1, 2, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'e', 0, 0, 0, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    let mut found: Vec<Vec<u8>> = golden.into_iter().map(hex).collect();
    found.push([range, sliced.to_vec()].concat());
    found.push([&manifest[..], &part].concat());
    found.extend([array_chain(), sample_pair()]);
    found.extend([b"obucket\0key".to_vec(), b"bbucket".to_vec(), b"ubucket\0key\0\0\0\0\0\0\0\0\x01".to_vec()]);
    found.push([b"d".as_slice(), &[1; 18]].concat());
    // A snapshot of nothing.
    found.push([&12u32.to_le_bytes()[..], b"SHGAIS01", &[3, 0, 0, 0]].concat());
    found.push(b"SHO1\0\0\0\0\0\0\0\x07\0\0\0\x02\x01\0\0\0\0\0\0\x01".to_vec());
    found
}
