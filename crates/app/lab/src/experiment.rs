//! Experiments and their results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;

use serde::Serialize;

use shingle_drive_model::Profile;

use crate::figure::Figure;
use crate::load::multistream::MultiStreamResult;

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

/// Gets the present step, and the share of it that is done if known.
pub type Told = Rc<dyn Fn(&str, Option<f64>)>;

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
    /// Multi-stream runs that were done already: several experiments use the same ones.
    pub(crate) runs: RefCell<BTreeMap<String, Rc<MultiStreamResult>>>,
}

impl Context {
    /// A context in which nothing has been run, on the papers' drives.
    pub fn new(seed: u64, scale: Scale, progress: Told) -> Self {
        Self { seed, scale, progress, drive: None, traces: None, runs: RefCell::default() }
    }

    /// The same on a drive of the user's own.
    #[must_use]
    pub fn on_drive(self, drive: Option<Profile>) -> Self {
        Self { drive, ..self }
    }

    /// The same with recordings of the user's own.
    #[must_use]
    pub fn with_traces(self, traces: Option<PathBuf>) -> Self {
        Self { traces, ..self }
    }
}

/// Direction of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// At least the goal.
    Higher,
    /// At most the goal.
    Lower,
}

/// Result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The project's own configuration meets a goal beyond the paper's result.
    Beaten,
    /// The paper's result came out, within the row's tolerance.
    Reproduced,
    /// Neither.
    Short,
    /// Shown only, without a goal.
    Shown,
}

/// One figure of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name, stable between versions.
    pub id: String,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's value.
    pub paper: Option<f64>,
    /// Value of this code, set up as the paper describes.
    pub paper_config: Option<f64>,
    /// Value of this code with its own defaults.
    pub ours: Option<f64>,
    /// Goal for `ours`.
    pub goal: Option<f64>,
    /// Direction of the goal.
    pub better: Better,
    /// Largest difference between `paper_config` and `paper`, as a share of `paper`.
    pub tolerance: Option<f64>,
    /// The outcome.
    pub verdict: Verdict,
    /// Distance from the paper's value and from the goal, in words.
    pub margin: String,
    /// The known reason for a difference, or another remark.
    pub note: String,
}

impl Row {
    /// A row without values.
    pub fn new(id: impl Into<String>, unit: &'static str, better: Better) -> Self {
        Self {
            id: id.into(),
            unit,
            paper: None,
            paper_config: None,
            ours: None,
            goal: None,
            better,
            tolerance: None,
            verdict: Verdict::Shown,
            margin: String::new(),
            note: String::new(),
        }
    }

    /// Sets the paper's value, and the tolerance of the paper's configuration.
    #[must_use]
    pub fn paper(self, value: f64, tolerance: f64) -> Self {
        Self { paper: Some(value), tolerance: Some(tolerance), ..self }
    }

    /// Sets the paper's value, to be shown only.
    #[must_use]
    pub fn paper_shown(self, value: f64) -> Self {
        Self { paper: Some(value), ..self }
    }

    /// Sets the value of the paper's configuration.
    #[must_use]
    pub fn paper_config(self, value: f64) -> Self {
        Self { paper_config: Some(value), ..self }
    }

    /// Sets the value of the project's own configuration.
    #[must_use]
    pub fn ours(self, value: f64) -> Self {
        Self { ours: Some(value), ..self }
    }

    /// Sets the goal of the project's own configuration.
    #[must_use]
    pub fn goal(self, value: f64) -> Self {
        Self { goal: Some(value), ..self }
    }

    /// Sets a remark that is shown with the row.
    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Self {
        Self { note: text.into(), ..self }
    }

    /// Decides the verdict from the figures. A row without a goal or tolerance is only shown.
    #[must_use]
    pub fn judged(mut self) -> Self {
        let (mut margins, mut asked, mut short, mut met) = (Vec::new(), false, false, false);
        if let (Some(paper), Some(found), Some(tolerance)) = (self.paper, self.paper_config, self.tolerance) {
            let off = (found - paper) / paper;
            (asked, short) = (true, off.abs() > tolerance);
            margins.push(format!("paper's configuration {:+.1} % from the paper", off * 100.0));
        }
        if let (Some(goal), Some(ours)) = (self.goal, self.ours) {
            met = match self.better {
                Better::Higher => ours >= goal,
                Better::Lower => ours <= goal,
            };
            (asked, short) = (true, short || !met);
            margins.push(margin(self.better, goal, ours, met));
        }
        self.verdict = match (asked, short, met) {
            (false, ..) => Verdict::Shown,
            (_, true, _) => Verdict::Short,
            (_, false, true) => Verdict::Beaten,
            (_, false, false) => Verdict::Reproduced,
        };
        self.margin = margins.join("; ");
        self
    }
}

