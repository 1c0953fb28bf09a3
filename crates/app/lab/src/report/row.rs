//! Rows: figures beside the paper's value and a goal, and their verdicts.
//!
//! **Owns** the way from figures to verdicts.
//! **Knows nothing of** how a figure is measured, or of other runs.
//!
//! # Invariants
//! - LAB-ROW-1: no factor is reproduced by a run without the effect, and none by one with less than half of it.

use serde::Serialize;

/// Name of the row of drives that lose no turn, beside that of those that do.
pub const NO_TURN_LOST: &str = "no turn lost";

/// Name of the row of drives whose volatile cache is on, beside that of those whose cache is off.
pub const CACHE_ON: &str = "drive's cache on";

/// Direction of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// At least the goal.
    Higher,
    /// At most the goal.
    Lower,
}

/// Answer to a question about a row; nothing where it is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes.
    Yes,
    /// No.
    No,
    /// The paper's value lies between those that come of inputs which the paper does not give.
    Consistent,
    /// Yes or no, by what nobody knows of a drive: whether it loses a turn at each write in sequence without a write cache, or whether its cache
    /// was on.
    Depends,
}

/// Side of a paper's value that its words leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// "More than".
    AtLeast,
    /// "Less than".
    AtMost,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    /// A verdict in a table for people.
    pub fn word(verdict: Option<Self>) -> &'static str {
        match verdict {
            Some(Self::Yes) => "yes",
            Some(Self::No) => "NO",
            Some(Self::Consistent) => "consistent",
            Some(Self::Depends) => "depends",
            None => "",
        }
    }
}

/// The class of a verdict on a page, which gives it its colour.
pub(super) fn class(verdict: Option<Verdict>) -> &'static str {
    if matches!(verdict, Some(Verdict::Yes | Verdict::Consistent)) { "yes" } else { "no" }
}

/// The worst values of several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Number of seeds.
    pub seeds: usize,
    /// The paper's configuration, where it is farthest from the paper; or, without a value of the paper, worst.
    pub paper_config: Option<f64>,
    /// The project's own, where it is farthest on the wrong side of its goal.
    pub ours: Option<f64>,
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
    /// The paper gives a bound and no value.
    pub bound: Option<Bound>,
    /// Value of this code, set up as the paper describes.
    pub paper_config: Option<f64>,
    /// Least and most of it, over inputs that the paper does not give and that were tried.
    pub tried: Option<[f64; 2]>,
    /// Value of this code with its own defaults.
    pub ours: Option<f64>,
    /// Goal for `ours`.
    pub goal: Option<f64>,
    /// Direction of the goal.
    pub better: Better,
    /// Largest difference between `paper_config` and `paper`, as a share of `paper`; of a factor, that of the larger one from the smaller one.
    pub tolerance: Option<f64>,
    /// `paper` is a factor, of which a half and the double are as far away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub factor: bool,
    /// Reproduced? The paper's configuration comes to the paper's value, within the tolerance.
    pub reproduced: Option<Verdict>,
    /// Goal met? By the project's own defaults.
    pub goal_met: Option<Verdict>,
    /// Distance from the paper's value and from the goal, in words.
    pub margin: String,
    /// The known reason for a difference, or another remark.
    pub note: String,
    /// Of several seeds its values are medians, and the worst ones are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// The same where drives without a write cache lose no turn at a write in sequence, if that makes a difference; this row is then of
    /// those that lose one, and its verdicts are of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_turn_lost: Option<Box<Row>>,
    /// The same where the drives' volatile caches are on, if the paper does not say it and it makes a difference; this row is then of those
    /// whose caches are off, and its verdicts are of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_on: Option<Box<Row>>,
}

impl Row {
    /// A row without values.
    pub fn new(id: impl Into<String>, unit: &'static str, better: Better) -> Self {
        Self {
            id: id.into(),
            unit,
            paper: None,
            bound: None,
            paper_config: None,
            tried: None,
            ours: None,
            goal: None,
            better,
            tolerance: None,
            factor: false,
            reproduced: None,
            goal_met: None,
            margin: String::new(),
            note: String::new(),
            worst: None,
            no_turn_lost: None,
            cache_on: None,
        }
    }

