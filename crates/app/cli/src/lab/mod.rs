//! `shingle lab`: the papers' experiments, on modelled drives in virtual time.

mod pool;
pub(crate) mod program;
mod runner;
mod sweep;
mod trace;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use clap::{Args, Subcommand};
use shingle_chunk_store::Options;
use shingle_lab::calls;
use shingle_lab::calls::record::Recording;
use shingle_lab::context::{BlockTrace, Context, Scale};
use shingle_lab::error::LabError;
use shingle_lab::experiment::{Experiment, Outcome as Found, Runs};
use shingle_lab::experiments::{self, TAKE_CALLS, TAKE_TRACES};
use shingle_lab::load::replay::Pace;
use shingle_lab::report::number::number;
use shingle_lab::report::row::{Better, Row, Verdict};
use shingle_lab::report::{files, page};
use shingle_lab::rig::drives;
use shingle_lab::rig::engine::Setup;
use shingle_lab::runs::plan::Plan;
use shingle_lab::runs::sweep::base;
use shingle_lab::trace::foreign::Format;
use shingle_lab::trace::input::{Input, Selection};
use shingle_lab::trace::looped::Looped;

use crate::bench::chunk::append;
use crate::failure::{Failure, Outcome};
use crate::identity;

/// Repeat the papers' experiments on modelled drives: `shingle lab run micro-write --scale quick`
#[derive(Subcommand)]
pub(crate) enum Lab {
    /// List the experiments, with the question that each one asks.
    List,
    /// Run one experiment, print its figures, and write JSON, CSV and pictures: `shingle lab run calibrate`
    Run(Run),
    /// Run all experiments and write one page with a verdict for each row: `shingle lab report --out lab`
    Report(Report),
    /// Move every assumed constant of the drives by half, down and up, judge the experiments again, and list the verdicts that turn: `shingle
    /// lab sweep`
    Sweep(sweep::SweepOf),
    /// Convert block traces, and tell their figures: `shingle lab trace stat web.csv --format msr`
    #[command(subcommand)]
    Trace(trace::Trace),
}

/// Parameters of a run.
#[derive(Args)]
pub(crate) struct How {
    /// Seed of everything random: the same seed gives the same figures on any machine.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Seeds, from SEED on, of experiments whose load is drawn; medians are shown, and the worst seed is judged [default: 1; 5 for a report
    /// of standard or full scale].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// quick (seconds), standard (minutes) or full (the papers' own sizes).
    #[arg(long, value_name = "SCALE", default_value_t = Scale::Standard)]
    scale: Scale,
    /// Drive to use: a profile file (see docs/drive-profiles.md) or the name of a built-in profile. `calibrate`
    /// measures it too; other experiments run on it in place of the paper's shingled drive [default: the paper's
    /// drive].
    #[arg(long, value_name = "FILE")]
    drive: Option<String>,
    /// Folder with recordings of real file systems, as `make peers` makes them, for `peers-replay` to play [default:
    /// the built-in ones].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// The folder for JSON, CSV, SVG and PNG files.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// Print JSON as the last line.
    #[arg(long)]
    json: bool,
}

/// Runs one experiment.
#[derive(Args)]
pub(crate) struct Run {
    /// Its name; `shingle lab list` shows them.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    replay: Replay,
}

/// A block trace to replay.
#[derive(Args)]
pub(crate) struct Replay {
    /// Block trace for `block-replay`, `stl-replay`, `stl-map-size` or `stl-heat`: a file (docs/formats/block-trace.md), or the name of one that is
    /// built in (`shingle lab trace list`) [default: none, but generated loads]. For `rocksdb-hmsmr` and `rocksdb-zns` a recording of RocksDB's
    /// file calls (docs/formats/file-calls.md) [default: one that is built in]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Its format: shingle, shingle-zoned, msr, vscsi, spc, srt, blkparse or tencent [default: the one that its first bytes name]
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    format: Option<Format>,
    /// The only volume of it to replay [default: all, one behind the other]
    #[arg(long, value_name = "VOLUME", requires = "trace")]
    volume: Option<String>,
    /// Its pace: open (as I/Os arrived), closed (as they waited for each other) or depth:N (N outstanding) [default: open, depth:1 and
    /// depth:31, one after the other]
    #[arg(long, value_name = "PACE", requires = "trace")]
    pace: Option<Pace>,
    /// Number of times to replay it, one behind the other.
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "trace")]
    loops: u32,
}

