//! Volumes on modelled drives, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shingle_base::Blocks;
use shingle_drive_model::{Drive, Kind, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability, StoreResult};
use shingle_translation::{FormatOptions, Options, Volume, VolumeStats};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::answer::{exception, stats_of};
use crate::policy::{Cleaner, run_here};

/// Blocks of a MiB.
const MIB: u64 = 256;

/// Bytes of a read or write, at most: as in block traces. Memory is taken for it before the volume sees it.
const LENGTH_MAX: u64 = 1 << 30;

/// Bytes of zeros that writes share: a modelled drive keeps no data.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// An operation of a trace.
#[derive(Clone, Copy)]
struct Call {
    kind: Kinds,
    offset: u64,
    length: u64,
}

#[derive(Clone, Copy)]
enum Kinds {
    Read,
    Write,
    Trim,
    Flush,
    Zero,
}

/// Times of a run.
#[derive(Default)]
struct Times {
    /// Seconds from the begin to the end of each call, in the order of their ends.
    ended: Vec<f64>,
    /// Seconds that each of them took.
    took: Vec<f64>,
}

/// Replays a trace on a volume on a modelled drive, in virtual time.
///
/// `policy` is a function that returns a generator, or a native layer's name such as "tl1" or "tl2:greedy", or None for the volume's own cleaner. `trace` has tuples of "r", "w", "t", "f" or "z" (read, write, trim,
/// flush, zeros), first byte and number of bytes, at most 2^30 of a read or write. `depth` calls are under way at once. The same arguments give the same result.
#[pyfunction]
#[pyo3(signature = (policy, trace, *, drive = "st20000nm001j", zones = 100, size = None, depth = 1, seed = 1, sector = 4096))]
#[expect(clippy::too_many_arguments, reason = "they are named where it is called")]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    policy: Option<Py<PyAny>>,
    trace: Vec<(String, u64, u64)>,
    drive: &str,
    zones: u32,
    size: Option<u64>,
    depth: usize,
    seed: u64,
    sector: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let calls =
        trace.into_iter().map(|(kind, offset, length)| call(&kind, offset, length)).collect::<PyResult<Vec<_>>>()?;
    let cleaner = Cleaner::of(py, policy)?;
    let profile = Profile::named(drive).map_err(|error| PyValueError::new_err(error.0))?;
    if profile.kind != Kind::HmSmr {
        return Err(PyValueError::new_err(format!("{drive} is no host-managed shingled drive")));
    }
    let options = FormatOptions { size_bytes: size, sector_bytes: sector, ..FormatOptions::default() };
    let ran = Sim::new(seed).run(move |rt| run(rt, profile, zones, options, cleaner, calls, depth.max(1)));
    let (times, stats) = ran.map_err(|error| match error {
        Failed::Volume(error) => exception(&error),
        Failed::Policy(error) => error,
    })?;
    let result = PyDict::new(py);
    result.set_item("seconds", times.ended.last().copied().unwrap_or(0.0))?;
    result.set_item("ended", times.ended)?;
    result.set_item("took", times.took)?;
    result.set_item("write_amplification", stats.counters.write_amplification(sector))?;
    result.set_item("stats", stats_of(py, &stats)?)?;
    Ok(result)
}

enum Failed {
    Volume(shingle_store_api::StoreError),
    Policy(PyErr),
}

impl From<shingle_store_api::StoreError> for Failed {
    fn from(error: shingle_store_api::StoreError) -> Self {
        Self::Volume(error)
    }
}

fn call(kind: &str, offset: u64, length: u64) -> PyResult<Call> {
    let kind = match kind {
        "r" => Kinds::Read,
        "w" => Kinds::Write,
        "t" => Kinds::Trim,
        "f" => Kinds::Flush,
        "z" => Kinds::Zero,
        other => {
            return Err(PyValueError::new_err(format!(
                "a trace has \"r\", \"w\", \"t\", \"f\" and \"z\", and not {other:?}"
            )));
        }
    };
    if matches!(kind, Kinds::Read | Kinds::Write) && length > LENGTH_MAX {
        return Err(PyValueError::new_err(format!("a read or write has at most {LENGTH_MAX} bytes, and not {length}")));
    }
    Ok(Call { kind, offset, length })
}

async fn run(
    rt: Runtime,
    profile: Profile,
    zones: u32,
    options: FormatOptions,
    cleaner: Cleaner,
    calls: Vec<Call>,
    depth: usize,
) -> Result<(Times, VolumeStats), Failed> {
    let (zone, open) = (Blocks(u64::from(profile.shape.zone_mib) * MIB), profile.shape.open_zones_max.unwrap_or(128));
    let geometry = Geometry { keeps_payload: false, ..Geometry::hm_smr(zone, zones.max(1), 0, open) };
    let medium = MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata);
    let device = SimDevice::without_power_cuts(&rt, medium);
    device.set_drive(Drive::new(&profile, 1));
    let device = Rc::new(device);
    Volume::format(&rt, device.clone(), options).await?;
    let (volume, _) = Volume::open(&rt, device, Options::default()).await?;
    let failed = Rc::new(RefCell::new(None));
    match cleaner {
        Cleaner::Native(layer) => layer.begin(&rt, &volume),
        Cleaner::Python(generator) => {
            let (control, failed) = (volume.control(), failed.clone());
            rt.spawn_detached(async move {
                *failed.borrow_mut() = run_here(control, generator).await.err();
            });
        }
    }
    let times = Rc::new(RefCell::new(Times::default()));
    let began = rt.now();
    let mut running = stream::iter(calls).map(|call| timed(&rt, &volume, call, &times, began)).buffer_unordered(depth);
    while let Some(done) = running.next().await {
        done?;
    }
    drop(running);
    let stats = volume.stats();
    volume.close().await?;
    let failed = failed.borrow_mut().take();
    failed.map_or_else(|| Ok((times.take(), stats)), |error| Err(Failed::Policy(error)))
}

async fn timed(
    rt: &Runtime,
    volume: &Volume,
    call: Call,
    times: &RefCell<Times>,
    began: shingle_runtime::Instant,
) -> StoreResult<()> {
    let at = rt.now();
    match call.kind {
        Kinds::Read => drop(volume.read(call.offset, call.length).await?),
        Kinds::Write => volume.write(call.offset, zeros(call.length), Durability::Cached).await?,
        Kinds::Trim => volume.trim(call.offset, call.length).await?,
        Kinds::Flush => volume.flush().await?,
        Kinds::Zero => volume.write_zeros(call.offset, call.length, Durability::Cached).await?,
    }
    let now = rt.now();
    let mut times = times.borrow_mut();
    times.ended.push(now.since(began).as_secs_f64());
    times.took.push(now.since(at).as_secs_f64());
    Ok(())
}

fn zeros(length: u64) -> Vec<Bytes> {
    let whole = ZEROS.len() as u64;
    let mut pieces = vec![Bytes::from_static(&ZEROS); (length / whole) as usize];
    let rest = (length % whole) as usize;
    pieces.extend((rest > 0).then(|| Bytes::from_static(&ZEROS[..rest])));
    pieces
}
