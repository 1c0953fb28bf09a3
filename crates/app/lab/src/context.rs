//! Inputs of an experiment: seed, size of the run, and parts of the user's own.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use shingle_drive_model::{Jitter, Profile};

use crate::calls::record::Recording;
use crate::change::Change;
use crate::error::LabError;
use crate::inputs::{Inputs, Program};
use crate::known::Known;
use crate::load::replay::Pace;
use crate::rig::host::Host;
use crate::trace::io::Source;

/// Size of a run. A smaller scale has fewer zones and less virtual time, never another load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds: for the tests.
    Quick,
    /// Minutes: for the report by default.
    Standard,
    /// The paper's own size.
    Full,
}

impl Scale {
    /// One of three values, by scale.
    pub fn pick<T>(self, quick: T, standard: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Standard => standard,
            Self::Full => full,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("quick", "standard", "full"))
    }
}

impl FromStr for Scale {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Quick, Self::Standard, Self::Full]
            .into_iter()
            .find(|scale| scale.to_string() == text)
            .ok_or_else(|| format!("`{text}` is no scale: quick, standard or full"))
    }
}

/// Deviations of drives of one batch, where the profile has none.
pub(crate) const BATCH: Jitter = Jitter { seed: 0, spindle_ppm: 200, wander_us: 5, completion_us: 2.0 };

/// Gets the present step, and the share of it that is done if known.
pub type Told = Rc<dyn Fn(&str, Option<f64>)>;

/// A block trace of the user's own.
#[derive(Clone)]
pub struct BlockTrace {
    /// Its I/Os.
    pub source: Arc<dyn Source>,
    /// Its pace; `None`: several.
    pub pace: Option<Pace>,
}

/// Inputs of an experiment.
pub struct Context {
    /// Decides everything that is random.
    pub seed: u64,
    /// Size of the run.
    pub scale: Scale,
    /// Gets the present step, and the share of it that is done if known.
    pub progress: Told,
    /// A drive of the user's own: `calibrate` measures it too, other experiments run on it in place of the paper's
    /// shingled one.
    pub drive: Option<Profile>,
    /// A folder with recordings of file systems, instead of those that are built in (`peers-replay`).
    pub traces: Option<PathBuf>,
    /// A block trace of the user's own, in place of generated loads (`block-replay`).
    pub block_trace: Option<BlockTrace>,
    /// A recording of file calls of the user's own, in place of the built-in one (`rocksdb-hmsmr`).
    pub call_trace: Option<Arc<Recording>>,
    /// Tries every value of an input that a paper does not give; else the first one alone.
    pub every_input: bool,
    /// The program that makes the runs.
    pub program: Program,
    /// Suppositions about the drives, beside their profiles.
    pub(crate) change: Change,
    /// Inputs that the present run used so far.
    pub(crate) inputs: RefCell<Inputs>,
    /// Multi-stream runs that were done already: several experiments use the same ones.
    pub(crate) known: Arc<Known>,
}

impl Context {
    /// A context in which nothing has been run, on the papers' drives.
    pub fn new(seed: u64, scale: Scale, progress: Told) -> Self {
        let (program, inputs, known) = (Program::default(), RefCell::default(), Arc::default());
        let (drive, traces, block_trace, call_trace, change) = (None, None, None, None, Change::default());
        let every_input = true;
        Self {
            seed,
            scale,
            progress,
            drive,
            traces,
            block_trace,
            call_trace,
            every_input,
            program,
            change,
            inputs,
            known,
        }
    }

    /// The same on a drive of the user's own.
    #[must_use]
    pub fn on_drive(self, drive: Option<Profile>) -> Self {
        Self { drive, ..self }
    }

    /// The built-in profile of that name, for this run.
    ///
    /// # Errors
    /// There is none.
    pub fn profile(&self, name: &str) -> Result<Profile, LabError> {
        Ok(self.used(Profile::named(name).map_err(|error| LabError(error.0))?))
    }

    /// A profile as the run changes it, of a drive that no row is of, so that no verdict depends on what nobody knows of it.
    pub(crate) fn shown(&self, profile: Profile) -> Profile {
        self.without_verdicts(|| self.used(profile))
    }

    /// A profile, which this run uses, as the run changes it; one drive of a batch, by the seed.
    pub(crate) fn used(&self, mut profile: Profile) -> Profile {
        self.inputs.borrow_mut().assume(&profile);
        self.change.make(&mut profile);
        self.drawn(profile)
    }

    /// The twin of a drive, both as the run changes them.
    pub(crate) fn twin(&self, drive: &Profile, twin: impl Fn(&Profile) -> Profile) -> Profile {
        self.inputs.borrow_mut().assume(drive);
        self.inputs.borrow_mut().assume(&Profile { published: drive.published.clone(), ..twin(drive) });
        self.drawn(self.change.make_twin(drive, twin))
    }

    /// Notes the profile, and draws a drive of it.
    fn drawn(&self, profile: Profile) -> Profile {
        self.inputs.borrow_mut().drive(&profile);
        let jitter = profile.jitter.unwrap_or(BATCH);
        Profile { jitter: Some(Jitter { seed: self.seed, ..jitter }), ..profile }
    }

    /// Makes a drive that takes no time in this run, so that it has no turns to lose, and no constants.
    pub(crate) fn untimed<T>(&self, drive: impl FnOnce() -> T) -> T {
        self.without_verdicts(drive)
    }

    /// Makes a drive that no row is of.
    pub(crate) fn without_verdicts<T>(&self, drive: impl FnOnce() -> T) -> T {
        let (may_lose_turns, assumed) = {
            let inputs = self.inputs.borrow();
            (inputs.may_lose_turns, inputs.assumed.clone())
        };
        let drive = drive();
        let mut inputs = self.inputs.borrow_mut();
        (inputs.may_lose_turns, inputs.assumed) = (may_lose_turns, assumed);
        drive
    }

    /// Notes that this run has stores on `host`.
    pub(crate) fn on_host(&self, host: Host) {
        self.inputs.borrow_mut().host(host);
    }

    /// Notes a configuration of this run.
    pub(crate) fn with_options(&self, name: &str, options: &dyn fmt::Debug) {
        self.inputs.borrow_mut().options(name, options);
    }

    /// The same, made by that program.
    #[must_use]
    pub fn made_by(self, program: Program) -> Self {
        Self { program, ..self }
    }

    /// The same with a block trace of the user's own.
    #[must_use]
    pub fn with_block_trace(self, block_trace: Option<BlockTrace>) -> Self {
        Self { block_trace, ..self }
    }

    /// The same with a recording of file calls of the user's own.
    #[must_use]
    pub fn with_call_trace(self, call_trace: Option<Arc<Recording>>) -> Self {
        Self { call_trace, ..self }
    }

    /// The same with recordings of the user's own.
    #[must_use]
    pub fn with_traces(self, traces: Option<PathBuf>) -> Self {
        Self { traces, ..self }
    }
}
