//! Runs of experiments, side by side, and their outcomes in order.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use shingle_lab::error::LabError;
use shingle_lab::experiment::{Experiment, Outcome as Found};
use shingle_lab::runs::join::join;
use shingle_lab::runs::plan::{Plan, Variation};

use super::pool;
use crate::output::Progress;

/// A line that says how far runs are, whatever thread they are on.
pub(super) struct Board {
    line: Mutex<(Progress, usize)>,
    all: usize,
}

impl Board {
    pub(super) fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { line: Mutex::new((Progress::new(), 0)), all })
    }

    fn show(&self, name: &str, step: &str, share: Option<f64>) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let share = share.map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
        let runs = if self.all > 1 { format!("{} of {} runs done; ", line.1, self.all) } else { String::new() };
        line.0.show(&format!("{runs}{name}: {step}{share}"));
    }

    fn one_done(&self) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
    }
}

/// Makes one run.
pub(super) fn one(
    plan: &Plan,
    experiment: &Experiment,
    variation: Variation,
    board: &Arc<Board>,
) -> Result<Found, LabError> {
    let (name, shown) = (experiment.name, board.clone());
    let told = Rc::new(move |step: &str, share: Option<f64>| shown.show(name, step, share));
    let found = experiment.perform(&mut plan.context(variation, told));
    board.one_done();
    found
}

/// Makes all runs of the experiments on so many threads, and gives their outcomes to `finished` in the experiments' order, each as
/// soon as it and those before are there.
pub(super) fn all(
    plan: &Plan,
    threads: usize,
    experiments: &[Experiment],
    mut finished: impl FnMut(&Experiment, Result<Found, LabError>),
) {
    let variations: Vec<Vec<Variation>> =
        experiments.iter().map(|experiment| plan.variations(experiment.runs)).collect();
    let jobs: Vec<(usize, usize)> =
        variations.iter().enumerate().flat_map(|(at, runs)| (0..runs.len()).map(move |run| (at, run))).collect();
    let mut found: Vec<Vec<Option<Result<Found, LabError>>>> =
        variations.iter().map(|runs| runs.iter().map(|_| None).collect()).collect();
    let board = Board::new(jobs.len());
    let mut told = 0;
    let work = |&(at, run): &(usize, usize)| one(plan, &experiments[at], variations[at][run], &board);
    pool::each(threads, &jobs, work, |job, result| {
        let (at, run) = jobs[job];
        found[at][run] = Some(result);
        while told < experiments.len() && found[told].iter().all(Option::is_some) {
            let results: Result<Vec<Found>, LabError> =
                std::mem::take(&mut found[told]).into_iter().flatten().collect();
            let joined = results.map(|results| join(variations[told].iter().copied().zip(results).collect()));
            finished(&experiments[told], joined);
            told += 1;
        }
    });
}

#[cfg(test)]
mod tests {
    use shingle_lab::context::Scale;
    use shingle_lab::experiment::Runs;
    use shingle_lab::report::row::{Better, Row};

    use super::*;

    /// Its figure is its seed.
    fn experiment(name: &'static str, runs: Runs) -> Experiment {
        let run = |context: &mut shingle_lab::context::Context| {
            if context.seed == 13 {
                return Err(LabError("bad luck".to_owned()));
            }
            let rows = vec![Row::new("seed", "", Better::Higher).ours(context.seed as f64).judged()];
            Ok(Found { rows, ..Found::default() })
        };
        Experiment { name, question: "", setup: "", runs, run }
    }

    #[test]
    fn outcomes_come_in_order_and_of_all_seeds_whatever_the_number_of_threads() {
        let experiments =
            [experiment("one", Runs::ONE), experiment("drawn", Runs::SEEDS), experiment("last", Runs::ONE)];
        for threads in [1, 4] {
            let mut found = Vec::new();
            all(&Plan::new(3, 5, Scale::Quick), threads, &experiments, |experiment, outcome| {
                let row = outcome.unwrap().rows.remove(0);
                found.push((experiment.name, row.ours.unwrap(), row.worst.map(|worst| worst.ours.unwrap())));
            });
            assert_eq!(
                found,
                [("one", 3.0, None), ("drawn", 5.0, Some(3.0)), ("last", 3.0, None)],
                "{threads} threads"
            );
        }
    }

    #[test]
    fn a_run_that_ends_early_ends_its_experiment_and_no_other() {
        let experiments = [experiment("drawn", Runs::SEEDS), experiment("one", Runs::ONE)];
        let mut found = Vec::new();
        all(&Plan::new(10, 5, Scale::Quick), 2, &experiments, |_, outcome| {
            found.push(outcome.map(|_| ()).map_err(|error| error.0))
        });
        assert_eq!(found, [Err("bad luck".to_owned()), Ok(())]);
    }
}
