//! A mapping layer of one's own.

mod common;

use common::{TB, closed_loop, command, random};
use shingle_drive_model::translation::{Inside, Layer, Managed, Medium, Work};
use shingle_drive_model::{Command, CommandId, Drive, Nanos, Op, Profile};

/// Translates nothing.
#[derive(Clone, Debug, Default)]
struct PassThrough {
    ids: Vec<CommandId>,
}

impl Layer for PassThrough {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        self.ids.push(id);
        inside.run(Medium::Disk, command.op, command.at, command.blocks, self.ids.len() as Work - 1);
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        inside.complete(self.ids[work as usize]);
    }

    fn power_failed(&mut self, _now: Nanos) {}

    fn blocks(&self) -> u64 {
        4 * TB
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

/// As the dissertation found of its emulation, section 2.3.1.
#[test]
fn a_layer_that_translates_nothing_takes_no_time() {
    let mut profile = Profile::named("st4000nc001").unwrap();
    profile.queue.overhead_us = 0.0;
    let bare = Drive::new(&profile, 1);
    let managed = Drive::of(Managed::new(PassThrough::default(), &profile, bare.blocks()));
    let mut number = random(31);
    let mut commands = Vec::new();
    for _ in 0..2000 {
        let op = if number(2) == 0 { Op::Read } else { Op::Write };
        commands.push(command(op, number(3 * TB), 1 + number(200)));
    }
    for depth in [1, 16] {
        let times = |drive: &Drive| closed_loop(&mut drive.clone(), 0, depth, 1000, &commands);
        assert_eq!(times(&managed), times(&bare));
    }
}
