//! One row out of those that several runs of an experiment made.
//!
//! # Invariants
//! - LAB-JOIN-1: a verdict of several seeds is that of the worst one.
//! - LAB-JOIN-2: a verdict is yes only if it is so under each supposition about the drives: whether those without a write cache lose turns, and
//!   whether a cache was on of which the paper does not say it.

use super::number::number;
use super::row::{Better, Bound, Row, Verdict, Worst};

/// The row of several seeds: medians, and the verdicts of the worst (LAB-JOIN-1).
pub(crate) fn of_seeds(rows: &[Row]) -> Option<Row> {
    let first = rows.first()?;
    if rows.len() == 1 {
        return Some(first.clone());
    }
    let paper = worst(rows, |row| Some((row.against_paper().map(|found| found.0), off_paper(row)?)));
    let ours = worst(rows, |row| Some((row.against_goal().map(|found| found.0), off_goal(row)?)));
    let values = Worst {
        seeds: rows.len(),
        paper_config: paper.and_then(|row| row.paper_config),
        ours: ours.and_then(|row| row.ours),
    };
    let paper_found = paper.and_then(Row::against_paper).filter(|_| first.reproduced.is_some());
    let goal_found = ours.and_then(Row::against_goal).filter(|_| first.goal_met.is_some());
    let words = |value: Option<f64>, found: &Option<(Verdict, String)>| {
        let (value, words) = (value?, &found.as_ref()?.1);
        Some(format!("worst of {} seeds {}: {words}", rows.len(), number(value)))
    };
    let mut margins: Vec<String> =
        [words(values.paper_config, &paper_found), words(values.ours, &goal_found)].into_iter().flatten().collect();
    if margins.is_empty() {
        let worst: Vec<String> = [values.paper_config, values.ours].into_iter().flatten().map(number).collect();
        margins.push(format!("worst of {} seeds: {}", rows.len(), worst.join(" and ")));
    }
    Some(Row {
        paper_config: median(rows, |row| row.paper_config),
        tried: range(rows),
        ours: median(rows, |row| row.ours),
        goal: median(rows, |row| row.goal),
        reproduced: paper_found.map(|found| found.0),
        goal_met: goal_found.map(|found| found.0),
        margin: margins.join("; "),
        worst: Some(values),
        ..first.clone()
    })
}

/// The row of all suppositions (LAB-JOIN-2): the first one where drives without a write cache lose turns, beside those where they lose none, and
/// where their caches are on. A row without a verdict stays that of the first.
pub(crate) fn of_ways(lost: Row, none_lost: Option<Row>, cache_on: Option<Row>) -> Row {
    let values = |row: &Row| [row.paper_config, row.ours, row.goal];
    let is_other = |row: &Row| {
        let same = values(&lost) == values(row) && lost.worst == row.worst;
        !same && (lost.is_judged() || row.is_judged())
    };
    let (none_lost, cache_on) = (none_lost.filter(is_other), cache_on.filter(is_other));
    let all = || [Some(&lost), none_lost.as_ref(), cache_on.as_ref()].into_iter().flatten();
    let reproduced = in_all(all().filter_map(|row| row.reproduced));
    let goal_met = in_all(all().filter_map(|row| row.goal_met));
    let depends = [reproduced, goal_met].contains(&Some(Verdict::Depends));
    let margin = match (depends, &none_lost, &cache_on) {
        (true, _, Some(_)) => format!("depends on the drive's cache: {}", lost.margin),
        (true, Some(_), None) => format!("depends on the lost turn: {}", lost.margin),
        _ => lost.margin.clone(),
    };
    let (no_turn_lost, cache_on) = (none_lost.map(Box::new), cache_on.map(Box::new));
    Row { reproduced, goal_met, margin, no_turn_lost, cache_on, ..lost }
}

/// The verdict of several suppositions.
fn in_all(verdicts: impl Iterator<Item = Verdict>) -> Option<Verdict> {
    verdicts.reduce(|one, other| match (one, other) {
        (one, other) if one == other => one,
        (Verdict::No | Verdict::Depends, _) | (_, Verdict::No | Verdict::Depends) => Verdict::Depends,
        _ => Verdict::Consistent,
    })
}

/// The row of the worst verdict, and of those with the same the one that is off by most.
fn worst(rows: &[Row], of: impl Fn(&Row) -> Option<(Option<Verdict>, f64)>) -> Option<&Row> {
    let graded = rows.iter().filter_map(|row| of(row).map(|(verdict, off)| (verdict == Some(Verdict::No), off, row)));
    graded.max_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))).map(|graded| graded.2)
}

/// A number that grows with the distance of the paper's configuration from the paper, or from the better side.
fn off_paper(row: &Row) -> Option<f64> {
    let found = row.paper_config?;
    Some(match (row.paper, row.tolerance, row.bound) {
        (Some(paper), Some(_), _) => row.distance(paper, found),
        (_, _, Some(Bound::AtLeast)) => -found,
        (_, _, Some(Bound::AtMost)) => found,
        _ => worse(row.better, found),
    })
}

