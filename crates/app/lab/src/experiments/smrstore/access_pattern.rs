//! Zones written over a few seconds. (SMRstore, Figures 5 and 15.)

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use shingle_chunk_store::PoolSizes;
use shingle_sim::{CommandKind, Sim};

use crate::baseline::f2fs::F2fsOptions;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::micro::{self, Micro};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "access-pattern",
        question: "Which zones does each store write to within a few seconds?",
        setup: "The load of micro-write with 512 KiB appends; every write command of some seconds, by its zone. The paper's stores are behind Linux 4.19, the project's own behind Linux 6.10; goals \
                are judged with both configurations behind the same kernel.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Every write: its time in seconds, and its zone.
type Writes = Vec<(f64, f64)>;

/// A store behind a kernel, and the name of its picture.
type Case = (Store, Host, &'static str);

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let seconds: u32 = context.scale.pick(4, 8, 8);
    let (f2fs, paper, ours) =
        (Store::F2fs(F2fsOptions::default()), Store::Engine(Setup::Paper), Store::Engine(Setup::Ours));
    let (old, new) = (Host::linux_4_19(), Host::linux_6_10());
    let cases: [Case; 5] = [
        (f2fs, old, "f2fs"),
        (paper, old, "paper"),
        (ours, new, "ours"),
        (paper, new, "paper-6.10"),
        (ours, old, "ours-4.19"),
    ];
    let mut all = Vec::new();
    for (number, &(store, host, _)) in cases.iter().enumerate() {
        (context.progress)(store.name(), Some(number as f64 / cases.len() as f64));
        all.push(measure(store, host, seconds, context)?);
    }
    let rows = rows(&all);
    let figures = cases
        .iter()
        .zip(all)
        .map(|((store, host, short), writes)| Figure {
            name: format!("access-pattern-{short}"),
            title: format!("Zones written, {}, {} (SMRstore, Figures 5 and 15)", store.name(), host.name),
            x: Axis::linear("time (s)"),
            y: Axis::linear("zone"),
            series: vec![Series::new(store.name(), Mark::Dots, writes)],
        })
        .collect();
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

/// The rows of all cases, in the order of `run`. A goal is that of the paper's configuration behind the same kernel, and judged behind the
/// kernel where ours is farther from it.
fn rows(all: &[Writes]) -> Vec<Row> {
    let [f2fs, paper, ours, paper_new, ours_old] = all else { return Vec::new() };
    let stays = |writes: &Writes| share_that_stays(writes) * 100.0;
    let at_equal = |row: Row, of: &dyn Fn(&Writes) -> f64| {
        let pairs = [("Linux 4.19", of(paper), of(ours_old)), ("Linux 6.10", of(paper_new), of(ours))];
        let ahead = |(_, theirs, ours): &(&str, f64, f64)| match row.better {
            Better::Higher => ours - theirs,
            Better::Lower => theirs - ours,
        };
        let (host, goal, ours) = if ahead(&pairs[0]) < ahead(&pairs[1]) { pairs[0] } else { pairs[1] };
        let note = format!(
            "the goal is the paper's configuration behind the same kernel, {host}, where ours is farther from it"
        );
        let note = if row.note.is_empty() { note } else { format!("{}; {note}", row.note) };
        row.paper_config(of(paper)).ours(ours).goal(goal).note(note).judged()
    };
    vec![
        Row::new("zones written in a second, CS-F2FS", "zones", Better::Lower)
            .paper_config(zones_a_second(f2fs))
            .note("Figure 5 shows one zone of data at a time; a log of nodes is written beside it")
            .judged(),
        at_equal(
            Row::new("zones written in a second", "zones", Better::Lower)
                .paper_at_least(f64::from(PoolSizes::default().gc) / 2.0)
                .note(
                    "Figure 15 shows zones all over the open ones; half of those open for the stream is taken for that",
                ),
            &zones_a_second,
        ),
        Row::new("writes to the zone of the write before, CS-F2FS", "%", Better::Higher)
            .paper_at_least(50.0)
            .note("the paper: one zone at a time; most is taken for that")
            .paper_config(stays(f2fs))
            .judged(),
        at_equal(Row::new("writes to the zone of the write before", "%", Better::Higher), &stays),
    ]
}

fn measure(store: Store, host: Host, seconds: u32, context: &Context) -> Result<Writes, LabError> {
    const WARM_UP: Duration = Duration::from_secs(4);
    let load = Micro::paper(512 << 10, WARM_UP, Duration::from_secs(u64::from(seconds)));
    let drive = store.drive(context)?;
    context.on_host(host);
    Sim::new(context.seed).run(move |rt| async move {
        let (target, device) = store.format(&rt, &drive, host).await?;
        let writes: Rc<RefCell<Writes>> = Rc::default();
        let (seen, clock) = (writes.clone(), rt.clone());
        let began = rt.now();
        device.on_command(move |command, _| {
            let since = clock.now().since(began);
            if let (CommandKind::Write, Some(zone), true) = (command.kind, command.zone, since >= WARM_UP) {
                seen.borrow_mut().push(((since - WARM_UP).as_secs_f64(), f64::from(zone.0)));
            }
        });
        micro::write(&rt, target, load).await?;
        let mut writes = writes.take();
        writes.retain(|write| write.0 < f64::from(seconds));
        Ok(writes)
    })
}

/// Distinct zones written in a second, in the mean.
fn zones_a_second(writes: &Writes) -> f64 {
    let pairs: BTreeSet<(u64, u64)> = writes.iter().map(|&(time, zone)| (time as u64, zone as u64)).collect();
    let seconds: BTreeSet<u64> = pairs.iter().map(|pair| pair.0).collect();
    pairs.len() as f64 / seconds.len().max(1) as f64
}

/// The share of writes that go to the zone of the one before.
fn share_that_stays(writes: &Writes) -> f64 {
    let stays = writes.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    stays as f64 / (writes.len().max(2) - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Verdict;

    #[test]
    fn zones_are_counted_by_the_second() {
        let writes = vec![(0.1, 5.0), (0.2, 5.0), (0.9, 6.0), (1.5, 6.0)];
        assert_eq!(zones_a_second(&writes), 1.5);
        assert_eq!(share_that_stays(&writes), 2.0 / 3.0);
    }

    /// Ours behind a newer kernel is not held against the paper's configuration behind an older one.
    #[test]
    fn goals_are_those_behind_the_same_kernel() {
        let of_zones = |zones: u64| -> Writes { (0..zones).map(|zone| (0.5, zone as f64)).collect() };
        let met = |[paper, ours, paper_new, ours_old]: [u64; 4]| {
            let rows = rows(&[1, paper, ours, paper_new, ours_old].map(of_zones));
            (rows[1].ours, rows[1].goal, rows[1].goal_met)
        };
        assert_eq!(met([35, 22, 25, 30]), (Some(22.0), Some(25.0), Some(Verdict::Yes)), "the nearer one is judged");
        assert_eq!(met([35, 22, 20, 30]), (Some(22.0), Some(20.0), Some(Verdict::No)));
    }
}
