//! `shingle array ls|stat|dump`.

use clap::Args;
use serde_json::{Value, json};
use shingle_array_store::{DriveInspection, Object, SetState};
use shingle_base::ByteSize;
use shingle_server::{ArrayStanding, Running};

use super::place::{ArrayArgs, Missing, look, with_array};
use super::serving::Serving;
use super::words::{counted, shown, zone_sets};
use crate::failure::{Failure, Outcome, status};
use crate::output::{Objects, size};

/// Objects of a page.
const PAGE: usize = 1000;

/// States of zone sets in the order in which the engine counts them.
const STATES: [(SetState, &str); 6] = [
    (SetState::Empty, "empty"),
    (SetState::Available, "available"),
    (SetState::Open, "open"),
    (SetState::Closed, "closed"),
    (SetState::Indexed, "indexed"),
    (SetState::Index, "index"),
];

/// Lists objects.
#[derive(Args)]
pub(crate) struct Ls {
    /// Only objects whose names begin with this [default: all].
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    serving: Serving,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Shows an object or the array.
#[derive(Args)]
pub(crate) struct Stat {
    /// The object [default: the array].
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    serving: Serving,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the superblock.
#[derive(Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    place: ArrayArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn object_json(object: &Object) -> Value {
    json!({ "name": String::from_utf8_lossy(&object.name), "size_bytes": object.size, "version": object.version.0 })
}

impl Ls {
    pub(crate) fn run(self) -> Outcome {
        let mut rows = Objects::new(self.json);
        let mut row = |object: &Object| {
            rows.row(|| object_json(object), || format!("{:>15}  {}", object.size, shown(&object.name)));
        };
        let ask = |running: Running, drives| Ok(running.array_objects(drives, &self.prefix, &mut row)?.then_some(()));
        if self.serving.asked(&self.place, ask)?.is_none() {
            let listed = with_array(&self.place, Missing::Read, false, |opened| async {
                let opened = opened;
                let mut after: Option<bytes::Bytes> = None;
                loop {
                    let page = opened.store.list(self.prefix.as_bytes(), after.as_deref(), PAGE)?;
                    page.iter().for_each(&mut row);
                    let Some(last) = page.last() else { return Ok(()) };
                    after = Some(last.name.clone());
                }
            });
            self.serving.advised(listed)?;
        }
        rows.end();
        Ok(())
    }
}

impl Stat {
    pub(crate) fn run(self) -> Outcome {
        match &self.name {
            Some(name) => self.object(name),
            None => self.array(),
        }
    }

    fn object(&self, name: &str) -> Outcome {
        let object = match self.serving.asked(&self.place, |running, drives| running.array_object(drives, name))? {
            Some(object) => object,
            None => {
                let found = with_array(&self.place, Missing::Read, false, |opened| async move {
                    Ok(opened.store.head(name.as_bytes())?)
                });
                self.serving.advised(found)?
            }
        };
        if self.json {
            say!("{}", object_json(&object));
        } else {
            say!("name     {}", shown(&object.name));
            say!("size     {}", size(object.size));
            say!("version  {}", object.version.0);
        }
        Ok(())
    }

    fn array(&self) -> Outcome {
        if let Some(standing) = self.serving.asked(&self.place, |running, drives| running.array(drives))? {
            return array(&standing, self.json);
        }
        let opened = with_array(&self.place, Missing::Read, false, |opened| async move {
            Ok(ArrayStanding { stats: opened.store.stats()?, report: opened.report, seen: opened.seen })
        });
        array(&self.serving.advised(opened)?, self.json)
    }
}

/// A drive's condition in one word. A drive that was away is out of use, even when it is back.
fn condition(drive: &DriveInspection) -> &'static str {
    match (drive.removed, drive.given.is_some(), drive.in_use) {
        (true, ..) => "removed",
        (_, false, _) => "missing",
        (_, true, false) => "out of use",
        (_, true, true) => "ok",
    }
}

