//! What an experiment is, and what it answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use serde::Serialize;

use crate::figure::Figure;
use crate::load::multistream::MultiStreamResult;

/// How long and how large a run is. A smaller scale has fewer zones and less virtual time, never another load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds: what the tests run.
    Quick,
    /// Minutes: what the report shows unless told otherwise.
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

/// Hears what is being done, and the share of it that is done where that is known.
pub type Told = Rc<dyn Fn(&str, Option<f64>)>;

/// What an experiment is given.
pub struct Context {
    /// Decides everything that is random.
    pub seed: u64,
    /// How large a run is.
    pub scale: Scale,
    /// Told what is being done, and the share of it that is done where that is known.
    pub progress: Told,
    /// Multi-stream runs that were done already: several experiments look at the same ones.
    pub(crate) runs: RefCell<BTreeMap<String, Rc<MultiStreamResult>>>,
}

impl Context {
    /// A context in which nothing has been run.
    pub fn new(seed: u64, scale: Scale, progress: Told) -> Self {
        Self { seed, scale, progress, runs: RefCell::default() }
    }
}

/// Which way a goal is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// At least the goal.
    Higher,
    /// At most the goal.
    Lower,
}

/// How a row came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The project's own configuration meets a goal beyond the paper's result.
    Beaten,
    /// The paper's result came out, within the row's tolerance.
    Reproduced,
    /// Neither.
    Short,
    /// Nothing is asked of it: it is there to be looked at.
    Shown,
}

/// One figure of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name, stable between versions.
    pub id: String,
    /// Its unit.
    pub unit: &'static str,
    /// What the paper found.
    pub paper: Option<f64>,
    /// What this code finds, set up as the paper describes.
    pub paper_config: Option<f64>,
    /// What this code finds with its own defaults.
    pub ours: Option<f64>,
    /// What `ours` is to reach.
    pub goal: Option<f64>,
    /// Which way the goal lies.
    pub better: Better,
    /// By how much `paper_config` may differ from `paper`, as a share of it.
    pub tolerance: Option<f64>,
    /// The outcome.
    pub verdict: Verdict,
    /// By how much it falls short, and what is known of the reason.
    pub note: String,
}

impl Row {
    /// A row of which nothing is known yet.
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
            note: String::new(),
        }
    }

    /// The paper's value, and how near the paper's configuration must come to it.
    #[must_use]
    pub fn paper(self, value: f64, tolerance: f64) -> Self {
        Self { paper: Some(value), tolerance: Some(tolerance), ..self }
    }

    /// The paper's value, which is only shown.
    #[must_use]
    pub fn paper_shown(self, value: f64) -> Self {
        Self { paper: Some(value), ..self }
    }

    /// What the paper's configuration came to.
    #[must_use]
    pub fn paper_config(self, value: f64) -> Self {
        Self { paper_config: Some(value), ..self }
    }

    /// What the project's own came to.
    #[must_use]
    pub fn ours(self, value: f64) -> Self {
        Self { ours: Some(value), ..self }
    }

    /// What the project's own is to reach.
    #[must_use]
    pub fn goal(self, value: f64) -> Self {
        Self { goal: Some(value), ..self }
    }

    /// A remark that is shown with the row.
    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Self {
        Self { note: text.into(), ..self }
    }

    /// Decides the verdict from the figures.
    #[must_use]
    pub fn judged(mut self) -> Self {
        let mut short = Vec::new();
        if let (Some(paper), Some(found), Some(tolerance)) = (self.paper, self.paper_config, self.tolerance) {
            let off = (found - paper) / paper;
            if off.abs() > tolerance {
                short.push(format!("the paper's configuration is off by {:+.0} %", off * 100.0));
            }
        }
        let mut met = false;
        if let (Some(goal), Some(ours)) = (self.goal, self.ours) {
            met = match self.better {
                Better::Higher => ours >= goal,
                Better::Lower => ours <= goal,
            };
            if !met {
                let off = (ours - goal) / goal;
                short.push(format!("the goal is missed by {:.1} %", off.abs() * 100.0));
            }
        }
        self.verdict = match (short.is_empty(), met) {
            (false, _) => Verdict::Short,
            (true, true) => Verdict::Beaten,
            (true, false) => Verdict::Reproduced,
        };
        if !short.is_empty() {
            let why = short.join("; ");
            self.note = if self.note.is_empty() { why } else { format!("{why}. {}", self.note) };
        }
        self
    }
}

/// What an experiment found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures that count.
    pub rows: Vec<Row>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Remarks on this run.
    pub remarks: Vec<String>,
}

/// Why an experiment ended early.
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
    /// What commands call it.
    pub name: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// What the paper leads one to expect, with the section.
    pub expectation: &'static str,
    /// How it is set up.
    pub setup: &'static str,
    /// Answers it.
    pub run: fn(&mut Context) -> Result<Outcome, LabError>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_its_goal_and_its_tolerance() {
        let row = || Row::new("r", "MB/s", Better::Higher).paper(110.0, 0.1);
        assert_eq!(row().paper_config(105.0).judged().verdict, Verdict::Reproduced);
        assert_eq!(row().paper_config(90.0).judged().verdict, Verdict::Short);
        assert_eq!(row().paper_config(105.0).goal(176.0).ours(180.0).judged().verdict, Verdict::Beaten);
        let short = row().paper_config(105.0).goal(176.0).ours(150.0).judged();
        assert_eq!(short.verdict, Verdict::Short);
        assert!(short.note.contains("14.8 %"), "{}", short.note);
        let lower = Row::new("r", "s", Better::Lower).goal(10.0);
        assert_eq!(lower.clone().ours(9.0).judged().verdict, Verdict::Beaten);
        assert_eq!(lower.ours(11.0).judged().verdict, Verdict::Short);
    }
}
