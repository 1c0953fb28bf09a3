//! A plan: inputs of a report, and the runs that each experiment's verdicts are of.

use std::path::PathBuf;
use std::sync::Arc;

use shingle_drive_model::Profile;

use crate::calls::record::Recording;
use crate::change::Change;
use crate::context::{BlockTrace, Context, Scale, Told};
use crate::experiment::Runs;
use crate::inputs::Program;
use crate::known::Known;

/// Inputs of runs. Unlike a [`Context`], threads can share it.
#[derive(Clone)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// Seeds of an experiment whose load is drawn.
    pub seeds: u64,
    /// Size of the runs.
    pub scale: Scale,
    /// A drive of the user's own.
    pub drive: Option<Profile>,
    /// A folder with recordings of the user's own.
    pub traces: Option<PathBuf>,
    /// A block trace of the user's own.
    pub block_trace: Option<BlockTrace>,
    /// A recording of file calls of the user's own.
    pub call_trace: Option<Arc<Recording>>,
    /// The program that makes the runs.
    pub program: Program,
    known: Arc<Known>,
}

/// Seed and drives of one run of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Its seed.
    pub seed: u64,
    /// Its drives.
    pub change: Change,
}

impl Plan {
    /// A plan for the papers' drives.
    pub fn new(seed: u64, seeds: u64, scale: Scale) -> Self {
        let (program, known) = (Program::default(), Arc::default());
        let (block_trace, call_trace) = (None, None);
        Self { seed, seeds, scale, drive: None, traces: None, block_trace, call_trace, program, known }
    }

    /// Runs of an experiment, in a fixed order.
    pub fn variations(&self, runs: Runs) -> Vec<Variation> {
        let seeds = if runs.seeds { self.seeds.max(1) } else { 1 };
        let ways = [
            Some(Change::default()),
            runs.turns.then(|| Change { streams_writes: true, ..Change::default() }),
            runs.caches.then(|| Change { cache_on: true, ..Change::default() }),
        ];
        let of_seed = |seed: u64| ways.into_iter().flatten().map(move |change| Variation { seed, change });
        (0..seeds).flat_map(|more| of_seed(self.seed.wrapping_add(more))).collect()
    }

    /// The context of one run.
    pub fn context(&self, variation: Variation, progress: Told) -> Context {
        let mut context = Context::new(variation.seed, self.scale, progress).made_by(self.program.clone());
        context.change = variation.change;
        // One seed says what an unknown input is worth, and the others what chance is.
        context.every_input = variation.seed == self.seed;
        context.known = self.known.clone();
        let context = context.on_drive(self.drive.clone()).with_traces(self.traces.clone());
        context.with_block_trace(self.block_trace.clone()).with_call_trace(self.call_trace.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_runs_for_each_seed_and_both_hypotheses_if_they_count() {
        let plan = Plan::new(7, 3, Scale::Quick);
        let of = |runs: Runs| {
            let variations = plan.variations(runs);
            variations.iter().map(|run| (run.seed, run.change.streams_writes)).collect::<Vec<_>>()
        };
        assert_eq!(of(Runs::ONE), [(7, false)]);
        assert_eq!(of(Runs::TURNS), [(7, false), (7, true)]);
        assert_eq!(of(Runs::SEEDS), [(7, false), (8, false), (9, false)]);
        assert_eq!(of(Runs::SEEDS_AND_TURNS).len(), 6);
        let caches: Vec<_> = plan.variations(Runs::CACHES).iter().map(|run| run.change).collect();
        let (default, streams_writes, cache_on) = (Change::default(), true, true);
        assert_eq!(caches, [default, Change { streams_writes, ..default }, Change { cache_on, ..default }]);
    }
}
