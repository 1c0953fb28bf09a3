//! `shingle chunk`: the chunk store on a drive, without a server.

use std::error::Error;
use std::future::Future;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::json;
use shingle_base::{ByteSize, ChunkId};
use shingle_chunk_store::{ChunkStat, ChunkStore, Damage, FormatOptions, Options, RecoveryReport, Stream};
use shingle_zoned_linux::OpenOptions;

use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome, status};
use crate::output::{Progress, counted};
use crate::transfer::Output;

/// Bytes that one append takes at most.
const PIECE: usize = 1 << 20;

/// Commands on a chunk store.
#[derive(Subcommand)]
pub(crate) enum Chunk {
    /// Make an empty store: `shingle chunk format disk.shingle`
    Format(Format),
    /// Create a chunk: `shingle chunk create disk.shingle 2a --stream data`
    Create(Create),
    /// Append standard input, or a file: `shingle chunk append disk.shingle 2a < photo.jpg`
    Append(Append),
    /// Write a chunk's bytes to standard output, or a file: `shingle chunk get disk.shingle 2a > photo.jpg`
    #[command(alias = "read")]
    Get(Get),
    /// Seal a chunk: it takes no more appends, and its present size is final, also where a part of it cannot be read now.
    Seal(One),
    /// Delete a chunk. Asks first.
    #[command(alias = "delete")]
    Rm(Rm),
    /// List all chunks.
    Ls(Store),
    /// Show a chunk, or the store.
    Stat(Stat),
    /// Reclaim the space of deleted chunks now.
    Gc(Gc),
    /// Read and verify everything. Exit status: 0 clean, 4 damage, 8 could not run.
    Check(Store),
    /// Give up what the drive can no longer read, so that no opening looks for it. Asks first.
    AcceptLoss(AcceptLoss),
    /// Print the store's state, as JSON.
    Dump(Store),
}

#[derive(Args)]
pub(crate) struct Format {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Zones for the store's metadata [default: 400 of 74,508 zones, but at least 6].
    #[arg(long, value_name = "COUNT")]
    metazones: Option<u32>,
    /// Format even if the drive holds a store, or a file system that is not mounted; its data is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
pub(crate) struct Store {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct One {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The chunk: up to 48 hexadecimal digits.
    #[arg(value_name = "CHUNK")]
    chunk: ChunkId,
}

#[derive(Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    one: One,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    one: One,
    /// Use of the chunk: data, gc or meta.
    #[arg(long, value_name = "STREAM", default_value = "data")]
    stream: Stream,
}

#[derive(Args)]
pub(crate) struct Append {
    #[command(flatten)]
    one: One,
    /// The file to append [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Required present size of the chunk: if it differs, nothing is appended [default: any].
    #[arg(long, value_name = "BYTES")]
    offset: Option<u64>,
}

#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    one: One,
    /// The file to write [default: standard output].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// First byte to read.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: u64,
    /// Bytes to read [default: to the end].
    #[arg(long, value_name = "BYTES")]
    length: Option<u64>,
    /// Write to a terminal too.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Stat {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The chunk [default: the store].
    #[arg(value_name = "CHUNK")]
    chunk: Option<ChunkId>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Gc {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Empty at most this many zones [default: all that are worth it].
    #[arg(long, value_name = "COUNT")]
    zones: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct AcceptLoss {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Runs `work` with the store of a drive open, and closes it.
fn with_store<T, F: Future<Output = Outcome<T>>>(path: PathBuf, work: impl FnOnce(ChunkStore) -> F) -> Outcome<T> {
    with_store_as(path, Options::default(), |store, _| work(store))
}

/// The same with options, and with the report of the opening.
fn with_store_as<T, F: Future<Output = Outcome<T>>>(
    path: PathBuf,
    options: Options,
    work: impl FnOnce(ChunkStore, RecoveryReport) -> F,
) -> Outcome<T> {
    shingle_runtime::real::run(|rt| async move {
        let drive = device::open(&path, &rt).await?;
        let (store, report) = ChunkStore::open(&rt, drive, options).await.map_err(|error| not_opened(&path, &error))?;
        for damage in &report.damage {
            note!("shingle: damaged: {damage}");
        }
        let result = work(store.clone(), report).await;
        store.close().await?;
        result
    })?
}

impl Chunk {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Format(format) => format.run(),
            Self::Create(create) => {
                with_store(
                    create.one.drive,
                    |store| async move { Ok(store.create(create.one.chunk, create.stream).await?) },
                )
            }
            Self::Append(append) => append.run(),
            Self::Get(get) => get.run(),
            Self::Seal(one) => with_store(one.drive, |store| async move {
                say!("{}", store.seal(one.chunk).await?);
                Ok(())
            }),
            Self::Rm(rm) => rm.run(),
            Self::Ls(store) => store.list(),
            Self::Stat(stat) => stat.run(),
            Self::Gc(gc) => gc.run(),
            Self::Check(store) => store.check(),
            Self::AcceptLoss(accept) => accept.run(),
            Self::Dump(store) => store.dump(),
        }
    }
}

impl Format {
    fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let options = FormatOptions { metazones: self.metazones, force: self.force, store: None };
            let open = OpenOptions { force: self.force, keep_open: false, alone: false };
            let device = device::open_with(&self.drive, &rt, open).await?;
            ChunkStore::layout_of(device.geometry(), &options).map_err(|error| named(&self.drive, &error))?;
            let drive = self.drive.display();
            if !self.force {
                device::refuse_shared(&self.drive, &device).await?;
            } else if let Some(data) = device::data_on(&device).await? {
                confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
            }
            let id = ChunkStore::format(&rt, device, &options).await.map_err(|error| named(&self.drive, &error))?;
            say!("{drive}: store {id}");
            Ok(())
        })?
    }
}

