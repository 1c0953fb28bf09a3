//! State of the server, for `shingle status`: a page of JSON over a Unix socket in the data directory.
//!
//! Users who may enter the data directory may ask; no key is needed. Connections and their time are bounded as those of
//! the admin listener are, whose pages are served here, too.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use shingle_array_store::Condition;
use shingle_blue_objects::BlueFigures;
use tokio::net::UnixListener;

use crate::engines::keeper::Kind;
use crate::error::{Error, Result};
use crate::reports::answers::{Answer, Answers, Figures, Watched};
use crate::reports::gauges::Gauges;
use crate::reports::health::{Missing, State, utc};
use crate::volumes::Standing;

/// The socket in the data directory.
const SOCKET: &str = "status.sock";
/// The client's patience.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer: a thousand drives take a quarter of this.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// State of a server.
#[derive(serde::Serialize)]
struct Status {
    version: &'static str,
    process: u32,
    started: String,
    /// `healthy`, `degraded`, or `not serving` if an engine does not.
    state: &'static str,
    listen: String,
    admin: Option<String>,
    engines: Vec<EngineStatus>,
    volumes: Vec<VolumeStatus>,
}

#[derive(serde::Serialize)]
struct VolumeStatus {
    name: String,
    /// `serving`, `opening` or `failed`.
    state: &'static str,
    /// Its step while it is opening, or the reason why it failed.
    reason: Option<String>,
    addresses: Vec<String>,
}

#[derive(serde::Serialize)]
struct EngineStatus {
    name: String,
    kind: &'static str,
    /// `serving`, `opening`, `failed` or `silent`.
    state: &'static str,
    /// Its step while it is opening, or the reason why it failed.
    reason: Option<String>,
    /// Problems, in words.
    problems: Vec<String>,
    space: Option<Space>,
    drives: Vec<DriveStatus>,
    rebuild: Option<Rebuild>,
    scrub: Option<Scrub>,
}

#[derive(serde::Serialize)]
struct Space {
    objects: u64,
    live_bytes: u64,
    capacity_bytes: u64,
}

#[derive(serde::Serialize)]
struct DriveStatus {
    drive: String,
    /// `up`, `slow`, `failing`, `silent`, `stopped`, `leaving` or `missing`.
    state: &'static str,
    /// Time since which it is missing.
    since: Option<String>,
    free_bytes: Option<u64>,
    write_errors: Option<u64>,
    corrupt_reads: Option<u64>,
}

#[derive(serde::Serialize)]
struct Rebuild {
    zones: usize,
    zones_done: usize,
    zones_failed: usize,
    seconds_left: Option<u64>,
}

#[derive(serde::Serialize)]
struct Scrub {
    sets_left: u64,
    damaged_zones: u64,
    repaired_zones: u64,
    lost_parts: u64,
    /// Time when everything had last been verified.
    ended: Option<String>,
}

/// The page.
pub(crate) async fn page(watched: &Watched) -> String {
    let answers = Answers::of(watched).await;
    // All at once: several that hang take no longer than one.
    let conditions = join_all(watched.engines.iter().map(|engine| engine.condition(true))).await;
    let answered = answers.0.into_iter().zip(conditions);
    let engines: Vec<_> = answered.map(|(answer, condition)| EngineStatus::of(answer, condition)).collect();
    let volumes: Vec<_> = watched.volumes.iter().map(VolumeStatus::of).collect();
    let state = if engines.iter().any(|engine| engine.state != "serving") {
        "not serving"
    } else if engines.iter().any(|engine| !engine.problems.is_empty())
        || volumes.iter().any(|volume| volume.state != "serving")
    {
        "degraded"
    } else {
        "healthy"
    };
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        process: std::process::id(),
        started: utc(watched.started_unix_s),
        state,
        listen: watched.listen.to_string(),
        admin: watched.admin.map(|admin| admin.to_string()),
        engines,
        volumes,
    };
    // No map has keys that are no text.
    serde_json::to_string(&status).unwrap_or_default() + "\n"
}

impl VolumeStatus {
    fn of(standing: &Standing) -> Self {
        let (state, reason) = match standing.health.state() {
            State::Opening(doing) => ("opening", Some(doing)),
            State::Failed(_, why) => ("failed", Some(why)),
            State::Serving => ("serving", None),
        };
        Self { name: standing.health.name().to_owned(), state, reason, addresses: standing.uris.clone() }
    }
}