fn array(standing: &ArrayStanding, json: bool) -> Outcome {
    let ArrayStanding { stats, report, seen } = standing;
    let took: f64 = report.took.iter().map(std::time::Duration::as_secs_f64).sum();
    let sets = STATES.iter().zip(stats.sets).map(|((_, name), count)| (*name, count));
    if json {
        let drives: Vec<Value> = seen.drives.iter().map(drive_json).collect();
        let sets: serde_json::Map<String, Value> = sets.map(|(name, count)| (name.to_owned(), count.into())).collect();
        say!(
            "{}",
            json!({ "array": seen.array.to_string(), "code": seen.code.to_string(),
                    "segment_bytes": seen.segment_length, "objects": stats.objects, "live_bytes": stats.live,
                    "capacity_bytes": stats.capacity, "buffered_bytes": stats.buffered, "zone_sets": sets, "drives": drives,
                    "missing_drives": report.missing_drives, "clean": seen.clean,
                    "opening": { "index_taken": report.clean, "seconds": took, "snapshot_pieces": report.snapshot_pieces,
                                 "snapshot_lost": report.snapshot_lost, "sets_examined": report.sets_examined,
                                 "digests": report.digests, "incomplete": report.incomplete, "damage": report.damage } })
        );
        return condition_of(standing);
    }
    let per_cent = if stats.capacity == 0 { 0.0 } else { stats.live as f64 * 100.0 / stats.capacity as f64 };
    let words = STATES.iter().zip(stats.sets).map(|((state, _), count)| (state, count));
    let sets: Vec<String> =
        words.filter(|(_, count)| *count > 0).map(|(state, count)| format!("{count} {}", in_words(*state))).collect();
    say!("array      {}, {}", seen.array, seen.code);
    say!("objects    {}", stats.objects);
    say!("data       {} of {} ({per_cent:.1} %)", ByteSize(stats.live), ByteSize(stats.capacity));
    if stats.buffered > 0 {
        say!("buffer     {} wait in it to be written to the drives", ByteSize(stats.buffered));
    }
    say!("zone sets  {}", sets.join(", "));
    let how = match (report.clean, report.sets_examined) {
        (true, _) => "from its index".to_owned(),
        (false, sets) => {
            let saved = match report.snapshot_pieces {
                0 => String::new(),
                pieces => format!("a saved index of {} and ", counted(pieces, "piece", "pieces")),
            };
            format!("index made anew from {saved}{}", zone_sets(sets))
        }
    };
    say!("opened     {how}, {took:.1} s");
    if report.incomplete > 0 {
        say!("           puts that were cut off: {}; nothing of them is stored", report.incomplete);
    }
    if report.snapshot_lost {
        say!("           the saved index was lost: objects that were deleted may be back");
    }
    seen.drives.iter().for_each(|drive| say!("{:<9}  {}  {}", drive.id.to_string(), condition(drive), drive.name));
    condition_of(standing)
}

/// A state as a word for people.
fn in_words(state: SetState) -> &'static str {
    match state {
        SetState::Empty => "empty",
        SetState::Available => "ready to be filled",
        SetState::Open => "being filled",
        SetState::Closed => "with objects",
        SetState::Indexed => "with objects, in the saved index",
        SetState::Index => "with the saved index",
    }
}

/// Fails with a status of its own if the array is degraded; the reasons have been printed.
fn condition_of(standing: &ArrayStanding) -> Outcome {
    let well = standing.seen.drives.iter().all(|drive| matches!(condition(drive), "ok" | "removed"));
    if well && standing.report.damage.is_empty() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
}

fn drive_json(drive: &DriveInspection) -> Value {
    json!({ "drive": drive.id.0, "name": drive.name, "state": condition(drive), "in_use": drive.in_use, "zones": drive.zones,
            "zone_capacity_bytes": u64::from(drive.zone_capacity) * shingle_base::BLOCK_SIZE as u64 })
}

impl Dump {
    pub(crate) fn run(self) -> Outcome {
        let (seen, _) = look(&self.place)?;
        let state_of = |state: SetState| STATES.iter().find(|(known, _)| *known == state).map_or("?", |(_, name)| name);
        if self.json {
            let sets: Vec<Value> = seen
                .sets
                .iter()
                .map(|set| {
                    let zones: Vec<_> = set.members.iter().map(|(drive, zone)| json!([drive.0, zone.0])).collect();
                    json!({ "set": set.id.0, "state": state_of(set.state), "live_bytes": set.live,
                            "covered_blocks": set.covered, "zones": zones })
                })
                .collect();
            let drives: Vec<Value> = seen.drives.iter().map(drive_json).collect();
            say!(
                "{}",
                json!({ "array": seen.array.to_string(), "generation": seen.generation, "code": seen.code.to_string(),
                        "segment_bytes": seen.segment_length, "clean": seen.clean, "buffered": seen.buffered,
                        "snapshot_bytes": seen.snapshot_bytes, "drives": drives, "sets": sets })
            );
            return Ok(());
        }
        say!("array       {}", seen.array);
        say!("generation  {}", seen.generation);
        say!("code        {}", seen.code);
        say!("segment     {}", ByteSize(seen.segment_length.into()));
        say!("closed      {}", if seen.clean { "in order" } else { "not in order" });
        say!("buffer      {}", if seen.buffered { "objects may wait in it" } else { "empty, or none" });
        say!("snapshot    {}", ByteSize(seen.snapshot_bytes));
        for drive in &seen.drives {
            let capacity = ByteSize(u64::from(drive.zone_capacity) * shingle_base::BLOCK_SIZE as u64);
            say!("{}: {}, {} zones of {capacity}, {}", drive.id, condition(drive), drive.zones, drive.name);
        }
        for set in &seen.sets {
            let zones: Vec<String> =
                set.members.iter().map(|(drive, zone)| format!("{}:{}", drive.0, zone.0)).collect();
            let (state, live) = (state_of(set.state), ByteSize(set.live));
            let covered = if set.covered == u32::MAX { "all".to_owned() } else { set.covered.to_string() };
            say!("{}: {state}, {live} live, {covered} blocks covered, zones {}", set.id, zones.join(" "));
        }
        Ok(())
    }
}
