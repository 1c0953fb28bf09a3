//! `shingle lab sweep`: verdicts that an assumed constant decides.

use std::path::PathBuf;

use clap::Args;
use shingle_lab::change::Moved;
use shingle_lab::context::Scale;
use shingle_lab::error::LabError;
use shingle_lab::experiment::{Experiment, Outcome as Found};
use shingle_lab::report::number::number;
use shingle_lab::report::row::{Row, Verdict};
use shingle_lab::runs::plan::{Plan, Variation};
use shingle_lab::runs::sweep::{self, Flip, Sweep};

use super::pool;
use super::runner::{self, Board};
use crate::failure::{Failure, Outcome};
use crate::identity;

/// Experiments without a drive of a profile that could be moved.
const NOT_SWEPT: [&str; 2] = ["skylight", "cpu"];

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
        experiments.retain(|experiment| !NOT_SWEPT.contains(&experiment.name));
        let mut plan = Plan::new(self.seed, 1, self.scale);
        plan.program = identity::program();
        let (found, bases) = findings(&plan, &experiments);
        let json = serde_json::to_string(&found).unwrap_or_default();
        std::fs::create_dir_all(&self.out)?;
        std::fs::write(self.out.join("sweep.json"), &json)?;
        if self.json {
            say!("{json}");
        } else {
            print(&found, &bases);
            say!("\ndata are in {}", self.out.join("sweep.json").display());
        }
        if found.unfinished.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("the sweep lacks runs that ended early:\n{}", found.unfinished.join("\n"))))
    }
}

/// Rows of an experiment with no constant moved.
type Base = (&'static str, Vec<Row>);

fn findings(plan: &Plan, experiments: &[Experiment]) -> (Sweep, Vec<Base>) {
    let mut found = Sweep::new(plan);
    let first: Vec<Job> = (0..experiments.len()).map(|at| (at, None, sweep::base(plan))).collect();
    let mut bases: Vec<(usize, Found)> = Vec::new();
    make(plan, experiments, &first, |&(at, ..), outcome| match outcome {
        Ok(outcome) => bases.push((at, outcome)),
        Err(error) => found.unfinished.push(format!("{}: {error}", experiments[at].name)),
    });
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
    (found, bases.into_iter().map(|(at, base)| (experiments[at].name, base.rows)).collect())
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

fn print(found: &Sweep, bases: &[Base]) {
    say!("{:<16} {:>5} {:>12} {:>9} {:>7}", "constant", "by", "experiments", "verdicts", "turned");
    for sweep::Move { constant, by, experiments, verdicts, flips } in &found.moves {
        say!("{constant:<16} {:>5} {experiments:>12} {verdicts:>9} {flips:>7}", percent(*by));
    }
    if !found.flips.is_empty() {
        say!("\nverdicts that turn:");
    }
    for Flip { experiment, row, question, constant, by, before, after, values } in &found.flips {
        let verdict = |verdict: Option<Verdict>| match Verdict::word(verdict) {
            "" => "not judged".to_owned(),
            word => word.to_lowercase(),
        };
        let [was, is] = values.map(|value| value.map_or("-".to_owned(), number));
        say!(
            "  {constant} {}: {experiment}: {row}: {} {} -> {} ({was} -> {is})",
            percent(*by),
            if *question == "goal_met" { "goal met?" } else { "reproduced?" },
            verdict(Some(*before)),
            verdict(*after),
        );
    }
    let (steady, all) = found.steady(bases);
    say!("\n{steady} of {all} verdicts hold wherever an assumed constant is");
}

fn percent(by: f64) -> String {
    format!("{:+.0}%", (by - 1.0) * 100.0)
}
