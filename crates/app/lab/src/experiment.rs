//! Experiments and their findings.

use crate::context::Context;
use crate::error::LabError;
use crate::inputs::Inputs;
use crate::report::figure::Figure;
use crate::report::grid::Grid;
use crate::report::row::Row;
use crate::targets;

/// Findings of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures that count.
    pub rows: Vec<Row>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Measures of several systems, behind several hosts, for several seeds.
    pub grids: Vec<Grid>,
    /// Remarks on this run.
    pub remarks: Vec<String>,
    /// Drives, hosts and options of it.
    pub inputs: Inputs,
}

impl Outcome {
    /// True if a drive that rows are of has no write cache, so that it may lose a turn at a write in sequence.
    pub fn may_lose_turns(&self) -> bool {
        self.inputs.may_lose_turns
    }
}

/// Runs that an experiment's verdicts are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Its load is drawn, so that several seeds are better than one.
    pub seeds: bool,
    /// Drives that its rows are of have no write cache: nobody knows whether they lose a turn at each write in sequence, so that it runs both
    /// ways.
    pub turns: bool,
    /// Its paper does not say whether its drives' volatile caches were on: it runs without them, with turns lost and without, and with them.
    pub caches: bool,
}

impl Runs {
    /// One run.
    pub const ONE: Self = Self { seeds: false, turns: false, caches: false };
    /// One for each seed.
    pub const SEEDS: Self = Self { seeds: true, turns: false, caches: false };
    /// One with lost turns, and one without.
    pub const TURNS: Self = Self { seeds: false, turns: true, caches: false };
    /// Both for each seed.
    pub const SEEDS_AND_TURNS: Self = Self { seeds: true, turns: true, caches: false };
    /// One with caches, and two without: with lost turns and without.
    pub const CACHES: Self = Self { seeds: false, turns: true, caches: true };
}

/// One question, and the way to its answer.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Name in commands.
    pub name: &'static str,
    /// Its question.
    pub question: &'static str,
    /// Its setup.
    pub setup: &'static str,
    /// Its runs.
    pub runs: Runs,
    /// Answers it.
    pub run: fn(&mut Context) -> Result<Outcome, LabError>,
}

impl Experiment {
    /// Answers the question. On a drive of the user's own the papers' figures, which are of other drives, are only
    /// shown: no row is judged by them, except in the experiment that compares profiles with published figures.
    ///
    /// # Errors
    /// The reason why it ended early.
    pub fn perform(&self, context: &mut Context) -> Result<Outcome, LabError> {
        context.inputs.take();
        let mut outcome = (self.run)(context)?;
        outcome.inputs = context.inputs.take();
        outcome.inputs.seeds = vec![context.seed];
        if context.drive.is_none() && context.block_trace.is_none() && context.call_trace.is_none() {
            let unjudged = targets::unjudged(self.name, context.scale, &outcome.rows);
            outcome.remarks.extend(unjudged.into_iter().map(|what| format!("A TARGET IS NOT JUDGED: {what}")));
        }
        if let Some(drive) = &context.drive
            && self.name != CALIBRATION
        {
            for row in outcome.rows.iter_mut().filter(|row| row.is_judged()) {
                *row = Row { tolerance: None, ..row.clone() }.judged();
            }
            let remark = format!("On the drive {}: the papers' figures, of other drives, are only shown.", drive.name);
            outcome.remarks.insert(0, remark);
        }
        Ok(outcome)
    }
}

/// The experiment whose rows are about drives, and not about what runs on them.
pub(crate) const CALIBRATION: &str = "calibrate";

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use shingle_drive_model::Profile;

    use super::*;
    use crate::context::Scale;
    use crate::report::row::{Better, Verdict};

    #[test]
    fn on_a_drive_of_ones_own_only_goals_are_asked_for() {
        fn run(_: &mut Context) -> Result<Outcome, LabError> {
            let row = || Row::new("r", "MB/s", Better::Higher).paper(110.0, 0.1).paper_config(50.0);
            let rows = vec![row().judged(), row().goal(40.0).ours(45.0).judged()];
            Ok(Outcome { rows, ..Outcome::default() })
        }
        let experiment = Experiment { name: "x", question: "", setup: "", runs: Runs::ONE, run };
        let verdicts = |drive: Option<Profile>| {
            let mut context = Context::new(1, Scale::Quick, Rc::new(|_, _| {})).on_drive(drive);
            let outcome = experiment.perform(&mut context).unwrap();
            (outcome.rows.iter().map(|row| (row.reproduced, row.goal_met)).collect::<Vec<_>>(), outcome.remarks.len())
        };
        let (yes, no) = (Some(Verdict::Yes), Some(Verdict::No));
        assert_eq!(verdicts(None), (vec![(no, None), (no, yes)], 0));
        let own = Profile::named("hc650").unwrap();
        assert_eq!(verdicts(Some(own)), (vec![(None, None), (None, yes)], 1));
    }
}
