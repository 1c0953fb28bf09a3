//! Processes that are killed, that hold a drive, and whose file system is full.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use futures_util::future::{join, join_all, join3};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{
    CreateOptions, DeviceErrorKind, DeviceResult, FileDevice, FileDeviceErrorKind as Kind, MemoryDevice, Violation,
    ZoneOp, ZoneState, ZonedDevice,
};

use super::{Directory, blocks, create, geometry, open_error};

/// A child process, killed at the latest when the test ends.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// A line of the child: `said X`, among the test harness's lines.
    fn said(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some((_, text)) = line.split_once("said ") {
                return Some(text.trim().to_owned());
            }
        }
    }

    /// As `kill -9`.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the ignored test `child` in a process of its own, through `shell` if that is not empty.
fn spawn_child(job: &str, path: &Path, shell: &str) -> Process {
    let exe = std::env::current_exe().unwrap();
    let mut command = if shell.is_empty() {
        Command::new(&exe)
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")]).arg(&exe);
        command
    };
    let (_, module) = module_path!().split_once("::").unwrap();
    let child = format!("{module}::child");
    command.args(["--exact", &child, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("SHINGLE_CHILD_JOB", job).env("SHINGLE_CHILD_DRIVE", path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Process { child, output }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "said {text}").unwrap();
    out.flush().unwrap();
}

/// Not a test: what a child process runs. Without a job it does nothing.
#[test]
#[ignore = "the body of a child process of other tests"]
fn child() {
    let Ok(job) = std::env::var("SHINGLE_CHILD_JOB") else { return };
    let path = PathBuf::from(std::env::var("SHINGLE_CHILD_DRIVE").unwrap());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        match job.split_once(' ') {
            Some(("history", seed)) => {
                for group in history(seed.parse().unwrap()) {
                    run_group(&device, &group).await;
                    say("done");
                }
            }
            Some(("spread", _)) => {
                for group in 0..1000 {
                    run_group(&device, &spread(group)).await;
                    say("done");
                }
            }
            Some(("full", _)) => fill_the_file_system(&device).await,
            _ => {}
        }
        say("waiting");
        // Until it is killed, or its parent is gone.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    })
    .unwrap();
}

/// One command of a random history. Commands of a group start together, in order, in one zone.
#[derive(Clone, Debug)]
enum Step {
    Append(ZoneId, u64, u64),
    Write(Lba, u64, u64),
    Manage(ZoneId, ZoneOp),
}

async fn run_group(device: &impl ZonedDevice, group: &[Step]) -> Vec<bool> {
    join_all(group.iter().map(|step| async move {
        match *step {
            Step::Append(zone, tag, count) => device.append(zone, vec![blocks(tag, count)]).await.is_ok(),
            Step::Write(at, tag, count) => device.write(at, vec![blocks(tag, count)]).await.is_ok(),
            Step::Manage(zone, op) => device.manage(zone, op).await.is_ok(),
        }
    }))
    .await
}

fn history(seed: u64) -> Vec<Vec<Step>> {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    (0..3000)
        .map(|group| {
            let zone = ZoneId(2 + below(14) as u32);
            let ops = [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset, ZoneOp::Reset];
            match below(10) {
                0..5 => (0..1 + below(3)).map(|at| Step::Append(zone, group * 100 + at * 30, 1 + below(20))).collect(),
                5 => vec![Step::Append(zone, group * 100, 1 + below(9)), Step::Manage(zone, ops[below(5) as usize])],
                6 => vec![Step::Write(Lba(below(100)), group * 100, 1)],
                _ => vec![Step::Manage(zone, ops[below(5) as usize])],
            }
        })
        .collect()
}

/// Everything that can be seen of a zone.
async fn look(device: &impl ZonedDevice, zone: ZoneId) -> (ZoneState, u64, Vec<u8>) {
    let info = device.report(zone, 1).await.unwrap()[0];
    let conventional = info.state == ZoneState::NotWritePointer;
    let length = if conventional { info.capacity } else { info.written };
    let bytes = match length {
        Blocks::ZERO => Vec::new(),
        length => device.read(info.start, length).await.unwrap().to_vec(),
    };
    (info.state, info.written.0, bytes)
}

#[test]
fn a_killed_process_leaves_exactly_what_its_completed_commands_made() {
    let directory = Directory::new("kill");
    for seed in 1..=24_u64 {
        let path = directory.0.join(format!("drive-{seed}"));
        create(&path, &geometry());
        let mut process = spawn_child(&format!("history {seed}"), &path, "");
        let wanted = seed * seed * 7 % 400;
        let mut done = 0;
        while done < wanted && process.said().as_deref() == Some("done") {
            done += 1;
        }
        process.kill();
        while process.said().is_some() {
            done += 1;
        }
        real::run(|runtime| async move {
            let device = crate::open(&path, &runtime).unwrap();
            // The same history in memory, up to the group that was under way, and any part of that.
            let groups = history(seed);
            let memory = MemoryDevice::new(geometry());
            for group in &groups[..done as usize] {
                run_group(&memory, group).await;
            }
            let mut allowed = vec![memory.snapshot()];
            for step in &groups[done as usize] {
                run_group(&memory, std::slice::from_ref(step)).await;
                allowed.push(memory.snapshot());
            }
            for zone in (0..16).map(ZoneId) {
                let found = look(&device, zone).await;
                let mut right = false;
                for image in &allowed {
                    right |= look(image, zone).await == found;
                }
                assert!(right, "seed {seed}, killed after {done} groups: {zone} is {:?} {}", found.0, found.1);
            }
            // And it goes on.
            for zone in (2..16).map(ZoneId) {
                device.manage(zone, ZoneOp::Reset).await.unwrap();
            }
            for zone in (2..16).map(ZoneId) {
                device.append(zone, vec![blocks(1, 60)]).await.unwrap();
            }
        })
        .unwrap();
    }
}

/// Group `group` of commands that start together, one in each of four zones.
fn spread(group: u64) -> Vec<Step> {
    let step = |zone: u32| match group % 13 {
        12 => Step::Manage(ZoneId(zone), ZoneOp::Reset),
        _ => Step::Append(ZoneId(zone), group * 100 + u64::from(zone) * 10, 5),
    };
    (2..6).map(step).collect()
}

/// ZD-FD-1 for writes to several zones at once, whose table entries wait for the file's lock with each other's bytes.
#[test]
fn a_killed_process_leaves_each_of_the_zones_it_wrote_together_as_before_or_after() {
    let directory = Directory::new("spread");
    for seed in 1..=8_u64 {
        let path = directory.0.join(format!("drive-{seed}"));
        create(&path, &geometry());
        let mut process = spawn_child("spread out", &path, "");
        let mut done = 0;
        while done < seed * 29 && process.said().as_deref() == Some("done") {
            done += 1;
        }
        process.kill();
        while process.said().is_some() {
            done += 1;
        }
        real::run(|runtime| async move {
            let device = crate::open(&path, &runtime).unwrap();
            let memory = MemoryDevice::new(geometry());
            for group in 0..done {
                run_group(&memory, &spread(group)).await;
            }
            let before = memory.snapshot();
            run_group(&memory, &spread(done)).await;
            for zone in (2..6).map(ZoneId) {
                let found = look(&device, zone).await;
                let right = look(&before, zone).await == found || look(&memory, zone).await == found;
                assert!(right, "killed after {done} groups: {zone} is {:?} {}", found.0, found.1);
            }
        })
        .unwrap();
    }
}

#[test]
fn a_drive_in_use_is_refused_until_its_process_is_gone() {
    let directory = Directory::new("lock");
    create(&directory.drive(), &geometry());
    let mut process = spawn_child("wait", &directory.drive(), "");
    assert_eq!(process.said().as_deref(), Some("waiting"));
    let (kind, text) = open_error(&directory.drive());
    assert!(matches!(kind, Kind::InUse) && text.contains("in use"), "{text}");
    let again = FileDevice::create(&directory.drive(), &geometry(), CreateOptions { overwrite: true });
    assert!(matches!(again.unwrap_err().kind, Kind::InUse), "nor is it overwritten");
    process.kill();
    let path = directory.drive();
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        assert!(matches!(crate::open(&path, &runtime).map(drop).unwrap_err().kind, Kind::InUse));
        drop(device);
        crate::open(&path, &runtime).unwrap();
    })
    .unwrap();
}

