//! `shingle skylight`: what a drive is inside, told from the times of its commands.

mod state;
mod target;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde::Serialize;
use shingle_skylight::report::Report;
use shingle_skylight::{Findings, Halt, Nanos, SCHEMA, Session, Step, Watch, emit, survey};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Progress};

/// Exit status of a survey that Ctrl-C stopped: what shells report for it.
const INTERRUPTED: u8 = 130;

/// Columns of a report that no terminal shows.
const COLUMNS: usize = 100;

const LONG: &str = "\
A real drive is only read, unless --destroy names the same path again: all that it holds is lost then. A drive that is mounted, or \
that other devices are made of, is refused even so. Reads alone tell turn, seeks and rates, and not whether the drive is shingled.

Ctrl-C stops the survey. With --state the same command goes on behind the last step that ended; a state of another drive is refused.

Steps: turn, arm, rates, type, location, cleaning, journal, bands, mapping, size, streaming, torn.

Exit status: 0 the survey has ended (also where it cannot tell), 1 it could not, 130 it was stopped.";

/// Tells what a drive is inside: shingled or not, its cache, cleaning, bands and mapping.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Skylight {
    /// A block device, a file, or model:PROFILE for a modelled drive: a profile file or the name of a built-in profile.
    #[arg(value_name = "TARGET")]
    target: String,
    /// Write to the target, which loses all that it holds: the same path again [default: it is only read].
    #[arg(long, value_name = "TARGET")]
    destroy: Option<PathBuf>,
    /// Keep the findings in this file after each step, and go on from it [default: a stopped survey is lost].
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Leave this step out, and what needs it; may be repeated [default: all steps].
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Write the profile of a modelled drive with the same times [default: none].
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Draw the dissertation's figures of the drive into this folder [default: none].
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Seed of the places that are read and written.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Findings, as programs read them.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    target: &'a str,
    writable: bool,
    report: &'a Report,
    findings: &'a Findings,
}

/// Watcher of a survey: shows progress, and stops it on Ctrl-C.
struct Watcher {
    stop: Arc<AtomicBool>,
    line: Progress,
    view: Rc<Cell<View>>,
    modelled: bool,
}

/// The step at work.
#[derive(Clone, Copy, Default)]
struct View {
    /// Its number, its words, and the expected minutes of it and of those behind it.
    step: Option<(usize, &'static str, f64, f64)>,
    /// The drive's time at its beginning, once it is known.
    began: Option<Nanos>,
}

impl Watch for Watcher {
    fn stops(&mut self, now: Nanos) -> bool {
        let mut view = self.view.get();
        let began = *view.began.get_or_insert(now);
        self.view.set(view);
        if let Some((number, words, minutes, behind)) = view.step {
            let done = (now - began) as f64 / 60e9;
            let left = output::time(((minutes - done).max(0.0) + behind) * 60.0);
            let share = (done / minutes * 100.0).min(99.0);
            let of = if self.modelled { " of the drive's time" } else { "" };
            self.line
                .show(&format!("step {number} of {}: {words}, {share:.0} %, about {left}{of} left", Step::ALL.len()));
        }
        self.stop.load(Ordering::Relaxed)
    }
}

impl Skylight {
    pub(crate) fn run(self) -> Outcome {
        let steps = self.steps()?;
        let target::Opened { mut target, name, identity, lost, modelled } =
            target::open(&self.target, self.destroy.as_deref(), self.seed)?;
        let writable = target.is_writable();
        let fresh = || Findings::new(&name, target.blocks(), self.seed);
        let kept = self.state.as_deref().map(|path| state::load(path, &identity)).transpose()?.flatten();
        let resumed = kept.is_some();
        let mut findings = kept.unwrap_or_else(fresh);
        if let Some(lost) = lost {
            note!("shingle: {} is overwritten: it loses {lost}", self.target);
        }
        announce(&findings, &steps, writable, modelled, resumed);
        let view = Rc::new(Cell::new(View::default()));
        let mut watcher = Watcher { stop: on_interrupt()?, line: Progress::new(), view: view.clone(), modelled };
        let begins = |step: Step| {
            let at = steps.iter().position(|other| *other == step).unwrap_or(0);
            let behind = steps[at + 1..].iter().map(|step| step.words().1).sum();
            let number = Step::ALL.iter().position(|other| *other == step).unwrap_or(0) + 1;
            let (words, minutes) = step.words();
            view.set(View { step: Some((number, words, minutes, behind)), began: None });
        };
        let mut saved = Ok(());
        let ended = |findings: &Findings| {
            if let Some(path) = &self.state
                && saved.is_ok()
            {
                saved = state::save(path, &identity, findings);
            }
        };
        let done = Session::new(target.as_mut(), &mut watcher, self.seed)
            .and_then(|mut session| survey(&mut session, &mut findings, &steps, begins, ended));
        drop(watcher);
        saved?;
        match done {
            Ok(()) => self.tell(&findings, writable),
            Err(Halt::Stopped) => {
                let on = match &self.state {
                    Some(_) => "the same command goes on behind the last step that ended",
                    None => "with --state FILE it could have gone on later",
                };
                Err(Failure::new(format!("stopped: {on}")).with_status(INTERRUPTED))
            }
            Err(Halt::Target(error)) => Err(Failure::new(format!("{}: {error}", self.target))),
        }
    }

