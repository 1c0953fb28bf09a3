//! Answers to commands, as Python's values.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_translation::{Control, ControlShape, Event, Extent, VolumeStats, ZoneName, ZoneUse, ZoneView};

use crate::command::Name;

/// An extent, and the zone that holds it.
type Placed = (u64, u64, Option<Name>);

/// An answer to a command.
#[derive(Debug)]
pub(crate) enum Answer {
    None,
    Event(Event),
    Shape(ControlShape),
    Stats(VolumeStats),
    Zones(Vec<ZoneView>),
    Extents(Vec<Placed>, Option<u64>),
    Windows(Vec<Vec<(u64, u64)>>),
    Zone(ZoneName),
    Number(u64),
    Seconds(f64),
    Bytes(Vec<u8>),
}

fn name(zone: ZoneName) -> Name {
    (zone.zone.0, zone.generation)
}

/// Python's exception for an error of the volume.
pub(crate) fn exception(error: &StoreError) -> PyErr {
    let text = error.to_string();
    match error.kind {
        StoreErrorKind::Invalid => PyValueError::new_err(text),
        StoreErrorKind::NoSpace | StoreErrorKind::Device | StoreErrorKind::Corrupt => PyOSError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

impl Answer {
    /// The answer to a command that has none.
    pub(crate) fn none(done: StoreResult<()>) -> StoreResult<Self> {
        done.map(|()| Self::None)
    }

    /// Extents with their zones.
    pub(crate) fn placed(control: &Control, extents: Vec<Extent>) -> Vec<Placed> {
        let placed = |extent: Extent| (extent.lba, extent.end(), control.zone_of(extent.place).map(name));
        extents.into_iter().map(placed).collect()
    }

    /// Python's value.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::None => py.None(),
            Self::Event(event) => {
                let word = match event {
                    Event::Room => "room",
                    Event::Timer => "timer",
                    Event::Closing => "closing",
                };
                word.into_pyobject(py)?.into_any().unbind()
            }
            Self::Shape(shape) => shape_of(py, &shape)?.into_any().unbind(),
            Self::Stats(stats) => stats_of(py, &stats)?.into_any().unbind(),
            Self::Zones(zones) => {
                let zones: Vec<_> = zones.iter().map(|zone| zone_of(py, zone)).collect::<PyResult<_>>()?;
                PyList::new(py, zones)?.into_any().unbind()
            }
            Self::Extents(extents, next) => (extents, next).into_pyobject(py)?.into_any().unbind(),
            Self::Windows(windows) => windows.into_pyobject(py)?.into_any().unbind(),
            Self::Zone(zone) => name(zone).into_pyobject(py)?.into_any().unbind(),
            Self::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
            Self::Seconds(seconds) => seconds.into_pyobject(py)?.into_any().unbind(),
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
        })
    }
}

fn shape_of<'py>(py: Python<'py>, shape: &ControlShape) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sectors", shape.sectors)?;
    dict.set_item("sector_bytes", shape.sector_bytes)?;
    dict.set_item("zones", shape.zones)?;
    dict.set_item("zone_sectors", shape.zone_sectors)?;
    dict.set_item("zone_sectors_scattered", shape.zone_sectors_scattered)?;
    dict.set_item("zone_blocks", shape.zone_blocks)?;
    Ok(dict)
}

/// Counters of a volume, by name.
pub(crate) fn stats_of<'py>(py: Python<'py>, stats: &VolumeStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let counters = &stats.counters;
    for (name, value) in [
        ("sectors_written", counters.sectors_written),
        ("sectors_read", counters.sectors_read),
        ("sectors_copied", counters.sectors_copied),
        ("blocks_written", counters.blocks_written),
        ("blocks_copied", counters.blocks_copied),
        ("pairs", counters.pairs),
        ("cleaned", counters.cleaned),
        ("extents_joined", counters.extents_joined),
        ("freed", counters.freed),
        ("checkpoints", counters.checkpoints),
        ("sectors_mapped", stats.sectors_mapped),
        ("extents", stats.extents),
        ("map_bytes", stats.map_bytes),
        ("zones", stats.zones.into()),
        ("zones_free", stats.zones_free.into()),
        ("zones_broken", stats.zones_broken.into()),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

fn zone_of<'py>(py: Python<'py>, zone: &ZoneView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", name(zone.name))?;
    dict.set_item(
        "used",
        match zone.used {
            ZoneUse::Free => "free",
            ZoneUse::Writes => "writes",
            ZoneUse::Copies => "copies",
            ZoneUse::Written => "written",
            ZoneUse::Copied => "copied",
            ZoneUse::Dead => "dead",
        },
    )?;
    dict.set_item("kept", zone.kept)?;
    dict.set_item("live", zone.live)?;
    dict.set_item("blocks", zone.blocks)?;
    dict.set_item("age", zone.age)?;
    dict.set_item("run", zone.run)?;
    dict.set_item("stuck", zone.stuck)?;
    Ok(dict)
}