impl AcceptLoss {
    fn run(self) -> Outcome {
        let seen = with_store_as(self.drive.clone(), Options::default(), |_, report| async move { Ok(report) })?;
        if !seen.hidden {
            say!("nothing to give up: all that the drive holds could be read");
            return Ok(());
        }
        let what = "These places are given up for good: chunks end, or have holes, there. All else stays.";
        confirm(self.yes, what)?;
        let options = Options { accept_loss: seen.unread, ..Options::default() };
        with_store_as(self.drive, options, |_, report| async move {
            if report.hidden {
                let text = "nothing was given up: a place that was not shown before cannot be read now. Repeat this command to see it, and to \
                            give it up, too";
                return Err(Failure::new(text).with_status(status::DAMAGED));
            }
            let places = if report.accepted { report.damage.len() as u64 } else { 0 };
            say!("{} given up", counted(places, "place"));
            Ok(())
        })
    }
}

impl Append {
    fn run(self) -> Outcome {
        let mut input: Box<dyn Read> = match &self.file {
            Some(path) => Box::new(std::fs::File::open(path).map_err(|error| named(path, &error))?),
            None => Box::new(std::io::stdin().lock()),
        };
        with_store(self.one.drive, |store| async move {
            let id = self.one.chunk;
            let mut size = store.stat(id)?.size;
            if self.offset.is_some_and(|offset| offset != size) {
                return Err(Failure::new(format!("chunk {id} ends at {size}; nothing was appended")));
            }
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                input.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
                if piece.is_empty() {
                    break;
                }
                size = store.append(id, size, vec![Bytes::from(piece)]).await?;
            }
            say!("{size}");
            Ok(())
        })
    }
}

impl Get {
    fn run(self) -> Outcome {
        with_store(self.one.drive, |store| async move {
            let id = self.one.chunk;
            let size = store.stat(id)?.size;
            let end = self.length.map_or(size, |length| self.offset.saturating_add(length));
            // Only now: a wrong name costs no file.
            let output = Output::begin(self.file, &id.to_string(), self.force)?;
            output.copy((self.offset, end), async |at, length| store.read(id, at, length).await).await
        })
    }
}

impl Rm {
    fn run(self) -> Outcome {
        with_store(self.one.drive, |store| async move {
            let id = self.one.chunk;
            let what =
                format!("chunk {id}: {} will be lost, with any objects that lie there", ByteSize(store.stat(id)?.size));
            confirm(self.yes, &what)?;
            Ok(store.delete(id).await?)
        })
    }
}