impl Replay {
    /// The recording of file calls that `--trace` names.
    fn calls(&self) -> Outcome<Option<Arc<Recording>>> {
        let Some(file) = &self.trace else { return Ok(None) };
        if self.format.is_some() || self.volume.is_some() || self.pace.is_some() || self.loops != 1 {
            return Err(Failure::new(
                "--format, --volume, --pace and --loops are for block traces, and this one is of file calls",
            ));
        }
        Ok(Some(Arc::new(calls::read::load(file)?)))
    }

    fn block_trace(&self) -> Outcome<Option<BlockTrace>> {
        let Some(file) = &self.trace else { return Ok(None) };
        // A closed loop is one of dependencies, and a trace of another format has none of its own.
        let mut input = Input::new(file, &Selection { format: self.format, volume: self.volume.clone() })?;
        if self.pace == Some(Pace::Closed) && input.format().gives_times() {
            input = input.inferring();
        }
        let source = Arc::new(Looped::new(Arc::new(input), self.loops));
        Ok(Some(BlockTrace { source, pace: self.pace }))
    }
}

/// Runs all experiments.
#[derive(Args)]
pub(crate) struct Report {
    #[command(flatten)]
    how: How,
    /// Leave out the sweep of assumed constants with which a report of standard or full scale ends: at quick scale, with one seed.
    #[arg(long)]
    no_sweep: bool,
}

impl Lab {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::List => {
                for experiment in all_experiments() {
                    say!("{:<18} {}", experiment.name, experiment.question);
                }
                Ok(())
            }
            Self::Run(run) => run.run(),
            Self::Report(report) => report.run(),
            Self::Sweep(sweep) if sweep.names.is_empty() => sweep.run(all_experiments()),
            Self::Sweep(sweep) => {
                let experiments = named(all_experiments(), &sweep.names)?;
                sweep.run(experiments)
            }
            Self::Trace(trace) => trace.run(),
        }
    }
}

impl Run {
    fn run(self) -> Outcome {
        let experiments = named(all_experiments(), std::slice::from_ref(&self.name))?;
        let takes = |names: &[&str]| names.contains(&self.name.as_str());
        if self.replay.trace.is_some() && !takes(&TAKE_TRACES) && !takes(&TAKE_CALLS) {
            let takers = [&TAKE_TRACES[..], &TAKE_CALLS[..]].concat().join("`, `");
            return Err(Failure::new(format!("`{}` replays no trace: --trace is for `{takers}`", self.name)));
        }
        let mut plan = plan(&self.how, 1)?;
        if takes(&TAKE_CALLS) {
            plan.call_trace = self.replay.calls()?;
        } else {
            plan.block_trace = self.replay.block_trace()?;
        }
        let mut outcome = Ok(());
        perform(&plan, &self.how, &experiments, |experiment, found| {
            outcome = found.map(|found| {
                if self.how.json {
                    say!("{}", files::json(experiment, &context(&plan), &found));
                } else {
                    print(experiment, &found);
                    say!("\nfigures and data are in {}", self.how.out.display());
                }
            });
        });
        outcome
    }
}

/// The experiments of those names.
fn named(all: Vec<Experiment>, names: &[String]) -> Outcome<Vec<Experiment>> {
    let known: Vec<&str> = all.iter().map(|experiment| experiment.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::new(format!("there is no experiment `{unknown}`; there are {}", known.join(", "))));
    }
    Ok(all.into_iter().filter(|experiment| names.iter().any(|name| name == experiment.name)).collect())
}

