//! Does Skylight tell drives right that nobody has told it of? (Dissertation, chapter 2.)

mod drawn;
mod score;

use shingle_drive_model::Profile;
use shingle_skylight::report::Report;
use shingle_skylight::{Findings, Host, Modelled, Session, Step, Unwatched, emit, loads, survey};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::row::{Better, Row};
use crate::skylight::figures;
use score::Scores;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "skylight",
        question: "Are drives that translate inside told right by the times of their commands alone?",
        setup: "The 5 TB and 8 TB drives of the dissertation; and drives drawn at random over all parameters of the model, \
                conventional ones and SSDs among them, each with jitter of its own. A survey knows nothing of a drive but its \
                times. Closed loop: the profile that it emits, under the loads of Figures 2.4 and 2.15, beside the drive; a disk of which it \
                emits none counts as far off under each.",
        runs: Runs::ONE,
        run,
    }
}

/// Writes until cleaning begins: size in KiB, outstanding, writes. (Table 2.2.)
const TABLE_2_2: [(u64, usize, f64); 5] =
    [(4, 1, 22_800.0), (4, 31, 182_270.0), (64, 31, 182_231.0), (128, 31, 137_496.0), (256, 31, 67_830.0)];

/// Drive, smallest and largest band in MiB. (Table 2.3.)
const TABLE_2_3: [(&str, f64, f64); 2] = [("st5000as0011", 17.0, 36.0), ("st8000as0002", 15.0, 40.0)];

/// Largest distances of the closed loop: of a median and of a 99th percentile.
const CLOSED_LOOP: (f64, f64) = (0.05, 0.15);

fn look(profile: &Profile, seed: u64) -> Result<Option<Findings>, LabError> {
    let Some(mut drive) = Modelled::new(profile, Host { seed, ..Host::default() }) else { return Ok(None) };
    let failed = |halt: shingle_skylight::Halt| LabError(format!("{}: {halt}", profile.model));
    let mut findings = Findings::new(&profile.model, shingle_skylight::Target::blocks(&drive), seed);
    let mut unwatched = Unwatched;
    let mut session = Session::new(&mut drive, &mut unwatched, seed).map_err(failed)?;
    survey(&mut session, &mut findings, &Step::ALL, |_| {}, |_| {}).map_err(failed)?;
    Ok(Some(findings))
}