/// The margin to a goal, in words.
fn margin(better: Better, goal: f64, ours: f64, met: bool) -> String {
    let times = match better {
        Better::Higher => ours / goal,
        Better::Lower => goal / ours,
    };
    match met {
        _ if goal == 0.0 || ours == 0.0 => format!("goal {}", if met { "met" } else { "missed" }),
        true if times >= 2.0 => format!("goal met {times:.1} times over"),
        true => format!("goal met with {:.1} % to spare", (ours / goal - 1.0).abs() * 100.0),
        false => format!("goal missed by {:.1} %", (ours / goal - 1.0).abs() * 100.0),
    }
}

/// Findings of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures that count.
    pub rows: Vec<Row>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Remarks on this run.
    pub remarks: Vec<String>,
}

/// Reason why an experiment ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabError(pub String);

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LabError {}

/// One question, and the way to its answer.
pub struct Experiment {
    /// Name in commands.
    pub name: &'static str,
    /// Its question.
    pub question: &'static str,
    /// The paper's expectation, with the section.
    pub expectation: &'static str,
    /// Its setup.
    pub setup: &'static str,
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
        let mut outcome = (self.run)(context)?;
        if let Some(drive) = &context.drive
            && self.name != CALIBRATION
        {
            for row in outcome.rows.iter_mut().filter(|row| row.verdict != Verdict::Shown) {
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
    use super::*;

    #[test]
    fn on_a_drive_of_ones_own_only_goals_are_asked_for() {
        fn run(_: &mut Context) -> Result<Outcome, LabError> {
            let row = || Row::new("r", "MB/s", Better::Higher).paper(110.0, 0.1).paper_config(50.0);
            let rows = vec![row().judged(), row().goal(40.0).ours(45.0).judged()];
            Ok(Outcome { rows, ..Outcome::default() })
        }
        let experiment = Experiment { name: "x", question: "", expectation: "", setup: "", run };
        let verdicts = |drive: Option<Profile>| {
            let mut context = Context::new(1, Scale::Quick, Rc::new(|_, _| {})).on_drive(drive);
            let outcome = experiment.perform(&mut context).unwrap();
            (outcome.rows.iter().map(|row| row.verdict).collect::<Vec<_>>(), outcome.remarks.len())
        };
        assert_eq!(verdicts(None), (vec![Verdict::Short, Verdict::Short], 0));
        let own = Profile::named("hc650").unwrap();
        assert_eq!(verdicts(Some(own)), (vec![Verdict::Shown, Verdict::Beaten], 1));
    }

    #[test]
    fn a_row_is_judged_by_its_goal_and_its_tolerance() {
        let row = || Row::new("r", "MB/s", Better::Higher).paper(110.0, 0.1);
        assert_eq!(row().paper_config(105.0).judged().verdict, Verdict::Reproduced);
        assert_eq!(row().paper_config(90.0).judged().verdict, Verdict::Short);
        assert_eq!(row().paper_config(105.0).goal(176.0).ours(180.0).judged().verdict, Verdict::Beaten);
        let short = row().paper_config(105.0).goal(176.0).ours(150.0).judged();
        assert_eq!(short.verdict, Verdict::Short);
        assert!(short.margin.contains("missed by 14.8 %"), "{}", short.margin);
        assert!(short.margin.contains("-4.5 % from the paper"), "{}", short.margin);
        assert_eq!(row().judged().verdict, Verdict::Shown, "nothing was found that could be compared");
        let lower = Row::new("r", "s", Better::Lower).goal(10.0);
        assert_eq!(lower.clone().ours(9.0).judged().verdict, Verdict::Beaten);
        assert_eq!(lower.ours(11.0).judged().verdict, Verdict::Short);
    }
}
