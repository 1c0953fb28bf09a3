//! `shingle bench`: figures of this machine, each beside its limit, measured in the same process.

mod array;
pub(crate) mod chunk;
mod device;
mod figure;
mod limit;
mod map;
mod rocksdb;
mod s3;
mod simulator;
mod volume;

use clap::{Args, ValueEnum};
use serde_json::json;

use self::figure::{Figure, round};
use crate::failure::{Failure, Outcome};

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Appends of 1 MiB, 16 outstanding, 128 chunks, on a memory device that drops payload.
    ChunkAppend,
    /// Verified random reads of 4 KiB.
    ChunkRead,
    /// An append that finds no zone, a step of GC and `stat` on a nearly full drive of 75,000 zones.
    ChunkGc,
    /// An object put into an array of 10+2, in fragments of 1 MiB.
    ArrayPut,
    /// An object read from an array of 10+2, with all drives and with one lost.
    ArrayGet,
    /// A lost drive of an array of 10+2, rebuilt on a new one.
    ArrayRebuild,
    /// PUT and GET of 4 KiB, 64 KiB and 1 MiB over loopback, 8 clients: rate, and the server's processor time of a request.
    S3,
    /// PUT of 1 MiB objects to one and to many modelled drives, in virtual time: the rate of each, and how evenly they
    /// fill.
    S3Drives,
    /// Device commands through the simulator: writes in sequence, reads anywhere, and both.
    Simulator,
    /// The extent map of translation layers beside a `BTreeMap`: lookups, inserts and changes at random, and bytes an extent.
    Map,
    /// A volume in memory over NBD beside nbdkit's memory plugin: 1 MiB in sequence and 4 KiB at random, 32 requests at a time; and the
    /// processor time of opening one of a million extents.
    Volume,
    /// RocksDB's db_bench on an emulated drive in a file, beside the file system that holds the file: five loads, and synchronous writes.
    Rocksdb,
    /// Writes of 1 MiB in sequence and random reads of 4 KiB through the device layer, beside fio's io_uring engine.
    Device,
}

/// Measures one thing: `shingle bench chunk-append --json`
#[derive(Args)]
pub(crate) struct Bench {
    /// The benchmark.
    #[arg(value_enum, value_name = "NAME")]
    name: Name,
    /// Print one JSON object as the last line.
    #[arg(long)]
    json: bool,
    /// For `s3-drives`: the numbers of drives [default: 1,2,4,8,16,60].
    #[arg(long, value_name = "COUNT", value_delimiter = ',')]
    drives: Vec<usize>,
    /// For `map`: the number of extents [default: 10000000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    extents: Option<u64>,
    #[command(flatten)]
    place: device::Where,
}

impl Bench {
    pub(crate) fn run(self) -> Outcome {
        if self.place.device().is_some() && !matches!(self.name, Name::Device) {
            return Err(Failure::new("--device is for `shingle bench device`"));
        }
        if self.place.directory().is_some() && !matches!(self.name, Name::Device | Name::Rocksdb) {
            return Err(Failure::new("--dir is for `shingle bench device` and `shingle bench rocksdb`"));
        }
        if !self.drives.is_empty() && !matches!(self.name, Name::S3Drives) {
            return Err(Failure::new("--drives is for `shingle bench s3-drives`"));
        }
        if self.extents.is_some() && !matches!(self.name, Name::Map) {
            return Err(Failure::new("--extents is for `shingle bench map`"));
        }
        let (name, figures) = match self.name {
            Name::S3Drives => {
                let drives = if self.drives.is_empty() { &s3::drives::DRIVES[..] } else { &self.drives };
                return s3::drives::run(drives, self.json);
            }
            Name::ChunkAppend => ("chunk-append", chunk::append::run()?),
            Name::ChunkRead => ("chunk-read", chunk::read::run()?),
            Name::ChunkGc => ("chunk-gc", chunk::gc::run()?),
            Name::ArrayPut => ("array-put", array::put()?),
            Name::ArrayGet => ("array-get", array::get()?),
            Name::ArrayRebuild => ("array-rebuild", array::rebuild()?),
            Name::S3 => ("s3", s3::run()?),
            Name::Simulator => ("simulator", simulator::run()?),
            Name::Map => ("map", map::run(self.extents.unwrap_or(map::EXTENTS))?),
            Name::Volume => ("volume", volume::run()?),
            Name::Rocksdb => ("rocksdb", rocksdb::run(self.place.directory())?),
            Name::Device => ("device", device::run(&self.place)?),
        };
        for figure in &figures {
            say!(
                "{name} {}: {:.4} {} of at most {:.4}, ratio {:.3}",
                figure.id,
                round(figure.value),
                figure.unit,
                round(figure.limit),
                figure.value / figure.limit
            );
        }
        if self.json {
            let mut object = figures.first().map(Figure::json).unwrap_or_default();
            object["bench"] = json!(name);
            if figures.len() > 1 {
                object["figures"] = figures.iter().map(Figure::json).collect();
            }
            say!("{object}");
        }
        Ok(())
    }
}