impl EngineStatus {
    fn of(answer: Answer, condition: Option<Condition>) -> Self {
        let kind = match answer.kind {
            Kind::Drives => "drives",
            Kind::Array => "array",
            Kind::Blue => "blue",
        };
        let (state, reason) = match (answer.state, &answer.figures) {
            (State::Opening(doing), _) => ("opening", Some(doing)),
            (State::Failed(_, why), _) => ("failed", Some(why)),
            (State::Serving, None) => ("silent", Some("it does not answer".to_owned())),
            (State::Serving, Some(_)) => ("serving", None),
        };
        let mut status = Self {
            name: answer.name,
            kind,
            state,
            reason,
            problems: answer.missing.iter().map(Missing::words).collect(),
            space: None,
            drives: Vec::new(),
            rebuild: None,
            scrub: None,
        };
        let damaged = answer.damage.objects();
        if damaged > 0 {
            let (are, them) = if damaged == 1 { ("object is", "it") } else { ("objects are", "them") };
            status.problems.push(format!("{damaged} {are} known to be damaged: `shingle object check` names {them}"));
        }
        match &answer.figures {
            Some(Figures::Objects(figures, drives)) => {
                let (_, usage) = &**figures;
                status.space = Some(Space {
                    objects: usage.objects,
                    live_bytes: usage.live_bytes,
                    capacity_bytes: usage.capacity_bytes,
                });
                for drive in drives {
                    let sample = *drive.sample.lock().unwrap_or_else(PoisonError::into_inner);
                    let (write_errors, corrupt_reads) = (sample.counters.write_errors, sample.counters.corrupt_reads);
                    let name = drive.path.display().to_string();
                    if sample.space.host_full {
                        let what = "the file system that holds it was full at the last write: make room there, and writing goes on by itself";
                        status.problems.push(format!("drive {name}: {what}"));
                    }
                    status.problems.extend(drive.trouble());
                    status.problems.extend(since_start(&name, write_errors, ["failed write", "failed writes"]));
                    let reads = ["read that found damage", "reads that found damage"];
                    status.problems.extend(since_start(&name, corrupt_reads, reads));
                    status.drives.push(DriveStatus {
                        drive: name,
                        state: drive.state(),
                        since: None,
                        free_bytes: Some(sample.space.free_bytes),
                        write_errors: Some(write_errors),
                        corrupt_reads: Some(corrupt_reads),
                    });
                }
                status.drives.extend(answer.missing.iter().map(DriveStatus::missing));
            }
            Some(Figures::Array(figures)) => {
                status.space = Some(Space {
                    objects: figures.objects,
                    live_bytes: figures.array.live,
                    capacity_bytes: figures.array.capacity,
                });
            }
            Some(Figures::Blue(figures)) => status.add_blue(figures, &answer.gauges),
            None => {}
        }
        if let Some(condition) = condition {
            status.add_condition(&condition, &answer.missing);
        }
        if let Some(scrub) = answer.scrub {
            let left = scrub.damaged.saturating_sub(scrub.repaired);
            if left > 0 {
                let are = if left == 1 { "zone is" } else { "zones are" };
                status.problems.push(format!("{left} damaged {are} not replaced: add a drive, or free some space"));
            }
            if scrub.lost > 0 {
                let (are, them) =
                    if scrub.lost == 1 { ("part of an object is", "it") } else { ("parts of objects are", "them") };
                status.problems.push(format!("{} {are} lost; the log names {them}", scrub.lost));
            }
            status.scrub = Some(Scrub {
                sets_left: scrub.left,
                damaged_zones: scrub.damaged,
                repaired_zones: scrub.repaired,
                lost_parts: scrub.lost,
                ended: (scrub.ended > 0).then(|| utc(scrub.ended)),
            });
        }
        status
    }

    /// Adds the space and the drive of a blue store.
    fn add_blue(&mut self, figures: &BlueFigures, gauges: &[(String, Arc<Gauges>)]) {
        let BlueFigures { store, objects, .. } = figures;
        let (live_bytes, capacity_bytes) = (store.live_bytes, store.capacity_bytes);
        self.space = Some(Space { objects: *objects, live_bytes, capacity_bytes });
        for (drive, gauges) in gauges {
            let write_errors = gauges.writes.errors.load(Relaxed);
            self.problems.extend(since_start(drive, write_errors, ["failed write", "failed writes"]));
            if store.zones_broken > 0 {
                let (zones, are) =
                    (store.zones_broken, if store.zones_broken == 1 { "zone takes" } else { "zones take" });
                self.problems.push(format!("drive {drive}: {zones} {are} no more writes"));
            }
            self.drives.push(DriveStatus {
                drive: drive.clone(),
                state: "up",
                since: None,
                free_bytes: Some(store.capacity_bytes.saturating_sub(store.live_bytes)),
                write_errors: Some(write_errors),
                corrupt_reads: None,
            });
        }
    }

