//! The map and the rows agree, whatever the host does and wherever power fails.

use crate::command::{Command, CommandId, Nanos, Op};
use crate::drive::Drive;
use crate::flash::FlashDrive;
use crate::profile::{PageMapped, Profile};
use crate::random;
use crate::translation::managed::{Inside, Layer, Managed, Work};

use super::layer::PageMappedLayer;
use super::map::NONE;

/// The layer, which looks through its tables now and then.
#[derive(Clone, Debug)]
struct Checked {
    layer: PageMappedLayer,
    steps: u64,
}

impl Checked {
    /// Each of the host's pages that has a place lives there, and nothing else lives (DM-PAGE-1).
    fn check(&mut self) {
        self.steps += 1;
        if !self.steps.is_multiple_of(97) {
            return;
        }
        let pages = self.layer.blocks() as u32;
        let mut mapped = 0;
        for page in 0..pages {
            let place = self.layer.map.get(page);
            if place != NONE {
                assert_eq!(self.layer.rows.page(place), page, "page {page} at {place}");
                mapped += 1;
            }
        }
        assert_eq!(self.layer.rows.live_pages(), mapped);
    }
}

impl Layer for Checked {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        self.layer.command(inside, id, command);
        self.check();
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        self.layer.ended(inside, work);
        self.check();
    }

    fn alarm(&self) -> Option<Nanos> {
        self.layer.alarm()
    }

    fn woken(&mut self, inside: &mut Inside) {
        self.layer.woken(inside);
    }

    fn power_failed(&mut self, now: Nanos) {
        self.layer.power_failed(now);
        self.steps = 96;
        self.check();
    }

    fn blocks(&self) -> u64 {
        self.layer.blocks()
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

#[test]
fn every_page_lives_where_the_map_says_and_nowhere_else() {
    let mut profile = Profile::named("ssd-3840").unwrap();
    let Some(flash) = &mut profile.flash else { panic!("an SSD has flash") };
    (flash.dies, flash.buffer_mib, flash.stripe_kib) = (2, 1, 16);
    let spec = PageMapped { spare: 0.2, erase_block_kib: 64, idle_free: 0.1, idle_ms: 5.0 };
    for seed in 0..4 {
        let host = 2000;
        let layer = Checked { layer: PageMappedLayer::new(&profile, &spec, host), steps: 0 };
        let mut drive = Drive::of(Managed::over(layer, None, Some(FlashDrive::new(&profile))));
        let mut step = 0;
        let mut below = |limit: u64| {
            step += 1;
            random::number(seed, step) % limit
        };
        let (mut now, mut submitted, mut done) = (0, 0, Vec::new());
        for id in 0..12_000 {
            let op = [Op::Write, Op::Write, Op::Write, Op::WriteThrough, Op::Read, Op::Trim][below(6) as usize];
            drive.submit(now, id, Command { op, at: below(host), blocks: 1 + below(40), opens: false });
            submitted += 1;
            match below(60) {
                0 => {
                    drive.cut_power(now, &mut done);
                    (submitted, done) = (0, Vec::new());
                }
                1 => now += 400_000_000,
                _ => now += below(15_000_000),
            }
            drive.advance(now, &mut done);
        }
        drive.advance(now + 60_000_000_000, &mut done);
        assert_eq!(done.len(), submitted, "seed {seed}: every command since the last cut completes");
        let written = drive.written().unwrap();
        assert!(written.media > written.host, "seed {seed}: it cleans: {written:?}");
    }
}