    /// The steps that are asked for.
    fn steps(&self) -> Outcome<Vec<Step>> {
        if let Some(unknown) = self.skip.iter().find(|name| Step::ALL.iter().all(|step| step.name() != name.as_str())) {
            let names: Vec<_> = Step::ALL.iter().map(|step| step.name()).collect();
            return Err(Failure::new(format!("there is no step `{unknown}`; there are {}", names.join(", "))));
        }
        Ok(Step::ALL.into_iter().filter(|step| self.skip.iter().all(|name| name != step.name())).collect())
    }

    fn tell(&self, findings: &Findings, writable: bool) -> Outcome {
        let report = Report::of(findings, writable);
        if let Some(path) = &self.profile {
            let profile = emit::profile(findings, &stem(path))
                .map_err(|reason| Failure::new(format!("there is no profile of this drive: {reason}")))?;
            let text = emit::toml_of(&profile).map_err(Failure::new)?;
            std::fs::write(path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        if let Some(folder) = &self.figures {
            std::fs::create_dir_all(folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
            for figure in shingle_lab::skylight::figures(findings) {
                figure.write(folder)?;
            }
        }
        if self.json {
            let json = Json { schema: SCHEMA, target: &self.target, writable, report: &report, findings };
            return output::print(&format!("{}\n", serde_json::to_string(&json)?));
        }
        let columns = output::terminal_size().map_or(COLUMNS, |(columns, _)| columns.clamp(40, COLUMNS));
        output::print(&report.text(columns))
    }
}

/// Name of a profile in the file at `path`.
fn stem(path: &std::path::Path) -> String {
    path.file_stem().map_or_else(|| "emitted".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Says how long it will take.
fn announce(findings: &Findings, steps: &[Step], writable: bool, modelled: bool, resumed: bool) {
    let left: Vec<Step> = steps.iter().copied().filter(|step| !step.is_done(findings, writable)).collect();
    let minutes = |steps: &[Step]| output::time(steps.iter().map(|step| step.words().1 * 60.0).sum());
    if resumed {
        note!("shingle: goes on with {} of {} steps left", left.len(), steps.len());
    }
    if modelled {
        return;
    }
    if !writable {
        note!(
            "shingle: reads only, about {}; without writes nobody can tell whether the drive is shingled",
            minutes(&left)
        );
        return;
    }
    // Steps behind the type count, since it is not known yet that they do not apply.
    let left = if findings.drive_type.is_none() { steps.to_vec() } else { left };
    let first: Vec<Step> = left.iter().copied().filter(|step| *step as usize <= Step::DriveType as usize).collect();
    note!(
        "shingle: about {} until it is known whether the drive is shingled; if it is, all takes about {} and the time in which the drive \
         cleans its full cache, up to a day for each of several fills (`--skip size` leaves these out)",
        minutes(&first),
        minutes(&left)
    );
}

/// A flag that Ctrl-C sets; a second one ends the program at once.
fn on_interrupt() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The signal is taken from now on, not only once the thread runs.
    let mut signals = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                if flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
            }
        });
    })?;
    Ok(stop)
}
