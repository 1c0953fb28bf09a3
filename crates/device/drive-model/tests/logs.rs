//! The best place of a log on a disk whose tables are written and read beside it: a sequential zone, or a conventional one.

mod common;

use common::{MS, command, random};
use shingle_drive_model::{Command, Drive, Nanos, Op, Profile};

/// Blocks of a zone.
const ZONE: u64 = 65_536;

/// Time for which the load lasts.
const LASTS: Nanos = 60_000_000_000;

/// The others that use the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nobody,
    /// A table is written, 2 MiB at a time.
    Writer,
    /// As well, and merges read tables anywhere in use, 2 MiB at a time.
    Merge,
}

/// The zones of a drive that hold tables, the one that is written, and where the next one is written.
#[derive(Clone, Copy, Debug)]
struct Age {
    used: (u64, u64),
    /// The free zones lie anywhere: zones were won back all over the drive.
    scattered: bool,
}

/// The mean time of a log's synchronous append of 16 KiB, in milliseconds, and the tables' rate in MB/s.
fn load(conventional: bool, age: Age, beside: Beside) -> (f64, f64) {
    let profile = Profile::named("st20000nm001j").unwrap();
    let (mut drive, mut random) = (Drive::new(&profile, 1), random(7));
    let (first, last) = age.used;
    let free = |random: &mut dyn FnMut(u64) -> u64, next: u64| {
        if age.scattered { first + random(last - first) } else { last + next }
    };
    let log_at = |random: &mut dyn FnMut(u64) -> u64| if conventional { 400 } else { free(random, 0) } * ZONE;
    let (mut log, mut table) = (log_at(&mut random), free(&mut random, 1) * ZONE);
    let (mut log_written, mut table_written, mut zones) = (0, 0, 1);
    let (mut appends, mut bytes, mut log_time, mut log_began) = (0_u64, 0_u64, 0, 0);
    let mut next = |id: u64| -> Command {
        match id {
            0 => {
                // 64 MiB each, as logs of databases are: the next one goes on in the zone.
                if log_written + 4 > ZONE {
                    (log, log_written) = (log_at(&mut random), 0);
                }
                log_written += 4;
                command(Op::Write, log + log_written - 4, 4)
            }
            1 => {
                if table_written + 512 > ZONE {
                    zones += 1;
                    (table, table_written) = (free(&mut random, zones) * ZONE, 0);
                }
                table_written += 512;
                command(Op::Write, table + table_written - 512, 512)
            }
            _ => command(Op::Read, (first + random(last - first)) * ZONE + random(100) * 512, 512),
        }
    };
    let clients = match beside {
        Beside::Nobody => 1,
        Beside::Writer => 2,
        Beside::Merge => 3,
    };
    for id in 0..clients {
        drive.submit(0, id, next(id));
    }
    let mut done = Vec::new();
    while let Some(now) = drive.next_event().filter(|&now| now < LASTS) {
        drive.advance(now, &mut done);
        for id in done.drain(..) {
            if id == 0 {
                appends += 1;
                log_time += now - log_began;
                log_began = now;
            } else if id == 1 {
                bytes += 512 * 4096;
            }
            drive.submit(now, id, next(id));
        }
    }
    (log_time as f64 / appends as f64 / MS, bytes as f64 / LASTS as f64 * 1e3)
}

/// Conventional zones are few, at the drive's start: the arm goes there and back for each append, while free sequential zones follow the one
/// that is written as long as the drive is filled, and lie anywhere later on. Alone, both wait for the next turn.
#[test]
fn a_log_in_conventional_zones_is_not_faster() {
    let ages = [
        ("young", Age { used: (800, 4_000), scattered: false }),
        ("half full", Age { used: (800, 37_000), scattered: false }),
        ("nearly full", Age { used: (800, 70_000), scattered: false }),
        ("used for long", Age { used: (800, 74_000), scattered: true }),
    ];
    for (name, age) in ages {
        for beside in [Beside::Nobody, Beside::Writer, Beside::Merge] {
            let [sequential, conventional] = [false, true].map(|conventional| load(conventional, age, beside));
            let figures = format!("{name}, {beside:?}: sequential {sequential:.1?}, conventional {conventional:.1?}");
            let times = conventional.0 / sequential.0;
            match beside {
                Beside::Nobody => assert!((0.98..1.02).contains(&times), "{figures}"),
                Beside::Writer | Beside::Merge if age.scattered => assert!((1.0..1.5).contains(&times), "{figures}"),
                Beside::Writer | Beside::Merge => assert!((1.2..2.5).contains(&times), "{figures}"),
            }
        }
    }
}