impl Report {
    fn run(self) -> Outcome {
        self.on(all_experiments())
    }

    fn on(self, experiments: Vec<Experiment>) -> Outcome {
        let (mut outcomes, mut unfinished) = (Vec::new(), Vec::new());
        let plan = plan(&self.how, self.how.scale.pick(1, 5, 5))?;
        perform(&plan, &self.how, &experiments, |experiment, found| {
            // An experiment that ends early is announced, and costs the others nothing.
            let found = found.unwrap_or_else(|failure| {
                let remark = format!("It ended early, and has no figures: {}", failure.message);
                unfinished.push(format!("{}: {}", experiment.name, failure.message));
                Found { remarks: vec![remark], ..Found::default() }
            });
            if !self.how.json {
                print(experiment, &found);
            }
            outcomes.push(found);
        });
        let (context, all): (_, Vec<_>) = (context(&plan), experiments.into_iter().zip(outcomes).collect());
        let swept = match self.no_sweep || self.how.scale == Scale::Quick {
            true => None,
            false => {
                let experiments = all.iter().map(|(experiment, _)| *experiment).collect();
                Some(sweep::of_report(&plan, experiments, &self.how.out)?)
            }
        };
        let page = page::write(&self.how.out, &context, &all, swept.as_ref())?;
        if self.how.json {
            let runs: Vec<String> =
                all.iter().map(|(experiment, found)| files::json(experiment, &context, found)).collect();
            say!("[{}]", runs.join(","));
        } else {
            if let Some(swept) = &swept {
                say!("\nAssumed constants, moved by half\n");
                sweep::print(swept);
            }
            say!("\nthe report is {}", Path::new(&page).display());
        }
        if unfinished.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("the report lacks experiments that ended early:\n{}", unfinished.join("\n"))))
    }
}

fn plan(how: &How, seeds: u64) -> Outcome<Plan> {
    let mut plan = Plan::new(how.seed, how.seeds.unwrap_or(seeds), how.scale);
    plan.drive = how.drive.as_deref().map(drives::profile).transpose()?;
    (plan.traces, plan.program) = (how.traces.clone(), identity::program());
    Ok(plan)
}

/// A context of the plan, in which nothing runs.
fn context(plan: &Plan) -> Context {
    plan.context(base(plan), Rc::new(|_, _| {}))
}

/// Makes all runs, writes their files, and hands the outcomes on in order. The experiment that is measured runs last and alone.
fn perform(plan: &Plan, how: &How, experiments: &[Experiment], mut finished: impl FnMut(&Experiment, Outcome<Found>)) {
    let mut take = |experiment: &Experiment, found: Result<Found, LabError>| {
        let written = found.map_err(Failure::from).and_then(|found| {
            files::write(&how.out, experiment, &context(plan), &found)?;
            Ok(found)
        });
        finished(experiment, written);
    };
    let modelled = experiments.iter().position(|experiment| experiment.name == MEASURED).unwrap_or(experiments.len());
    let (modelled, measured) = experiments.split_at(modelled);
    runner::all(plan, pool::cores(), modelled, &mut take);
    runner::all(plan, 1, measured, &mut take);
}