    /// Adds the problems of an array's drives, and the progress of a rebuild.
    fn add_condition(&mut self, condition: &Condition, missing: &[Missing]) {
        for drive in &condition.drives {
            let known = missing.iter().find(|missing| missing.is(&drive.name));
            let state = match drive {
                drive if !drive.up => "missing",
                drive if drive.leaving => "leaving",
                drive if drive.slow => "slow",
                _ => "up",
            };
            if state == "missing" && known.is_none() {
                self.problems.push(format!("drive {} failed or went away while the server ran", drive.name));
            }
            if state == "slow" {
                self.problems.push(format!("drive {} answers far later than the others", drive.name));
            }
            self.drives.push(DriveStatus {
                drive: drive.name.clone(),
                state,
                since: known.map(|missing| utc(missing.since)),
                free_bytes: None,
                write_errors: None,
                corrupt_reads: None,
            });
        }
        if condition.lacking > 0 {
            self.problems.push(match condition.parity.saturating_sub(condition.lacking) {
                0 => "no further drive may be lost before the rebuild is complete".to_owned(),
                1 => "one more drive may be lost".to_owned(),
                more => format!("{more} more drives may be lost"),
            });
        }
        if let Some((progress, took)) = condition.rebuilding {
            let done = progress.done + progress.failed;
            let left = progress.members.saturating_sub(done) as u64;
            let seconds_left = (took.as_secs() * left).checked_div(done as u64);
            let percent = (done * 100).checked_div(progress.members).unwrap_or(100);
            let time = seconds_left.map_or(String::new(), |seconds| format!(", {} left", rough(seconds)));
            self.problems.push(format!("rebuilding, {percent} %{time}"));
            let (zones, zones_done, zones_failed) = (progress.members, progress.done, progress.failed);
            self.rebuild = Some(Rebuild { zones, zones_done, zones_failed, seconds_left });
        } else if condition.lost_members > 0 {
            let wait = if condition.lost_members == 1 { "zone waits" } else { "zones wait" };
            self.problems.push(format!("{} {wait} to be rebuilt", condition.lost_members));
        }
    }
}

impl DriveStatus {
    fn missing(missing: &Missing) -> Self {
        Self {
            drive: missing.drive.clone(),
            state: "missing",
            since: Some(utc(missing.since)),
            free_bytes: None,
            write_errors: None,
            corrupt_reads: None,
        }
    }
}

/// The problem that a drive has had something that many times, if at all.
fn since_start(drive: &str, count: u64, [one, more]: [&str; 2]) -> Option<String> {
    let what = if count == 1 { one } else { more };
    (count > 0).then(|| format!("drive {drive}: {count} {what} since the start"))
}