fn named(path: &Path, error: &dyn Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// Of a drive whose store cannot be looked at.
fn not_opened(path: &Path, error: &dyn Error) -> Failure {
    named(path, error).not_run()
}

fn chunk_json(stat: &ChunkStat) -> serde_json::Value {
    json!({
        "chunk": stat.id.to_string(),
        "stream": stat.stream.name(),
        "size_bytes": stat.size,
        "sealed": stat.sealed,
        "room_bytes": stat.room,
    })
}

fn chunk_line(stat: &ChunkStat) -> String {
    let sealed = if stat.sealed { "sealed" } else { "open" };
    format!("{}  {:<4}  {:<6}  {:>12}", stat.id, stat.stream.name(), sealed, stat.size)
}

impl Store {
    fn list(self) -> Outcome {
        with_store(self.drive, |store| async move {
            let mut after = None;
            let mut rows = Vec::new();
            loop {
                let page = store.list(after, 1000);
                let Some(last) = page.last() else { break };
                after = Some(last.id);
                if self.json {
                    rows.extend(page.iter().map(chunk_json));
                } else {
                    page.iter().for_each(|stat| say!("{}", chunk_line(stat)));
                }
            }
            if self.json {
                say!("{}", json!({ "chunks": rows }));
            }
            Ok(())
        })
    }

    fn check(self) -> Outcome {
        let checked = shingle_runtime::real::run(|rt| async move {
            let device = device::open(&self.drive, &rt).await?;
            let mut progress = Progress::new();
            let report = shingle_chunk_store::check(&rt, device, |done, all| {
                progress.show_part(&format!("{done} of {}", counted(all, "chunk")), 0, done, all);
            });
            report.await.map_err(|error| not_opened(&self.drive, &error))
        });
        let report = checked.map_err(|error| Failure::from(error).not_run())??;
        let lines = |places: &[Damage]| places.iter().map(ToString::to_string).collect::<Vec<String>>();
        let (damage, warnings) = (lines(&report.damage), lines(&report.recovery.mended));
        if self.json {
            say!("{}", json!({ "clean": report.clean, "repaired": 0, "damage": damage, "warnings": warnings }));
        } else {
            say!("{}", report.recovery);
            let chunks = counted(report.chunks as u64, "chunk");
            say!("{} in {chunks} verified", ByteSize(report.verified_bytes));
            warnings.iter().for_each(|line| say!("warning: {line}"));
            damage.iter().for_each(|line| say!("damaged: {line}"));
            say!("{}", if report.clean { "clean" } else { "damage is left: restore these chunks from another copy" });
        }
        if report.clean { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }

    fn dump(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let dump = shingle_chunk_store::dump(&rt, device::open(&self.drive, &rt).await?).await;
            let dump = dump.map_err(|error| not_opened(&self.drive, &error))?;
            let log: Vec<_> = dump
                .log
                .iter()
                .map(|record| {
                    json!({ "zone": record.zone.0, "block": record.block, "position": record.position,
                            "kind": record.kind, "bytes": record.length, "entries": record.entries.len() })
                })
                .collect();
            let zones: Vec<_> = dump
                .zones
                .iter()
                .map(|zone| {
                    json!({ "zone": zone.zone.0, "status": format!("{:?}", zone.status).to_lowercase(),
                            "stream": zone.stream.name(), "landing": zone.landing, "epoch": zone.epoch,
                            "written_bytes": zone.written_bytes, "live_bytes": zone.live_bytes })
                })
                .collect();
            let chunks: Vec<_> = dump
                .chunks
                .iter()
                .map(|chunk| {
                    let records: Vec<_> = chunk
                        .records
                        .iter()
                        .map(|record| {
                            json!({ "offset": record.offset, "bytes": record.length, "zone": record.zone.0,
                                    "block": record.block })
                        })
                        .collect();
                    json!({ "chunk": chunk.id.to_string(), "stream": chunk.stream.name(), "size_bytes": chunk.size,
                            "sealed": chunk.sealed, "birth": chunk.birth, "records": records })
                })
                .collect();
            let layout = json!({ "superzone": dump.layout.superzone.0,
                "metazones": [dump.layout.metazones.start, dump.layout.metazones.end],
                "data_zones": [dump.layout.data_zones.start, dump.layout.data_zones.end] });
            say!(
                "{}",
                json!({ "store": dump.store.to_string(), "layout": layout, "log": log, "zones": zones, "chunks": chunks,
                        "damage": dump.damage })
            );
            if dump.damage.is_none() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
        })?
    }
}

impl Stat {
    fn run(self) -> Outcome {
        with_store(self.drive, |store| async move {
            if let Some(id) = self.chunk {
                let stat = store.stat(id)?;
                say!("{}", if self.json { chunk_json(&stat).to_string() } else { chunk_line(&stat) });
                return Ok(());
            }
            let stat = store.store_stat();
            if self.json {
                let forecast = format!("{:?}", store.forecast());
                say!(
                    "{}",
                    json!({ "store": store.id().to_string(), "capacity_bytes": stat.capacity_bytes,
                            "free_bytes": stat.free_bytes, "garbage_bytes": stat.garbage_bytes,
                            "live_bytes": stat.live_bytes, "chunks": stat.chunks, "forecast": forecast })
                );
            } else {
                say!("store     {}", store.id());
                say!("capacity  {}", ByteSize(stat.capacity_bytes));
                say!("free      {}", ByteSize(stat.free_bytes));
                say!("garbage   {}", ByteSize(stat.garbage_bytes));
                say!("live      {}", ByteSize(stat.live_bytes));
                say!("chunks    {}", stat.chunks);
            }
            Ok(())
        })
    }
}

impl Gc {
    fn run(self) -> Outcome {
        with_store(self.drive, |store| async move {
            let mut progress = Progress::new();
            let report = store
                .gc(self.zones.unwrap_or(u64::MAX), |report| {
                    let zones = counted(report.zones, "zone");
                    progress.show(&format!("{zones} emptied, {} moved", ByteSize(report.moved_bytes)));
                })
                .await?;
            drop(progress);
            if self.json {
                say!(
                    "{}",
                    json!({ "zones": report.zones, "moved_bytes": report.moved_bytes, "damaged": report.damaged })
                );
            } else {
                say!("{} emptied, {} moved", counted(report.zones, "zone"), ByteSize(report.moved_bytes));
            }
            Ok(())
        })
    }
}
