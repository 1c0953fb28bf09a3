//! The lab's multi-stream load on a directory, or on a zoned device by the project's own engine: `make peers` records
//! its commands.
//!
//! A chunk is a file, opened with `O_DIRECT`, written a request at a time, each followed by `fdatasync`; lanes run
//! beside each other, as they do in `lab run peers-replay`. Payload is zeros. Progress is written to a file of marks:
//! the kernel's `trace_marker`, so that it stands among the recorded commands.
//!
//! `peers-load DIR-OR-NODE MARKS ZONE_MIB FULL_MIB CHURN_MIB SEED`; exit status 3: no space was left after the longest
//! wait.

#![allow(clippy::disallowed_methods, reason = "a program of its own, on the operating system's threads and clock")]

mod engine;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use shingle_base::{AlignedBuf, Blocks};
use shingle_lab::load::script::{IO_BYTES, Script, Step, Streams};

/// Bytes between two marks.
pub(crate) const MARK_BYTES: u64 = 32 << 20;

/// Steps that wait for a lane.
const LANE_QUEUE: usize = 4;

/// Tries if there is no space, and the pause before each.
const PATIENCE: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);

/// Writer of marks.
struct Marks {
    file: File,
    acknowledged: u64,
}

impl Marks {
    /// One write is one mark.
    fn say(&mut self, what: &str) -> io::Result<()> {
        self.file.write_all(format!("shingle {what}\n").as_bytes())
    }

    fn acknowledge(&mut self, bytes: u64) -> io::Result<()> {
        let before = self.acknowledged;
        self.acknowledged += bytes;
        if self.acknowledged / MARK_BYTES > before / MARK_BYTES {
            self.say(&format!("appended {}", self.acknowledged))?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers-load: {error}");
            ExitCode::from(if error.kind() == io::ErrorKind::StorageFull { 3 } else { 1 })
        }
    }
}

fn run() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, marks, numbers @ ..] = arguments.as_slice() else { return Err(usage()) };
    let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().map_err(|_| usage())).collect::<io::Result<_>>()?;
    let &[zone_mib, full_mib, churn_mib, seed] = numbers.as_slice() else { return Err(usage()) };
    let streams = Streams::table_3(zone_mib << 20, full_mib << 20, churn_mib << 20);
    let file = OpenOptions::new().append(true).create(true).open(marks)?;
    let marks = Arc::new(Mutex::new(Marks { file, acknowledged: 0 }));
    let folder = PathBuf::from(folder);
    let heard = marks.clone();
    let say = move |what: &str| heard.lock().unwrap_or_else(PoisonError::into_inner).say(what);
    if std::fs::metadata(&folder)?.file_type().is_block_device() {
        let mark = say.clone();
        // A missing mark shows in the recording, which is then incomplete.
        engine::run(&folder, &streams, seed, move |what| drop(mark(what)))?;
        return say("end");
    }
    say("appended 0")?;
    let script = Script::new(&streams, seed);
    let (mut lanes, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..script.lanes() {
        let (give, steps) = sync_channel(LANE_QUEUE);
        let (folder, marks) = (folder.clone(), marks.clone());
        lanes.push(give);
        threads.push(thread::spawn(move || lane(&folder, &steps, &marks)));
    }
    let mut full = false;
    for step in script {
        if matches!(step, Step::Delete { .. }) && !full {
            full = true;
            say("full")?;
        }
        let Some(lane) = lanes.get(step.lane()) else { continue };
        // A lane that is gone says why below.
        if lane.send(step).is_err() {
            break;
        }
    }
    drop(lanes);
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a lane panicked"))??;
    }
    let acknowledged = marks.lock().unwrap_or_else(PoisonError::into_inner).acknowledged;
    say(&format!("appended {acknowledged}"))?;
    say("end")
}

fn usage() -> io::Error {
    io::Error::other("usage: peers-load DIR-OR-NODE MARKS ZONE_MIB FULL_MIB CHURN_MIB SEED")
}

fn lane(folder: &Path, steps: &Receiver<Step>, marks: &Mutex<Marks>) -> io::Result<()> {
    let zeros = AlignedBuf::zeroed(Blocks(IO_BYTES / Blocks(1).bytes())).freeze();
    // The chunks being written.
    let mut open: Vec<(u64, File)> = Vec::new();
    while let Ok(step) = steps.recv() {
        match step {
            Step::Append { chunk, offset, bytes, last, .. } => {
                if offset == 0 {
                    let mut options = OpenOptions::new();
                    options.write(true).create(true).truncate(false).custom_flags(OFlags::DIRECT.bits() as i32);
                    let file = patiently(folder, marks, || options.open(path(folder, chunk)))?;
                    open.push((chunk, file));
                }
                let known = open.iter().position(|(id, _)| *id == chunk);
                let at = known.ok_or_else(|| io::Error::other(format!("chunk {chunk} is not open")))?;
                let data = zeros.get(..bytes as usize).unwrap_or(&zeros);
                if let Some((_, file)) = open.get(at) {
                    patiently(folder, marks, || file.write_all_at(data, offset).and_then(|()| file.sync_data()))?;
                }
                marks.lock().unwrap_or_else(PoisonError::into_inner).acknowledge(u64::from(bytes))?;
                if last {
                    open.swap_remove(at);
                }
            }
            Step::Delete { chunk, .. } => std::fs::remove_file(path(folder, chunk))?,
        }
    }
    Ok(())
}

/// Runs a call, again if there is no space: a file system may need a moment to find deleted blocks. Each such answer is
/// a mark.
fn patiently<T>(folder: &Path, marks: &Mutex<Marks>, what: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut patience = PATIENCE;
    loop {
        match what() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && patience > 0 => {
                marks.lock().unwrap_or_else(PoisonError::into_inner).say("nospace")?;
                patience -= 1;
                rustix::fs::syncfs(File::open(folder)?)?;
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

fn path(folder: &Path, chunk: u64) -> PathBuf {
    folder.join(format!("{chunk:x}"))
}
