//! Commands that a policy yields.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shingle_base::ZoneId;
use shingle_store_api::StoreResult;
use shingle_translation::{Control, Extent, Route, ZoneName};

use crate::answer::Answer;

/// Sectors or zones as a policy names them.
type Ranges = Vec<(u64, u64)>;

/// A name of a zone: its number and its generation.
pub(crate) type Name = (u32, u64);

/// A command.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Wait(Duration),
    Sleep(Duration),
    Shape,
    Stats,
    Zones,
    Extents(u64, usize),
    LivingIn(ZoneName),
    IdleFor,
    Room,
    Saved,
    Feed(ZoneName),
    Take,
    Copy { ranges: Vec<Range<u64>>, from: Option<ZoneName>, taken: bool },
    Checkpoint,
    LowWater(u64),
    Pace(u64),
    WantFree(u32),
    Reclaim,
    Route(Route),
    Save(Vec<u8>),
}

/// A command of a policy, to be yielded. Made by the functions of `shingle.control`.
#[pyclass(frozen, module = "shingle._native")]
#[derive(Clone)]
pub(crate) struct Command(pub(crate) Wanted);

fn name((zone, generation): Name) -> ZoneName {
    ZoneName { zone: ZoneId(zone), generation }
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl Command {
    #[staticmethod]
    fn wait(time: f64) -> PyResult<Self> {
        Ok(Self(Wanted::Wait(seconds(time)?)))
    }

    #[staticmethod]
    fn sleep(time: f64) -> PyResult<Self> {
        Ok(Self(Wanted::Sleep(seconds(time)?)))
    }

    #[staticmethod]
    fn shape() -> Self {
        Self(Wanted::Shape)
    }

    #[staticmethod]
    fn stats() -> Self {
        Self(Wanted::Stats)
    }

    #[staticmethod]
    fn zones() -> Self {
        Self(Wanted::Zones)
    }

    #[staticmethod]
    #[pyo3(signature = (start = 0, most = 65_536))]
    fn extents(start: u64, most: usize) -> Self {
        Self(Wanted::Extents(start, most))
    }

    #[staticmethod]
    fn living_in(zone: Name) -> Self {
        Self(Wanted::LivingIn(name(zone)))
    }

    #[staticmethod]
    fn idle_for() -> Self {
        Self(Wanted::IdleFor)
    }

    #[staticmethod]
    fn room() -> Self {
        Self(Wanted::Room)
    }

    #[staticmethod]
    fn saved() -> Self {
        Self(Wanted::Saved)
    }

    #[staticmethod]
    fn feed(zone: Name) -> Self {
        Self(Wanted::Feed(name(zone)))
    }

    #[staticmethod]
    fn take() -> Self {
        Self(Wanted::Take)
    }

    #[staticmethod]
    #[pyo3(signature = (ranges, source = None, taken = false))]
    fn copy(ranges: Ranges, source: Option<Name>, taken: bool) -> Self {
        let ranges = ranges.into_iter().map(|(start, end)| start..end).collect();
        Self(Wanted::Copy { ranges, from: source.map(name), taken })
    }

    #[staticmethod]
    fn checkpoint() -> Self {
        Self(Wanted::Checkpoint)
    }

    #[staticmethod]
    fn low_water(blocks: u64) -> Self {
        Self(Wanted::LowWater(blocks))
    }

    #[staticmethod]
    fn pace(sectors: u64) -> Self {
        Self(Wanted::Pace(sectors))
    }

    #[staticmethod]
    fn want_free(zones: u32) -> Self {
        Self(Wanted::WantFree(zones))
    }

    #[staticmethod]
    fn reclaim() -> Self {
        Self(Wanted::Reclaim)
    }

    #[staticmethod]
    fn route_single() -> Self {
        Self(Wanted::Route(Route::Single))
    }

    #[staticmethod]
    fn route_heat(young: u32) -> Self {
        Self(Wanted::Route(Route::Heat { young }))
    }

    #[staticmethod]
    #[pyo3(signature = (sectors, align = 0))]
    fn route_sequential(sectors: u32, align: u64) -> Self {
        Self(Wanted::Route(Route::Sequential { sectors, align }))
    }

    #[staticmethod]
    fn save(bytes: Vec<u8>) -> Self {
        Self(Wanted::Save(bytes))
    }

    fn __repr__(&self) -> String {
        format!("Command({:?})", self.0)
    }
}

impl Wanted {
    /// Does the command.
    pub(crate) async fn run(self, control: &Control) -> StoreResult<Answer> {
        Ok(match self {
            Self::Wait(time) => Answer::Event(control.wait(time).await),
            Self::Sleep(time) => {
                control.sleep(time).await;
                Answer::None
            }
            Self::Shape => Answer::Shape(control.shape()),
            Self::Stats => Answer::Stats(control.stats()),
            Self::Zones => Answer::Zones(control.zones()),
            Self::Extents(from, most) => {
                let (extents, next) = control.extents(from, most);
                Answer::Extents(Answer::placed(control, extents), next)
            }
            Self::LivingIn(zone) => {
                let windows = control.living_in(zone).await?;
                let ranges = |window: &Vec<Extent>| window.iter().map(|extent| (extent.lba, extent.end())).collect();
                Answer::Windows(windows.iter().map(ranges).collect())
            }
            Self::IdleFor => Answer::Seconds(control.idle_for().as_secs_f64()),
            Self::Room => Answer::Number(control.room()),
            Self::Saved => Answer::Bytes(control.saved().to_vec()),
            Self::Feed(zone) => Answer::none(control.feed(zone))?,
            Self::Take => Answer::Zone(control.take().await?),
            Self::Copy { ranges, from, taken: false } => Answer::Number(control.copy(&ranges, from).await?.sectors),
            Self::Copy { ranges, from, taken: true } => {
                Answer::Number(control.copy_to_taken(&ranges, from).await?.sectors)
            }
            Self::Checkpoint => Answer::none(control.checkpoint().await)?,
            Self::LowWater(blocks) => {
                control.low_water(blocks);
                Answer::None
            }
            Self::Pace(sectors) => {
                control.pace(sectors);
                Answer::None
            }
            Self::WantFree(zones) => {
                control.want_free(zones);
                Answer::None
            }
            Self::Reclaim => {
                control.reclaim();
                Answer::None
            }
            Self::Route(route) => {
                control.route(route);
                Answer::None
            }
            Self::Save(bytes) => Answer::none(control.save(Bytes::from(bytes)))?,
        })
    }
}
