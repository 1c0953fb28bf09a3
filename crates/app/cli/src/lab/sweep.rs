//! `shingle lab sweep`: verdicts that an assumed constant decides.

use std::path::{Path, PathBuf};

use clap::Args;
use shingle_lab::change::Moved;
use shingle_lab::context::Scale;
use shingle_lab::error::LabError;
use shingle_lab::experiment::{Experiment, Outcome as Found};
use shingle_lab::report::assumed::percent;
use shingle_lab::report::number::number;
use shingle_lab::report::row::Verdict;
use shingle_lab::runs::plan::{Plan, Variation};
use shingle_lab::runs::sweep::{self, Flip, Sweep};

use super::pool;
use super::runner::{self, Board};
use crate::failure::{Failure, Outcome};
use crate::identity;

/// The experiment without a drive: it is measured.
const NOT_SWEPT: &str = "cpu";

/// Experiments that a report leaves out of its sweep: a single run of each takes ten seconds and more of a processor, and there are two for each
/// constant.
const NOT_IN_REPORT: [&str; 6] = ["skylight", "multistream", "zone-utilisation", "placement", "recovery", "slow-drive"];

/// Moves every assumed constant.
#[derive(Args)]
pub(crate) struct SweepOf {
    /// Experiments to judge again [default: all that run on modelled drives].
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Seed of everything random.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// quick, standard or full.
    #[arg(long, value_name = "SCALE", default_value_t = Scale::Quick)]
    scale: Scale,
    /// The folder for sweep.json.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// Print JSON as the last line.
    #[arg(long)]
    json: bool,
}

/// A run: the experiment's place, and the constant that moves.
type Job = (usize, Option<Moved>, Variation);

impl SweepOf {
    /// Sweeps these experiments, but for those that no constant could move.
    pub(super) fn run(self, mut experiments: Vec<Experiment>) -> Outcome {
        experiments.retain(|experiment| experiment.name != NOT_SWEPT);
        let mut plan = Plan::new(self.seed, 1, self.scale);
        plan.program = identity::program();
        let found = findings(&plan, &experiments);
        let json = write(&found, &self.out)?;
        if self.json {
            say!("{json}");
        } else {
            print(&found);
            say!("\ndata are in {}", self.out.join("sweep.json").display());
        }
        if found.unfinished.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("the sweep lacks runs that ended early:\n{}", found.unfinished.join("\n"))))
    }
}

/// The sweep of a report: at quick scale, of one seed, without the experiments that would take too long.
pub(super) fn of_report(report: &Plan, mut experiments: Vec<Experiment>, out: &Path) -> Outcome<Sweep> {
    let mut plan = Plan::new(report.seed, 1, Scale::Quick);
    (plan.program, plan.drive, plan.traces) = (report.program.clone(), report.drive.clone(), report.traces.clone());
    experiments.retain(|experiment| experiment.name != NOT_SWEPT);
    let (left_out, experiments): (Vec<_>, Vec<_>) =
        experiments.into_iter().partition(|experiment| NOT_IN_REPORT.contains(&experiment.name));
    let mut found = findings(&plan, &experiments);
    found.left_out = left_out.iter().map(|experiment| experiment.name).collect();
    write(&found, out)?;
    Ok(found)
}

/// Writes `sweep.json` into the folder, and returns what is in it.
fn write(found: &Sweep, out: &Path) -> Outcome<String> {
    let json = serde_json::to_string(found).unwrap_or_default();
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("sweep.json"), &json)?;
    Ok(json)
}

fn findings(plan: &Plan, experiments: &[Experiment]) -> Sweep {
    let mut found = Sweep::new(plan);
    let first: Vec<Job> = (0..experiments.len()).map(|at| (at, None, sweep::base(plan))).collect();
    let mut bases: Vec<(usize, Found)> = Vec::new();
    make(plan, experiments, &first, |&(at, ..), outcome| match outcome {
        Ok(outcome) => bases.push((at, outcome)),
        Err(error) => found.unfinished.push(format!("{}: {error}", experiments[at].name)),
    });
    bases.iter().for_each(|(at, base)| found.begin(experiments[*at].name, &base.rows));
    let moves = |(at, base): &(usize, Found)| {
        let at = *at;
        sweep::moved(plan, base).into_iter().map(move |(moved, variation)| (at, Some(moved), variation))
    };
    let mut jobs: Vec<Job> = bases.iter().flat_map(moves).collect();
    // Experiments that share runs follow each other for each constant.
    jobs.sort_by_key(|(_, moved, _)| moved.map(|moved| (moved.constant, moved.by.to_bits())));
    make(plan, experiments, &jobs, |&(at, moved, _), outcome| {
        let Some(moved) = moved else { return };
        match outcome {
            Ok(outcome) => {
                let base = bases.iter().find(|base| base.0 == at).map_or(&[][..], |base| &base.1.rows);
                found.take(experiments[at].name, base, moved, &outcome.rows);
            }
            Err(error) => {
                let (name, constant) = (experiments[at].name, moved.constant.name());
                found.unfinished.push(format!("{name} with {constant} times {}: {error}", moved.by));
            }
        }
    });
    found
}

/// Makes runs side by side, and hands their outcomes on in the order of the jobs.
fn make(plan: &Plan, experiments: &[Experiment], jobs: &[Job], mut take: impl FnMut(&Job, Result<Found, LabError>)) {
    let board = Board::new(jobs.len());
    let mut results: Vec<Option<Result<Found, LabError>>> = jobs.iter().map(|_| None).collect();
    let work = |&(at, _, variation): &Job| runner::one(plan, &experiments[at], variation, &board);
    pool::each(pool::cores(), jobs, work, |job, result| {
        // Pictures take room, and nobody looks at these.
        results[job] = Some(result.map(|outcome| Found { figures: Vec::new(), ..outcome }));
    });
    jobs.iter().zip(results).for_each(|(job, result)| result.into_iter().for_each(|result| take(job, result)));
}

pub(super) fn print(found: &Sweep) {
    say!("{:<16} {:>5} {:>12} {:>9} {:>7}", "constant", "by", "experiments", "verdicts", "turned");
    for sweep::Move { constant, by, experiments, verdicts, flips } in &found.moves {
        say!("{constant:<16} {:>5} {experiments:>12} {verdicts:>9} {flips:>7}", percent(*by));
    }
    if !found.flips.is_empty() {
        say!("\nverdicts that turn:");
    }
    for Flip { experiment, row, question, constant, by, before, after, values, unit, against } in &found.flips {
        let verdict = |verdict: Option<Verdict>| match Verdict::word(verdict) {
            "" => "not judged".to_owned(),
            word => word.to_lowercase(),
        };
        let texts = |values: &[Option<f64>; 2]| values.map(|value| value.map_or("-".to_owned(), number));
        let ([was, is], [held_was, held_is]) = (texts(values), texts(against));
        say!(
            "  {constant} {}: {experiment}: {row}: {} {} -> {} ({was} -> {is} {unit}, held against {held_was} -> {held_is})",
            percent(*by),
            if *question == "goal_met" { "goal met?" } else { "reproduced?" },
            verdict(Some(*before)),
            verdict(*after),
        );
    }
    say!("\n{} of {} verdicts hold wherever an assumed constant is", found.steady, found.verdicts);
}
