//! The traces that are built in: what they are, and their replays on each system.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use shingle_drive_model::Profile;
use shingle_lab::context::{BlockTrace, Context, Scale};
use shingle_lab::experiments;
use shingle_lab::load::replay::{self, Pace};
use shingle_lab::rig::host::Host;
use shingle_lab::rig::system::System;
use shingle_lab::rig::twin::zoned_twin;
use shingle_lab::trace::input::{Input, Selection};
use shingle_lab::trace::io::Source;
use shingle_lab::trace::own;
use shingle_lab::trace::stat::{Counter, Stat};
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_translation::Volume;
use shingle_translation_layers::{Tl2, tl2};

fn input(name: &str) -> Input {
    Input::new(Path::new(name), &Selection::default()).unwrap()
}

fn stat(input: &Input) -> Stat {
    let mut counter = Counter::default();
    input.open(0).unwrap().for_each(|io| counter.take(&io.unwrap()));
    counter.stat()
}

#[test]
fn a_name_does_as_well_as_a_file() {
    for own in own::ALL {
        let input = input(own.name);
        let stat = stat(&input);
        assert_eq!((input.name(), stat.timed), (own.name, stat.ios), "each says how long it took");
        // The first ones of mkfs wait for nobody.
        assert!(stat.ios > 400 && stat.dependent * 100 > stat.ios * 95, "{}: {stat:?}", own.name);
        assert!(stat.flushes + stat.fua > 5 && stat.writes.bytes > 4 << 20, "{}: {stat:?}", own.name);
        assert!(input.size_bytes() <= 1 << 30);
    }
    let error = Input::new(Path::new("ext4-no-such"), &Selection::default()).unwrap_err().0;
    assert!(error.contains("ext4-no-such"), "{error}");
}

/// Replays a trace on a layer in virtual time: its I/Os, and the seconds that it took.
fn replayed(name: &str, pace: Pace) -> (u64, f64) {
    let (input, twin) = (input(name), zoned_twin(&Profile::named("st8000as0002").unwrap()));
    let attach = |rt: &Runtime, volume: &Volume| rt.spawn_detached(tl2(rt.clone(), volume.control(), Tl2::default()));
    let system = System::layer("TL2", twin, attach);
    let replayed = Sim::new(1).run(move |rt| async move {
        let opened = system.open(&(&rt).into(), Host::linux_6_10(), 1, true).await?;
        replay::replay(&rt, opened.store.clone(), input.open(1)?, pace, |_| {}).await
    });
    let replayed = replayed.unwrap_or_else(|error| panic!("{name}: {error}"));
    (replayed.ios, replayed.took.as_secs_f64())
}

#[test]
fn each_is_replayed_as_it_arrived_as_it_waited_and_as_fast_as_can_be() {
    for own in own::ALL {
        let stat = stat(&input(own.name));
        let [(open, arrived), (closed, waited), (deep, hurried)] =
            [Pace::Open, Pace::Closed, Pace::Depth(8)].map(|pace| replayed(own.name, pace));
        assert_eq!([open, closed, deep], [stat.ios; 3], "{}", own.name);
        // The last one arrives when it did. Think times are most of a closed loop on so slow a machine as was recorded, and nothing of a hurry.
        assert!(arrived >= stat.seconds && waited >= stat.seconds / 2.0, "{}: {arrived} and {waited} s", own.name);
        assert!(hurried < waited / 1.5, "{}: {hurried} and {waited} s", own.name);
    }
}

#[test]
fn one_is_replayed_by_an_experiment_on_all_its_systems() {
    let trace = BlockTrace { source: Arc::new(input("ext4-unpack")), pace: Some(Pace::Closed) };
    let mut context = Context::new(1, Scale::Quick, Rc::new(|_, _| {})).with_block_trace(Some(trace));
    let found = experiments::named("stl-replay").unwrap().perform(&mut context).unwrap();
    let names: Vec<&str> = found.grids.iter().map(|grid| grid.name.as_str()).collect();
    assert_eq!(names, ["stl-replay-ext4-unpack-uncached", "stl-replay-ext4-unpack-cached"]);
    for row in found.grids.iter().flat_map(|grid| &grid.rows) {
        assert!(row.cells[0].value.unwrap() > 0.0, "{}", row.system);
    }
}