/// Runs in a child whose files may be no longer than 512 KiB: the table and one slot of 256 KiB fit.
async fn fill_the_file_system(device: &FileDevice) {
    let full = |result: DeviceResult<()>| match result.unwrap_err().kind {
        DeviceErrorKind::System(error) => assert!(error.to_string().contains("no room"), "{error}"),
        other => panic!("{other:?}"),
    };
    device.append(ZoneId(2), vec![blocks(1, 4)]).await.unwrap();
    // Two writes under way together: the second was accepted behind the first, and must not land without it.
    // The reset between them and what follows has the last word.
    let (first, second, reset) = join3(
        device.write(Lba(192), vec![blocks(1, 4)]),
        device.write(Lba(196), vec![blocks(5, 56)]),
        device.manage(ZoneId(3), ZoneOp::Reset),
    )
    .await;
    full(first);
    assert!(matches!(second.unwrap_err().kind, DeviceErrorKind::WriteFailed));
    reset.unwrap();
    let (first, second) =
        join(device.write(Lba(192), vec![blocks(1, 4)]), device.write(Lba(196), vec![blocks(5, 56)])).await;
    full(first);
    assert!(matches!(second.unwrap_err().kind, DeviceErrorKind::WriteFailed));
    // A read of what a write under way was to bring waits for it, and is refused with it.
    let (_, read) = join(device.write(Lba(192), vec![blocks(1, 4)]), device.read(Lba(192), Blocks(2))).await;
    let rule = Violation::PastWritePointer { end: Lba(194), write_pointer: Lba(192) };
    assert_eq!(read.unwrap_err().violation(), Some(rule));
    let info = device.report(ZoneId(3), 1).await.unwrap()[0];
    assert_eq!((info.state, info.written), (ZoneState::Empty, Blocks::ZERO));
    full(device.append(ZoneId(3), vec![blocks(1, 4)]).await.map(drop));
    // Writes to zones that have a slot go on, and a slot given back makes room.
    device.append(ZoneId(2), vec![blocks(5, 4)]).await.unwrap();
    assert!(device.read(Lba(128), Blocks(8)).await.unwrap() == blocks(1, 8));
    device.manage(ZoneId(2), ZoneOp::Reset).await.unwrap();
    device.append(ZoneId(3), vec![blocks(1, 4)]).await.unwrap();
    assert!(device.read(Lba(192), Blocks(4)).await.unwrap() == blocks(1, 4));
    say("survived");
}

#[test]
fn a_full_file_system_fails_writes_and_leaves_zones_as_they_were() {
    let directory = Directory::new("full");
    create(&directory.drive(), &geometry());
    // Room for the table and one slot, not for two.
    let limit = 400 * 1024 / ulimit_unit();
    let shell = format!("trap '' XFSZ; ulimit -f {limit}");
    let mut process = spawn_child("full now", &directory.drive(), &shell);
    let answer = process.said();
    process.kill();
    assert_eq!(answer.as_deref(), Some("survived"));
}

/// Bytes in the unit of the shell's `ulimit -f`.
fn ulimit_unit() -> u64 {
    let script = "trap '' XFSZ; ulimit -f 1; head -c 4096 /dev/zero | dd of=\"$0\" bs=1 2>/dev/null; true";
    let path = std::env::temp_dir().join(format!("shingle-ulimit-{}", std::process::id()));
    Command::new("sh").args(["-c", script]).arg(&path).status().unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::remove_file(&path).unwrap();
    length
}