/// The same writes for every `host`, whose delays differ: one load twice, for the same drive under two draws of a load differs by 5 %.
fn loads_of(profile: &Profile, seed: u64, host: u64) -> Result<Vec<loads::Load>, LabError> {
    let Some(mut drive) = Modelled::new(profile, Host { seed: host, ..Host::default() }) else { return Ok(Vec::new()) };
    let failed = |halt: shingle_skylight::Halt| LabError(format!("{}: {halt}", profile.model));
    let mut unwatched = Unwatched;
    loads::run(&mut Session::new(&mut drive, &mut unwatched, seed).map_err(failed)?).map_err(failed)
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let (mut rows, mut remarks, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    for (name, least, most) in TABLE_2_3 {
        let profile = context.profile(name)?;
        let Some(findings) = look(&profile, context.seed)? else { continue };
        tables(name, (least, most), &findings, &mut rows);
        if pictures.is_empty() {
            pictures = figures(&findings);
        }
    }
    let count = context.scale.pick(8, 100, 400);
    let (mut scores, mut loops) = (Scores::default(), Loops::default());
    for number in 0..count {
        let drive = drawn::draw(number, context.seed)?;
        (context.progress)(drive.kind, Some(number as f64 / count as f64));
        let Some(findings) = look(&drive.profile, context.seed + number)? else { continue };
        let emitted = emit::profile(&findings, "emitted");
        scores.score(&drive.profile, &findings, emitted.as_ref().ok());
        if findings.is_shingled() {
            remarks.extend(Report::of(&findings, true).properties.into_iter().filter_map(|property| {
                let reason = property.reason.filter(|reason| !reason.starts_with("the drive has no volatile cache"))?;
                Some(format!("{}: {}: cannot tell: {reason}", drive.profile.model, property.title))
            }));
        }
        match &emitted {
            Ok(emitted) => loops.take(&drive.profile, emitted, context.seed)?,
            Err(_) if drive.profile.mechanics.is_none() => {}
            Err(reason) => {
                loops.without_profile(&drive.profile, context.seed)?;
                remarks.push(format!("{}: no profile: {reason}", drive.profile.model));
            }
        }
    }
    rows.extend(scored(&scores, count));
    rows.extend(loops.rows());
    remarks.extend(scores.wrong);
    remarks.extend(loops.far);
    Ok(Outcome { rows, figures: pictures, remarks, ..Outcome::default() })
}

fn tables(name: &str, (least, most): (f64, f64), findings: &Findings, rows: &mut Vec<Row>) {
    let fills = findings.capacity.as_ref().map_or(&[][..], |found| &found.fills);
    for (kib, depth, writes) in TABLE_2_2.into_iter().filter(|_| name == TABLE_2_3[0].0) {
        let row = Row::new(
            format!("{name}: writes of {kib} KiB, {depth} outstanding, until cleaning"),
            "writes",
            Better::Higher,
        )
        .paper(writes, 0.05);
        let found = fills.iter().find(|fill| (fill.kib, fill.depth) == (kib, depth)).and_then(|fill| fill.writes);
        rows.push(found.map_or(row.clone(), |found| row.paper_config(found as f64)).judged());
    }
    let sizes: Vec<f64> = findings.known_bands().map(|(_, band)| band.blocks as f64 / 256.0).collect();
    for (what, paper, found) in [
        ("smallest band", least, sizes.iter().copied().fold(f64::NAN, f64::min)),
        ("largest band", most, sizes.iter().copied().fold(f64::NAN, f64::max)),
    ] {
        rows.push(
            Row::new(format!("{name}: {what}"), "MiB", Better::Higher).paper(paper, 0.06).paper_config(found).judged(),
        );
    }
}

fn scored(scores: &Scores, count: u64) -> Vec<Row> {
    let mut rows = vec![
        Row::new("conventional drives called shingled", "drives", Better::Lower)
            .ours(f64::from(scores.called_shingled))
            .goal(0.0)
            .note(format!("of {count} drawn"))
            .judged(),
    ];
    for (&(size, name), tally) in &scores.tallies {
        let all = tally.right + tally.untold + tally.wrong;
        let what = if size { format!("{name}, within 5 %") } else { name.to_owned() };
        rows.push(
            Row::new(format!("drawn: {what}: right"), "%", Better::Higher)
                .ours(100.0 * f64::from(tally.right) / f64::from(all.max(1)))
                .goal(100.0)
                .note(format!("{} right, {} cannot tell, {} wrong", tally.right, tally.untold, tally.wrong))
                .judged(),
        );
    }
    rows
}

/// Closed loops of all drives.
#[derive(Default)]
struct Loops {
    /// Distances of medians and of 99th percentiles; none of loads of a drive without a profile.
    medians: Vec<Option<f64>>,
    p99s: Vec<Option<f64>>,
    /// Those that are too far, in words.
    far: Vec<String>,
}

impl Loops {
    fn take(&mut self, drive: &Profile, emitted: &Profile, seed: u64) -> Result<(), LabError> {
        for (real, model) in loads_of(drive, seed, seed)?.iter().zip(loads_of(emitted, seed, seed + 1)?) {
            let (median, p99) = (model.median_ms / real.median_ms - 1.0, model.p99_ms / real.p99_ms - 1.0);
            if median.abs() > CLOSED_LOOP.0 || p99.abs() > CLOSED_LOOP.1 {
                let percent = |off: f64| format!("{:+.1} %", off * 100.0);
                self.far.push(format!(
                    "{}: {}: median {}, p99 {}",
                    drive.model,
                    real.name,
                    percent(median),
                    percent(p99)
                ));
            }
            self.medians.push(Some(median.abs()));
            self.p99s.push(Some(p99.abs()));
        }
        Ok(())
    }

    /// A disk that no profile was emitted of: the loop is open for each of its loads.
    fn without_profile(&mut self, drive: &Profile, seed: u64) -> Result<(), LabError> {
        let loads = loads_of(drive, seed, seed)?.len();
        self.medians.extend(vec![None; loads]);
        self.p99s.extend(vec![None; loads]);
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        [("median", &self.medians, CLOSED_LOOP.0), ("99th percentile", &self.p99s, CLOSED_LOOP.1)]
            .into_iter()
            .map(|(what, off, limit)| {
                let told: Vec<f64> = off.iter().copied().flatten().collect();
                let met = told.iter().filter(|off| **off <= limit).count() as f64;
                Row::new(format!("closed loop: {what} within {:.0} %", limit * 100.0), "%", Better::Higher)
                    .ours(100.0 * met / off.len().max(1) as f64)
                    .goal(100.0)
                    .note(format!(
                        "{} loads, {} of them of drives without a profile; farthest of the others {:.1} %",
                        off.len(),
                        off.len() - told.len(),
                        told.iter().copied().fold(0.0, f64::max) * 100.0
                    ))
                    .judged()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Verdict;

    #[test]
    fn a_drive_without_a_profile_closes_no_loop() {
        let drive = Profile::named("st8000as0002").unwrap();
        let goals = |loops: &Loops| loops.rows().iter().map(|row| (row.ours, row.goal_met)).collect::<Vec<_>>();
        let mut loops = Loops { medians: vec![Some(0.01)], p99s: vec![Some(0.01)], far: Vec::new() };
        assert_eq!(goals(&loops), [(Some(100.0), Some(Verdict::Yes)); 2]);
        loops.without_profile(&drive, 1).unwrap();
        let share = 100.0 / loops.medians.len() as f64;
        assert!(loops.medians.len() > 1, "the drive has loads");
        assert_eq!(goals(&loops), [(Some(share), Some(Verdict::No)); 2]);
    }
}
