//! A sweep: every assumed constant of the drives is moved down and up by half, and the experiments are judged again.

use std::collections::BTreeSet;

use serde::Serialize;
use shingle_drive_model::Profile;

use crate::change::{Change, Moved};
use crate::constants::Constant;
use crate::context::Scale;
use crate::experiment::Outcome;
use crate::inputs::Program;
use crate::report::row::{Row, Verdict};
use crate::runs::plan::{Plan, Variation};

/// Factors of a constant.
pub const FACTORS: [f64; 2] = [0.5, 1.5];

/// The run that others are held against: constants as they are.
pub fn base(plan: &Plan) -> Variation {
    Variation { seed: plan.seed, change: Change::default() }
}

/// Runs of an experiment with moved constants, by its run with none moved: only constants of its drives count.
pub fn moved(plan: &Plan, base: &Outcome) -> Vec<(Moved, Variation)> {
    let drives: Vec<Profile> = base.inputs.drives.keys().filter_map(|name| Profile::named(name).ok()).collect();
    let assumed = |constant: &Constant| drives.iter().any(|drive| constant.scale(&mut drive.clone(), 1.0));
    let moves = Constant::ALL.into_iter().filter(assumed).flat_map(|constant| FACTORS.map(|by| Moved { constant, by }));
    let variation = |moved| Variation { seed: plan.seed, change: Change { moved: Some(moved), ..Change::default() } };
    moves.map(|moved| (moved, variation(moved))).collect()
}

/// A verdict that a moved constant turns.
#[derive(Clone, Debug, Serialize)]
pub struct Flip {
    /// The experiment.
    pub experiment: &'static str,
    /// The row.
    pub row: String,
    /// `reproduced` or `goal_met`.
    pub question: &'static str,
    /// The constant.
    pub constant: &'static str,
    /// Its factor.
    pub by: f64,
    /// The verdict with the constant as it is.
    pub before: Verdict,
    /// The verdict with the constant moved; none if the row was not judged any more.
    pub after: Option<Verdict>,
    /// The judged value as it is, and moved.
    pub values: [Option<f64>; 2],
}

/// A sweep's findings, as programs read them.
#[derive(Debug, Serialize)]
pub struct Sweep {
    /// The version of this form.
    pub schema: u32,
    /// The commit and the number of the sources.
    pub program: Program,
    /// Its seed.
    pub seed: u64,
    /// Its scale.
    pub scale: Scale,
    /// Constants that moved, with the number of verdicts that turned.
    pub moves: Vec<Move>,
    /// Verdicts that turned.
    pub flips: Vec<Flip>,
    /// Runs that ended early, with the reason.
    pub unfinished: Vec<String>,
}

/// One constant moved.
#[derive(Clone, Debug, Serialize)]
pub struct Move {
    /// The constant.
    pub constant: &'static str,
    /// Its factor.
    pub by: f64,
    /// Experiments whose drives have it.
    pub experiments: usize,
    /// Verdicts in them.
    pub verdicts: usize,
    /// Verdicts that turned.
    pub flips: usize,
}

impl Sweep {
    /// Findings of nothing.
    pub fn new(plan: &Plan) -> Self {
        let (program, seed, scale) = (plan.program.clone(), plan.seed, plan.scale);
        Self { schema: 1, program, seed, scale, moves: Vec::new(), flips: Vec::new(), unfinished: Vec::new() }
    }

    /// Takes in a run with a moved constant.
    pub fn take(&mut self, experiment: &'static str, base: &[Row], moved: Moved, rows: &[Row]) {
        let (constant, by) = (moved.constant.name(), moved.by);
        let (mut verdicts, before_count) = (0, self.flips.len());
        for row in base {
            let other = rows.iter().find(|other| other.id == row.id);
            let paper = (row.reproduced, other.and_then(|other| other.reproduced), "reproduced");
            let goal = (row.goal_met, other.and_then(|other| other.goal_met), "goal_met");
            for (before, after, question) in [paper, goal] {
                let Some(before) = before else { continue };
                verdicts += 1;
                if after == Some(before) {
                    continue;
                }
                let value = |row: &Row| if question == "goal_met" { row.ours } else { row.paper_config };
                let values = [value(row), other.and_then(value)];
                let row = row.id.clone();
                self.flips.push(Flip { experiment, row, question, constant, by, before, after, values });
            }
        }
        let flips = self.flips.len() - before_count;
        match self.moves.iter_mut().find(|known| (known.constant, known.by) == (constant, by)) {
            Some(known) => {
                known.experiments += 1;
                known.verdicts += verdicts;
                known.flips += flips;
            }
            None => self.moves.push(Move { constant, by, experiments: 1, verdicts, flips }),
        }
    }

    /// Verdicts that no constant turns, and all of them, of rows of the base.
    pub fn steady(&self, base: &[(&'static str, Vec<Row>)]) -> (usize, usize) {
        let all = base.iter().flat_map(|(_, rows)| rows);
        let all = all.map(|row| usize::from(row.reproduced.is_some()) + usize::from(row.goal_met.is_some())).sum();
        let turned: BTreeSet<_> = self.flips.iter().map(|flip| (flip.experiment, &flip.row, flip.question)).collect();
        (all - turned.len(), all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Better;

    #[test]
    fn constants_of_the_drives_alone_are_moved() {
        let plan = Plan::new(1, 1, Scale::Quick);
        let of = |drive: &str| {
            let mut outcome = Outcome::default();
            outcome.inputs.drives.insert(drive.to_owned(), String::new());
            moved(&plan, &outcome).into_iter().map(|(moved, _)| moved.constant).collect::<BTreeSet<_>>()
        };
        let (hm_smr, array) = (of("st20000nm001j"), of("ha10"));
        assert!(hm_smr.contains(&Constant::FullSeek) && !hm_smr.contains(&Constant::Seeks));
        assert!(array.contains(&Constant::Seeks) && !array.contains(&Constant::InnerRate));
        assert!(of("zns-1tb").is_empty(), "it is no disk");
    }

    #[test]
    fn verdicts_that_turn_are_told_and_counted() {
        let row = |ours: f64| Row::new("r", "x", Better::Higher).ours(ours).goal(10.0).judged();
        let base = vec![("e", vec![row(11.0), Row::new("shown", "x", Better::Higher).ours(1.0)])];
        let mut sweep = Sweep::new(&Plan::new(1, 1, Scale::Quick));
        let moved = |by: f64| Moved { constant: Constant::Overhead, by };
        sweep.take("e", &base[0].1, moved(0.5), &[row(12.0)]);
        sweep.take("e", &base[0].1, moved(1.5), &[row(9.0)]);
        assert_eq!(sweep.moves.iter().map(|found| (found.verdicts, found.flips)).collect::<Vec<_>>(), [(1, 0), (1, 1)]);
        let flip = &sweep.flips[0];
        assert_eq!((flip.before, flip.after, flip.values), (Verdict::Yes, Some(Verdict::No), [Some(11.0), Some(9.0)]));
        assert_eq!(sweep.steady(&base), (0, 1));
    }
}
