//! RC-LOG-1 to RC-LOG-4: wherever the power fails, and whatever writes fail, the log yields its newest complete checkpoint and
//! every acknowledged entry behind it, in order, none twice.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{history, holds, open, survival, work};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};

/// Returns the number of cuts.
fn cut(seed: u64) -> usize {
    let history = history(seed, Faults::default(), true);
    let cuts = history.len();
    for (command, image, mut asked) in history {
        let context = format!("seed {seed}, cut at command {command}");
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            let (log, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            let end = holds(&recovered, &asked, &context);
            // It goes on from there, and a second opening finds what came after, too.
            asked.reopened(end);
            let asked = Rc::new(RefCell::new(asked));
            work(rt.clone(), log, asked.clone(), Random::new(command), 3).await.unwrap();
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, survival(&device.image())));
            let (_, recovered) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            holds(&recovered, &asked.borrow(), &format!("{context}, and again"));
        });
    }
    cuts
}

/// RC-LOG-1 to RC-LOG-4: RC-LOG-2, for each image holds the newest complete checkpoint and the entries behind it, and RC-LOG-3, for none
/// of them has lost a zone that this takes.
#[test]
fn cut_at_every_command() {
    let cuts: usize = seeds(40).map(cut).sum();
    assert!(cuts > 1000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// In 1392 a parity block of the zone's former generation made up a record.
#[test]
fn cuts_that_once_failed() {
    cut(1392);
}

fn fail(seed: u64) {
    let rate = |kind, share, fault| FaultRule { trigger: Trigger::Rate(kind, share), fault };
    let rules = vec![
        rate(CommandKind::Write, 0.06, Fault::WriteError),
        rate(CommandKind::Write, 0.01, Fault::ZoneReadOnly),
        rate(CommandKind::Reset, 0.05, Fault::ZoneReadOnly),
    ];
    for (_, image, asked) in history(seed, Faults::new(rules), false) {
        let context = format!("seed {seed}");
        Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            let (_, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            holds(&recovered, &asked, &context);
        });
    }
}

#[test]
fn failed_writes_and_dying_zones_lose_no_acknowledged_entry() {
    seeds(100).for_each(fail);
}

/// In 2069 zones whose first write failed half-way were used up, and the log was full.
#[test]
fn failures_that_once_stopped_the_log() {
    fail(2069);
}