fn print(experiment: &Experiment, found: &Found) {
    say!("\n{}: {}\n", experiment.name, experiment.question);
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let width = found.rows.iter().map(|row| row.id.len()).max().unwrap_or(0).max(6);
    say!(
        "{:<width$} {:>10} {:>12} {:>10} {:>10} {:<7} reproduced? goal met?",
        "figure",
        "paper",
        "paper config",
        "ours",
        "goal",
        "unit"
    );
    for (turn, row) in found.rows.iter().flat_map(Row::ways) {
        let Row { id, unit, paper, paper_config, ours, goal, reproduced, goal_met, margin, note, .. } = row;
        let id = if Row::is_other_way(turn) { &format!("  {turn}") } else { id };
        say!(
            "{id:<width$} {:>10} {:>12} {:>10} {:>10} {unit:<7} {:<11} {:<9} {}",
            cell(*paper),
            cell(*paper_config),
            cell(*ours),
            cell(*goal),
            Verdict::word(*reproduced),
            Verdict::word(*goal_met),
            [margin.as_str(), note.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "),
        );
    }
    for grid in &found.grids {
        say!("\n{}", grid.text().trim_end());
    }
    for remark in &found.remarks {
        say!("  {remark}");
    }
}

/// The experiment that is no simulation.
const MEASURED: &str = "cpu";

/// The lab's experiments, and last the one that is no simulation.
fn all_experiments() -> Vec<Experiment> {
    let cpu = Experiment {
        name: MEASURED,
        question: "How much can one core append, checksums on?",
        setup: "Measured, not modelled: appends of 1 MiB, 16 outstanding, over 128 chunks, on a memory device that drops \
                payload; the engine on one thread of this machine, as it was loaded at the time.",
        runs: Runs::ONE,
        run: cpu,
    };
    experiments::all().into_iter().chain([cpu]).collect()
}

fn cpu(context: &mut Context) -> Result<Found, LabError> {
    let (round, rounds) = context.scale.pick((512, 1), (4096, 3), (8192, 5));
    let failed = |error: Failure| LabError(error.message);
    let measured = |setup: Setup| {
        let options = Options { hollow: false, ..setup.options() };
        append::measure(&options, round, rounds).map_err(failed)
    };
    let (paper, _) = measured(Setup::Paper)?;
    let (ours, limit) = measured(Setup::Ours)?;
    let row = Row::new("CPU: appends of 1 MiB, one core", "MB/s", Better::Higher)
        .paper_shown(570.0)
        .paper_config(paper / 1e6)
        .ours(ours / 1e6)
        .goal(3000.0)
        .judged();
    let remark = format!("copying the same bytes once and taking their CRC-32C once: {:.0} MB/s here", limit / 1e6);
    Ok(Found { rows: vec![row], remarks: vec![remark], ..Found::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_on_after_an_experiment_that_ends_early() {
        let folder = std::env::temp_dir().join(format!("shingle-lab-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // Every 60th zone of a drive of 600 zones is too few for an array.
        let profile = include_str!("../../../../device/drive-model/profiles/ha10.toml");
        let (before, zones) = profile.split_once("zones = ").unwrap();
        let (_, behind) = zones.split_once('\n').unwrap();
        let drive = folder.join("small.toml");
        std::fs::write(&drive, format!("{before}zones = 600\n{behind}")).unwrap();
        let how = How {
            seed: 1,
            seeds: None,
            scale: Scale::Quick,
            drive: Some(drive.display().to_string()),
            traces: None,
            out: folder.join("out"),
            json: false,
        };
        let later = Experiment {
            name: "later",
            question: "Is it asked, too?",
            setup: "",
            runs: Runs::ONE,
            run: |_| {
                let rows = vec![Row::new("asked", "times", Better::Higher).ours(1.0).judged()];
                Ok(Found { rows, ..Found::default() })
            },
        };
        let too_large = experiments::named("smore-ingest").unwrap();
        let failure = Report { how, no_sweep: false }.on(vec![too_large, later]).unwrap_err();
        assert!(
            failure.message.contains("smore-ingest: ") && failure.message.contains("too small"),
            "{}",
            failure.message
        );
        assert!(!failure.message.contains("later"), "{}", failure.message);
        let page = std::fs::read_to_string(folder.join("out/index.html")).unwrap();
        for part in ["id='smore-ingest'", "It ended early, and has no figures", "too small", "id='later'", "asked"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(folder.join("out/later.json").exists() && !folder.join("out/smore-ingest.json").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
