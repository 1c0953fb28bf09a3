//! Targets: each result of a paper, this project's goal for it, and the rows that judge both; or the reason why none does yet.
//!
//! **Owns** the list. An experiment's expectation is the part of it that names the experiment, so that no sentence of one is without
//! a row.
//! **Knows nothing of** how a row is made.

mod dissertation;
mod fstl;
mod smore;
mod smrstore;
mod target;

pub use target::{Judged, Target};

use crate::context::Scale;
use crate::report::row::Row;

/// All targets, in the order of the papers.
pub fn all() -> impl Iterator<Item = &'static Target> {
    [smrstore::TARGETS, smore::TARGETS, dissertation::TARGETS, fstl::TARGETS].into_iter().flatten()
}

/// An experiment's expectation, in words.
pub fn expectation(experiment: &str) -> String {
    let words = |target: &Target| {
        let goal = target.goal.map_or(String::new(), |goal| format!("; goal: {goal}"));
        format!("{} ({}){goal}.", target.result, target.place)
    };
    all().filter(|target| target.experiment() == Some(experiment)).map(words).collect::<Vec<_>>().join(" ")
}

/// Targets of an experiment that its rows do not judge, with the reason: each of a target's rows has a verdict, and one at least that of the
/// goal, if there is a goal.
pub fn unjudged(experiment: &str, scale: Scale, rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for target in all().filter(|target| target.experiment() == Some(experiment)) {
        let mut tell = |what: &str| found.push(format!("{}: {}: {what}", target.place, target.result));
        let mut asked = false;
        let rows: Vec<Row> = rows.iter().map(|row| target.as_judged(scale, row)).collect();
        for id in target.ids(scale) {
            let is = |row: &&Row| match id.strip_suffix('*') {
                Some(start) => row.id.starts_with(start),
                None => row.id == *id,
            };
            if !rows.iter().filter(is).any(Row::is_judged) {
                let what = if rows.iter().any(|row| is(&row)) { "is not judged" } else { "is not there" };
                tell(&format!("the row `{id}` {what}"));
            }
            asked |= rows.iter().filter(is).any(|row| row.goal_met.is_some());
        }
        if let (Some(goal), false, false) = (target.goal, asked, target.ids(scale).is_empty()) {
            tell(&format!("no row asks for the goal, {goal}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::report::row::Better;

    #[test]
    fn each_target_names_an_experiment_or_a_reason_and_each_experiment_has_one() {
        let names: Vec<&str> = experiments::all().iter().map(|experiment| experiment.name).chain(["cpu"]).collect();
        for target in all() {
            match target.judged {
                Judged::By(name, ids) | Judged::ByStandard(name, ids) | Judged::FromStandard(name, ids) => {
                    assert!(names.contains(&name) && !ids.is_empty(), "{target:?}");
                }
                Judged::Shown(name, why) => assert!(names.contains(&name) && !why.is_empty(), "{target:?}"),
                Judged::NotYet(why) => assert!(!why.is_empty(), "{target:?}"),
            }
        }
        for name in names {
            assert!(!expectation(name).is_empty(), "{name} expects nothing");
        }
    }

    #[test]
    fn a_row_that_is_away_or_not_judged_is_told() {
        let row = |goal: Option<f64>| {
            let row = Row::new("Space overhead, 1 MiB", "%", Better::Lower).ours(1.0);
            goal.map_or(row.clone(), |goal| row.goal(goal)).judged()
        };
        let told = |rows: &[Row]| unjudged("space", Scale::Quick, rows).join("\n");
        assert!(told(&[]).contains("`Space overhead, 1 MiB` is not there"));
        assert!(told(&[row(None)]).contains("`Space overhead, 1 MiB` is not judged"));
        assert!(!told(&[row(Some(1.2))]).contains("`Space overhead, 1 MiB`"));
        let reproduced = row(None).paper(1.0, 0.5).paper_config(1.0).judged();
        let told_of = |row: Row| told(&[row]).contains("no row asks for the goal, 1.2 %");
        assert!(told_of(reproduced) && !told_of(row(Some(1.2))), "a paper's value is no goal");
        let id = "HC-RR, 4 KiB";
        let told = |row: Row| unjudged("micro-read", Scale::Quick, &[row]).join("\n");
        assert!(
            told(Row::new(id, "MB/s", Better::Higher).ours(1.0).goal(1.0)).contains("`HC-RR, 4 KiB` is not judged")
        );
        let quick = |row: Row| unjudged("stl-map-size", Scale::Quick, &[row]).join("\n");
        let row = || Row::new("src2_2: bytes of memory an extent", "bytes", Better::Lower).ours(20.0);
        let bare = "`src2_2: bytes of memory an extent` is not judged";
        assert!(quick(row()).contains(bare) && !quick(row().goal(16.0)).contains(bare), "a quick row asks, too");
    }
}
