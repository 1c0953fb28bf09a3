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
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "access-pattern",
        question: "Which zones does each store write to within a few seconds?",
        setup: "The load of micro-write with 512 KiB appends; every write command of some seconds, by its zone.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Every write: its time in seconds, and its zone.
type Writes = Vec<(f64, f64)>;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let seconds: u32 = context.scale.pick(4, 8, 8);
    let stores = [Store::F2fs(F2fsOptions::default()), Store::Engine(Setup::Paper), Store::Engine(Setup::Ours)];
    let mut all = Vec::new();
    for (number, &store) in stores.iter().enumerate() {
        (context.progress)(store.name(), Some(number as f64 / stores.len() as f64));
        all.push(measure(store, seconds, context)?);
    }
    let zones: Vec<f64> = all.iter().map(zones_a_second).collect();
    let stays: Vec<f64> = all.iter().map(share_that_stays).collect();
    let rows = vec![
        Row::new("zones written in a second, CS-F2FS", "zones", Better::Lower)
            .paper_config(zones[0])
            .note("Figure 5 shows one zone of data at a time; a log of nodes is written beside it")
            .judged(),
        Row::new("zones written in a second", "zones", Better::Lower)
            .paper_at_least(f64::from(PoolSizes::default().gc) / 2.0)
            .paper_config(zones[1])
            .ours(zones[2])
            .goal(zones[1])
            .note("Figure 15 shows zones all over the open ones; half of those open for the stream is taken for that")
            .judged(),
        Row::new("writes to the zone of the write before, CS-F2FS", "%", Better::Higher)
            .paper_at_least(50.0)
            .note("the paper: one zone at a time; most is taken for that")
            .paper_config(stays[0] * 100.0)
            .judged(),
        Row::new("writes to the zone of the write before", "%", Better::Higher)
            .paper_config(stays[1] * 100.0)
            .ours(stays[2] * 100.0)
            .goal(stays[1] * 100.0)
            .judged(),
    ];
    let figures = stores
        .iter()
        .zip(["f2fs", "paper", "ours"])
        .zip(all)
        .map(|((store, short), writes)| Figure {
            name: format!("access-pattern-{short}"),
            title: format!("Zones written, {} (SMRstore, Figures 5 and 15)", store.name()),
            x: Axis::linear("time (s)"),
            y: Axis::linear("zone"),
            series: vec![Series::new(store.name(), Mark::Dots, writes)],
        })
        .collect();
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

fn measure(store: Store, seconds: u32, context: &Context) -> Result<Writes, LabError> {
    const WARM_UP: Duration = Duration::from_secs(4);
    let load = Micro::paper(512 << 10, WARM_UP, Duration::from_secs(u64::from(seconds)));
    let drive = store.drive(context)?;
    Sim::new(context.seed).run(move |rt| async move {
        let (target, device) = store.format(&rt, &drive).await?;
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

    #[test]
    fn zones_are_counted_by_the_second() {
        let writes = vec![(0.1, 5.0), (0.2, 5.0), (0.9, 6.0), (1.5, 6.0)];
        assert_eq!(zones_a_second(&writes), 1.5);
        assert_eq!(share_that_stays(&writes), 2.0 / 3.0);
    }
}