/// A time as people say it.
fn rough(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..5400 => format!("{} min", seconds.div_ceil(60)),
        5400..172_800 => format!("{} h", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

/// The socket by a short path: the paths of sockets have at most 107 bytes.
fn by_directory(directory: &Path) -> std::io::Result<(std::fs::File, PathBuf)> {
    let opened = std::fs::File::open(directory)?;
    let path = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(SOCKET);
    Ok((opened, path))
}

/// The socket of a server whose data directory this is, and is locked.
///
/// # Errors
/// `System`.
pub(crate) fn listen(directory: &Path) -> Result<UnixListener> {
    let bound = by_directory(directory).and_then(|(_opened, path)| {
        // A server that was killed left it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    bound.map_err(|error| Error::system(directory.join(SOCKET).display(), error))
}

/// A connection to the server of a data directory, which may be silent for `patience`. `None`: none runs there.
///
/// # Errors
/// `System`: it cannot be asked.
pub(crate) fn connect(directory: &Path, patience: Duration) -> Result<Option<UnixStream>> {
    use std::io::ErrorKind as Io;
    let failed = |error: std::io::Error| Error::system(directory.join(SOCKET).display(), error);
    let (_opened, path) = match by_directory(directory) {
        Err(error) if error.kind() == Io::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let socket = match UnixStream::connect(&path) {
        Err(error) if matches!(error.kind(), Io::NotFound | Io::ConnectionRefused) => return Ok(None),
        connected => connected.map_err(failed)?,
    };
    socket.set_read_timeout(Some(patience)).map_err(failed)?;
    socket.set_write_timeout(Some(patience)).map_err(failed)?;
    Ok(Some(socket))
}

/// Asks the server of a data directory for its state: JSON. `None`: none runs there.
///
/// # Errors
/// `System`: it cannot be asked, or makes no sense.
pub fn ask(directory: &Path) -> Result<Option<String>> {
    let failed = |error: std::io::Error| Error::system(directory.join(SOCKET).display(), error);
    let Some(mut socket) = connect(directory, PATIENCE)? else { return Ok(None) };
    socket.write_all(b"GET /status HTTP/1.1\r\nHost: shingle\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut answer = String::new();
    socket.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).map_err(failed)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, page)) if head.starts_with("HTTP/1.1 200 ") => Ok(Some(page.to_owned())),
        _ => Err(Error::system(directory.join(SOCKET).display(), "the answer makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_array_store::{DriveCondition, RebuildProgress};
    use shingle_object_store::Standing as Met;

    use crate::engines::drive::DriveView;

    /// A drive that hangs or dies while the server runs is not up, in any report.
    #[test]
    fn drives_of_the_object_store_are_shown_as_they_are_met() {
        let standings = [Met::Up, Met::Slow, Met::Failing, Met::Silent, Met::Ended];
        let views = standings.into_iter().enumerate().map(|(number, standing)| DriveView::for_test(number, standing));
        let figures = Figures::Objects(Box::default(), views.collect());
        let answers = Answers(vec![Answer::for_test("drives", Kind::Drives, Some(figures))]);
        let memory = shingle_runtime::memory::Memory::unbounded();
        let text = crate::reports::metrics::render(&shingle_s3_gateway::GatewayMetrics::default(), &memory, &answers);
        for (number, up) in [1, 1, 1, 0, 0].into_iter().enumerate() {
            assert!(text.contains(&format!("shingle_drive_up{{drive=\"d{number}\"}} {up}\n")), "{text}");
        }
        let lines = answers.lines();
        assert!(lines.starts_with("ok\n") && lines.contains("drives: degraded: drive d3 does not answer"), "{lines}");
        assert_eq!(lines.matches("degraded").count(), 4, "{lines}");
        let status = EngineStatus::of(answers.0.into_iter().next().unwrap(), None);
        let states: Vec<_> = status.drives.iter().map(|drive| drive.state).collect();
        assert_eq!(states, ["up", "slow", "failing", "silent", "stopped"]);
        assert_eq!(status.problems.len(), 4, "{:?}", status.problems);
    }

    #[test]
    fn an_array_says_what_may_still_be_lost_and_how_long_a_rebuild_takes() {
        let drive = |name: &str, up, slow| DriveCondition { name: name.to_owned(), up, leaving: false, slow };
        let progress = RebuildProgress { members: 100, done: 40, ..RebuildProgress::default() };
        let condition = Condition {
            drives: vec![drive("a", true, false), drive("b", false, false), drive("c", true, true)],
            parity: 2,
            lacking: 1,
            lost_members: 60,
            rebuilding: Some((progress, Duration::from_secs(7200))),
        };
        let status = EngineStatus::of(Answer::for_test("shelf", Kind::Array, None), Some(condition));
        assert_eq!(
            status.problems,
            [
                "drive b failed or went away while the server ran",
                "drive c answers far later than the others",
                "one more drive may be lost",
                "rebuilding, 40 %, 3 h left"
            ]
        );
        for (lost_members, words) in [(1, "1 zone waits to be rebuilt"), (2, "2 zones wait to be rebuilt")] {
            let condition = Condition { drives: vec![], lacking: 0, lost_members, rebuilding: None, parity: 2 };
            let status = EngineStatus::of(Answer::for_test("shelf", Kind::Array, None), Some(condition));
            assert_eq!(status.problems, [words]);
        }
        let words = |count| since_start("d", count, ["failed write", "failed writes"]);
        assert_eq!(words(0), None);
        assert_eq!(
            [words(1), words(2)].map(Option::unwrap),
            ["d: 1 failed write", "d: 2 failed writes"].map(|words| format!("drive {words} since the start"))
        );
        let states: Vec<_> = status.drives.iter().map(|drive| drive.state).collect();
        assert_eq!(states, ["up", "missing", "slow"]);
        assert_eq!(rough(59) + &rough(61) + &rough(86_400) + &rough(200_000), "59 s2 min24 h3 days");
    }
}