    /// Sets the paper's value, and the tolerance of the paper's configuration.
    #[must_use]
    pub fn paper(self, value: f64, tolerance: f64) -> Self {
        Self { paper: Some(value), tolerance: Some(tolerance), ..self }
    }

    /// Sets the paper's factor, and how many times more or less the paper's configuration may come to. A factor other than 1 is an
    /// effect, and at least half of it, in equal factors, must be there (LAB-ROW-1).
    #[must_use]
    pub fn paper_factor(self, value: f64, times: f64) -> Self {
        let half = value.max(1.0 / value).sqrt();
        let times = if value == 1.0 { times } else { times.min(half) };
        Self { paper: Some(value), tolerance: Some(times - 1.0), factor: true, ..self }
    }

    /// Sets a bound that the paper gives for its configuration.
    #[must_use]
    pub fn paper_at_least(self, value: f64) -> Self {
        Self { paper: Some(value), bound: Some(Bound::AtLeast), ..self }
    }

    /// The same from above.
    #[must_use]
    pub fn paper_at_most(self, value: f64) -> Self {
        Self { paper: Some(value), bound: Some(Bound::AtMost), ..self }
    }

    /// Says that an input which the paper does not give was tried, and what came of it: such a row is consistent with the
    /// paper at best.
    #[must_use]
    pub fn tried(self, found: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = found
            .into_iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        Self { tried: (least <= most).then_some([least, most]), ..self }
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

    /// Decides the verdicts from the figures. A row without a goal or tolerance is only shown.
    #[must_use]
    pub fn judged(self) -> Self {
        let (paper, goal) = (self.against_paper(), self.against_goal());
        let verdict = |found: &Option<(Verdict, String)>| found.as_ref().map(|found| found.0);
        let (reproduced, goal_met) = (verdict(&paper), verdict(&goal));
        let words: Vec<String> = [paper, goal].into_iter().flatten().map(|found| found.1).collect();
        Self { reproduced, goal_met, margin: words.join("; "), ..self }
    }

    /// Reproduced? And the distance from the paper, in words.
    pub(super) fn against_paper(&self) -> Option<(Verdict, String)> {
        let paper = self.paper?;
        if let Some([least, most]) = self.tried {
            let near = |tolerance: f64| [least, most].into_iter().any(|found| self.distance(paper, found) <= tolerance);
            let within = match (self.tolerance, self.bound) {
                (Some(tolerance), _) => (least <= paper && paper <= most) || near(tolerance),
                (None, Some(Bound::AtLeast)) => most >= paper,
                (None, Some(Bound::AtMost)) => least <= paper,
                (None, None) => return None,
            };
            let range = if least < most { format!("{least:.1} to {most:.1}") } else { format!("{least:.1}") };
            let words = format!("paper's configuration {range}, by inputs that the paper does not give");
            return Some((if within { Verdict::Consistent } else { Verdict::No }, words));
        }
        let found = self.paper_config?;
        if let Some(tolerance) = self.tolerance {
            let off = (found - paper) / paper;
            let words = format!("paper's configuration {:+.1} % from the paper", off * 100.0);
            return Some((Verdict::of(self.distance(paper, found) <= tolerance), words));
        }
        let (holds, words) = match self.bound? {
            Bound::AtLeast => (found >= paper, "at least"),
            Bound::AtMost => (found <= paper, "at most"),
        };
        Some((Verdict::of(holds), format!("the paper: {words} that")))
    }

    /// Distance of a value from the paper's, as `tolerance` has it.
    pub(super) fn distance(&self, paper: f64, found: f64) -> f64 {
        match self.factor {
            true => (found / paper).max(paper / found) - 1.0,
            false => (found / paper - 1.0).abs(),
        }
    }

    /// Goal met? And the distance from it, in words.
    pub(super) fn against_goal(&self) -> Option<(Verdict, String)> {
        let (goal, ours) = (self.goal?, self.ours?);
        let met = match self.better {
            Better::Higher => ours >= goal,
            Better::Lower => ours <= goal,
        };
        Some((Verdict::of(met), margin(self.better, goal, ours, met)))
    }

    /// It, and the rows of other suppositions about the drives if they are other ones; each with a word for which it is.
    pub fn ways(&self) -> impl Iterator<Item = (&'static str, &Self)> {
        let first = match (&self.no_turn_lost, &self.cache_on) {
            (Some(_), _) => "turns lost",
            (None, Some(_)) => "drive's cache off",
            (None, None) => "",
        };
        let none_lost = self.no_turn_lost.as_deref().map(|row| (NO_TURN_LOST, row));
        [(first, self)].into_iter().chain(none_lost).chain(self.cache_on.as_deref().map(|row| (CACHE_ON, row)))
    }

    /// True if a word of [`ways`](Self::ways) is not that of the row itself.
    pub fn is_other_way(word: &str) -> bool {
        [NO_TURN_LOST, CACHE_ON].contains(&word)
    }

    /// True if it has a verdict.
    pub fn is_judged(&self) -> bool {
        self.reproduced.is_some() || self.goal_met.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_its_goal_and_its_tolerance() {
        let row = || Row::new("r", "MB/s", Better::Higher).paper(110.0, 0.1);
        let verdicts = |row: Row| {
            let row = row.judged();
            (row.reproduced, row.goal_met)
        };
        let (yes, no) = (Some(Verdict::Yes), Some(Verdict::No));
        assert_eq!(verdicts(row().paper_config(105.0)), (yes, None));
        assert_eq!(verdicts(row().paper_config(90.0)), (no, None));
        assert_eq!(verdicts(row().paper_config(105.0).goal(176.0).ours(180.0)), (yes, yes));
        assert_eq!(
            verdicts(row().paper_config(90.0).goal(176.0).ours(180.0)),
            (no, yes),
            "one does not hide the other"
        );
        assert_eq!(verdicts(row().paper_config(105.0).goal(176.0).ours(150.0)), (yes, no));
        let short = row().paper_config(105.0).goal(176.0).ours(150.0).judged();
        assert!(short.margin.contains("missed by 14.8 %"), "{}", short.margin);
        assert!(short.margin.contains("-4.5 % from the paper"), "{}", short.margin);
        assert!(!row().judged().is_judged(), "nothing was found that could be compared");
        let bound = |row: Row| row.paper_config(240.0).judged().reproduced;
        let row = || Row::new("r", "s", Better::Lower);
        assert_eq!(bound(row().paper_at_least(239.0)), yes);
        assert_eq!([bound(row().paper_at_least(241.0)), bound(row().paper_at_most(239.0))], [no, no]);
        let tried = |found: [f64; 3]| row().paper(94.4, 0.15).paper_config(94.4).tried(found).judged().reproduced;
        assert_eq!(tried([50.0, 70.0, 200.0]), Some(Verdict::Consistent), "never more than consistent");
        assert_eq!(tried([120.0, 150.0, 200.0]), no);
        let tried = |found: [f64; 2]| bound(row().paper_at_most(100.0).tried(found));
        assert_eq!([tried([90.0, 120.0]), tried([110.0, 120.0])], [Some(Verdict::Consistent), no]);
        let lower = Row::new("r", "s", Better::Lower).goal(10.0);
        assert_eq!(verdicts(lower.clone().ours(9.0)), (None, yes));
        assert_eq!(verdicts(lower.ours(11.0)), (None, no));
    }

    /// LAB-ROW-1.
    #[test]
    fn a_factor_is_not_reproduced_without_its_effect() {
        let found = |factor: f64, found: f64| {
            let row = Row::new("r", "x", Better::Higher).paper_factor(factor, 1.5).paper_config(found);
            row.judged().reproduced == Some(Verdict::Yes)
        };
        for factor in [2.0, 10.0, 3.0, 100.0 / 67.0, 1.2, 0.5, 0.05] {
            assert!(found(factor, factor) && !found(factor, 1.0), "{factor}: a tie");
            assert!(!found(factor, factor.powf(0.49)), "{factor}: less than half of the effect");
            assert!(!found(factor, factor * 1.51) && !found(factor, factor / 1.51), "{factor}: too far");
        }
        assert!(found(10.0, 6.7) && found(10.0, 14.9) && !found(10.0, 5.0), "as far up as down");
        assert!(found(1.0, 1.49) && found(1.0, 0.67) && !found(1.0, 0.66), "no effect is none either way");
        assert!(!found(2.0, f64::NAN) && !found(2.0, 0.0), "nothing was measured");
    }
}
