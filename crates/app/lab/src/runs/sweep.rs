//! A sweep: every assumed constant of the drives is moved down and up by half, and the experiments are judged again.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::change::{Change, Moved};
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
    let moves = base.inputs.assumed.iter().flat_map(|&constant| FACTORS.map(|by| Moved { constant, by }));
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
    /// Their unit.
    pub unit: &'static str,
    /// The paper's value or the goal that each is held against: a goal that is another system's figure moves with the constant, too.
    pub against: [Option<f64>; 2],
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
    /// Experiments that were judged again, and those that were not for what that takes.
    pub experiments: Vec<&'static str>,
    /// See there.
    pub left_out: Vec<&'static str>,
    /// All verdicts with no constant moved.
    pub verdicts: usize,
    /// Those of them that no constant turns.
    pub steady: usize,
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
        let (experiments, left_out, moves, flips, unfinished) = Default::default();
        let (verdicts, steady) = (0, 0);
        Self { schema: 3, program, seed, scale, experiments, left_out, verdicts, steady, moves, flips, unfinished }
    }

    /// Takes in an experiment's rows with no constant moved, before those with moved ones.
    pub fn begin(&mut self, experiment: &'static str, base: &[Row]) {
        self.experiments.push(experiment);
        let asked = |row: &Row| usize::from(row.reproduced.is_some()) + usize::from(row.goal_met.is_some());
        self.verdicts += base.iter().map(asked).sum::<usize>();
        self.steady = self.verdicts;
    }

    /// Takes in a run with a moved constant: each verdict that is another one turns.
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
                let against = |row: &Row| if question == "goal_met" { row.goal } else { row.paper };
                let against = [against(row), other.and_then(against)];
                let (row, unit) = (row.id.clone(), row.unit);
                self.flips.push(Flip { experiment, row, question, constant, by, before, after, values, unit, against });
            }
        }
        let flips = self.flips.len() - before_count;
        let turned: BTreeSet<_> = self.flips.iter().map(|flip| (flip.experiment, &flip.row, flip.question)).collect();
        self.steady = self.verdicts - turned.len();
        match self.moves.iter_mut().find(|known| (known.constant, known.by) == (constant, by)) {
            Some(known) => {
                known.experiments += 1;
                known.verdicts += verdicts;
                known.flips += flips;
            }
            None => self.moves.push(Move { constant, by, experiments: 1, verdicts, flips }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use shingle_drive_model::Profile;

    use super::*;
    use crate::constants::Constant;
    use crate::context::Context;
    use crate::report::row::Better;
    use crate::rig::twin::{conventional_twin, zoned_twin};

    #[test]
    fn constants_of_the_drives_alone_are_moved() {
        let plan = Plan::new(1, 1, Scale::Quick);
        let of = |drive: &dyn Fn(&Context) -> Profile| {
            let context = plan.context(base(&plan), Rc::new(|_, _| {}));
            drive(&context);
            let outcome = Outcome { inputs: context.inputs.take(), ..Outcome::default() };
            moved(&plan, &outcome).into_iter().map(|(moved, _)| moved.constant).collect::<BTreeSet<_>>()
        };
        let named = |context: &Context, name: &str| context.profile(name).unwrap();
        let (hm_smr, array) = (of(&|context| named(context, "st20000nm001j")), of(&|context| named(context, "ha10")));
        assert!(hm_smr.contains(&Constant::FullSeek) && !hm_smr.contains(&Constant::Seeks));
        assert!(array.contains(&Constant::Seeks) && !array.contains(&Constant::InnerRate));
        let twin = of(&|context| context.twin(&Profile::named("st20000nm001j").unwrap(), conventional_twin));
        assert_eq!(twin, hm_smr, "a twin has the constants of its drive");
        let managed = of(&|context| named(context, "st8000as0002"));
        assert!(managed.contains(&Constant::Ring) && managed.contains(&Constant::Settle));
        let zoned = of(&|context| context.twin(&Profile::named("st8000as0002").unwrap(), zoned_twin));
        assert!(zoned.contains(&Constant::ZoneCommands) && !managed.contains(&Constant::ZoneCommands));
        let shown = of(&|context| context.shown(Profile::named("wd40nmzw").unwrap()));
        assert!(shown.is_empty(), "no verdict is of it");
    }

    #[test]
    fn verdicts_that_turn_are_told_and_counted() {
        let row = |ours: f64| Row::new("r", "x", Better::Higher).ours(ours).goal(10.0).judged();
        let base = [row(11.0), Row::new("shown", "x", Better::Higher).ours(1.0)];
        let mut sweep = Sweep::new(&Plan::new(1, 1, Scale::Quick));
        let moved = |by: f64| Moved { constant: Constant::Overhead, by };
        sweep.begin("e", &base);
        sweep.take("e", &base, moved(0.5), &[row(12.0)]);
        assert_eq!((sweep.steady, sweep.verdicts), (1, 1));
        sweep.take("e", &base, moved(1.5), &[row(9.0)]);
        assert_eq!(sweep.moves.iter().map(|found| (found.verdicts, found.flips)).collect::<Vec<_>>(), [(1, 0), (1, 1)]);
        let flip = &sweep.flips[0];
        assert_eq!((flip.before, flip.after, flip.values), (Verdict::Yes, Some(Verdict::No), [Some(11.0), Some(9.0)]));
        assert_eq!((flip.unit, flip.against), ("x", [Some(10.0); 2]));
        assert_eq!((sweep.steady, sweep.verdicts), (0, 1));
    }
}