/// A number that grows as the project's own gets worse.
fn off_goal(row: &Row) -> Option<f64> {
    let ours = row.ours?;
    // Goals that are measured differ between seeds.
    Some(match row.goal {
        Some(goal) if goal != 0.0 => worse(row.better, ours / goal),
        _ => worse(row.better, ours),
    })
}

fn worse(better: Better, value: f64) -> f64 {
    match better {
        Better::Higher => -value,
        Better::Lower => value,
    }
}

/// Least and most that was tried with any seed.
fn range(rows: &[Row]) -> Option<[f64; 2]> {
    let wider = |one: [f64; 2], other: [f64; 2]| [one[0].min(other[0]), one[1].max(other[1])];
    rows.iter().filter_map(|row| row.tried).reduce(wider)
}

/// The middle value, of two middle ones the smaller.
fn median(rows: &[Row], of: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = rows.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YES: Option<Verdict> = Some(Verdict::Yes);
    const NO: Option<Verdict> = Some(Verdict::No);

    fn row(paper_config: f64, ours: f64) -> Row {
        let row = Row::new("r", "MB/s", Better::Higher).paper(100.0, 0.1).paper_config(paper_config);
        row.ours(ours).goal(130.0).judged()
    }

    /// LAB-JOIN-1.
    #[test]
    fn medians_are_shown_and_the_worst_seed_is_judged() {
        let joined = of_seeds(&[row(101.0, 150.0), row(98.0, 140.0), row(105.0, 131.0)]).unwrap();
        assert_eq!((joined.paper_config, joined.ours), (Some(101.0), Some(140.0)));
        assert_eq!((joined.reproduced, joined.goal_met), (YES, YES));
        assert_eq!(joined.worst, Some(Worst { seeds: 3, paper_config: Some(105.0), ours: Some(131.0) }));
        assert!(joined.margin.contains("worst of 3 seeds"), "{}", joined.margin);
        let one_bad = of_seeds(&[row(101.0, 150.0), row(88.0, 129.0), row(105.0, 140.0)]).unwrap();
        assert_eq!((one_bad.paper_config, one_bad.ours), (Some(101.0), Some(140.0)));
        assert_eq!((one_bad.reproduced, one_bad.goal_met), (NO, NO));
        assert_eq!(of_seeds(&[row(101.0, 150.0)]).unwrap().worst, None, "one seed is no sample");
        let tried = of_seeds(&[row(101.0, 150.0).tried([90.0, 101.0]), row(98.0, 140.0).tried([98.0, 120.0])]).unwrap();
        assert_eq!(tried.tried, Some([90.0, 120.0]));
    }

    #[test]
    fn the_worst_is_that_farthest_from_a_goal_of_its_own_and_shown_rows_get_no_verdict() {
        let own = |ours: f64, goal: f64| Row::new("r", "ms", Better::Lower).ours(ours).goal(goal).judged();
        let joined = of_seeds(&[own(10.0, 20.0), own(5.0, 4.0), own(12.0, 20.0)]).unwrap();
        assert_eq!((joined.goal_met, joined.worst.unwrap().ours), (NO, Some(5.0)));
        let shown = |ours: f64| Row::new("r", "ms", Better::Lower).ours(ours);
        let joined = of_seeds(&[shown(1.0), shown(3.0), shown(2.0)]).unwrap();
        assert_eq!((joined.ours, joined.worst.unwrap().ours), (Some(2.0), Some(3.0)));
        assert!(!joined.is_judged());
    }

    /// LAB-JOIN-2.
    #[test]
    fn a_verdict_that_the_lost_turn_decides_says_so() {
        let of_both = |lost: Row, none_lost: Row| of_ways(lost, Some(none_lost), None);
        let joined = of_both(row(100.0, 140.0), row(100.0, 120.0));
        assert_eq!((joined.reproduced, joined.goal_met), (YES, Some(Verdict::Depends)));
        assert!(joined.margin.contains("depends on the lost turn"), "{}", joined.margin);
        assert_eq!(joined.no_turn_lost.unwrap().goal_met, NO);
        assert_eq!(of_both(row(50.0, 120.0), row(40.0, 110.0)).goal_met, NO, "missed either way");
        assert!(of_both(row(100.0, 140.0), row(100.0, 140.0)).no_turn_lost.is_none());
    }

    /// LAB-JOIN-2.
    #[test]
    fn a_verdict_that_the_drives_cache_decides_says_so() {
        let joined = of_ways(row(100.0, 120.0), Some(row(101.0, 121.0)), Some(row(70.0, 140.0)));
        assert_eq!((joined.reproduced, joined.goal_met), (Some(Verdict::Depends), Some(Verdict::Depends)));
        assert!(joined.margin.contains("depends on the drive's cache"), "{}", joined.margin);
        let ways: Vec<&str> = joined.ways().map(|way| way.0).collect();
        assert_eq!(ways, ["turns lost", "no turn lost", "drive's cache on"]);
        let held = of_ways(row(100.0, 140.0), Some(row(70.0, 140.0)), Some(row(100.0, 150.0)));
        assert_eq!((held.reproduced, held.goal_met), (Some(Verdict::Depends), YES), "one of three speaks against it");
    }
}
