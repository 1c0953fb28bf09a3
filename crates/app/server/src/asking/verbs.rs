//! Answers to each question.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_array_objects::ArrayClient;
use shingle_array_store::ScrubReport;
use shingle_object_store::{CheckProgress, CheckReport, Depth, ObjectStoreClient};
use shingle_store_api::{Finding, ListRequest, ObjectStore, StoreError};
use tokio::sync::{OwnedMutexGuard, watch};

use super::lines::{Gone, Lines};
use super::wire::{ArrayStanding, Found, Line, Objects, Question, Refusal, hex};
use crate::engines::arrays::Array;
use crate::engines::keeper::{self, Engine, Kind};
use crate::reports::answers::Watched;
use crate::reports::damage::names_of;
use crate::reports::health::State;

/// Objects of a page.
const PAGE: usize = 1000;

/// Reason why a question got no answer.
pub(super) enum Refused {
    /// Nobody waits for it.
    Gone,
    Because(Refusal, String),
}

type Answer<T = ()> = Result<T, Refused>;

/// Answers a question, all but the last line.
pub(super) async fn answer(watched: &Watched, question: Question, lines: &mut Lines) -> Answer {
    match question {
        Question::ObjectLs { prefix } => {
            for engine in &watched.engines {
                list(&*store_of(engine)?, &prefix, lines).await?;
            }
            Ok(())
        }
        Question::ObjectStat {} => {
            for engine in &watched.engines {
                stored(engine, lines).await?;
            }
            Ok(())
        }
        Question::ObjectCheck { quick } => {
            for engine in &watched.engines {
                check(engine, quick, lines).await?;
            }
            Ok(())
        }
        Question::ArrayLs { drives, prefix } => list_array(&array(watched, &drives)?.1, prefix, lines).await,
        Question::ArrayStat { drives, name: None } => stand(&array(watched, &drives)?.1, lines).await,
        Question::ArrayStat { drives, name: Some(name) } => show(&array(watched, &drives)?.1, name, lines).await,
        Question::ArrayCheck { drives, quick } => {
            let (engine, array) = array(watched, &drives)?;
            let _one = begin_check(&engine)?;
            check_array(&engine, &array.client, quick, lines).await?.map_err(refused)
        }
    }
}

fn refused(error: StoreError) -> Refused {
    Refused::other(error.message)
}

/// The open parts of an engine; a refusal if it does not serve.
fn open(engine: &Engine) -> Answer<keeper::Watched> {
    engine.watched().ok_or_else(|| {
        let (name, advice) = (engine.health.name(), "wait until it does, or stop the server and try again");
        let why = match engine.health.state() {
            State::Opening(doing) => format!("{name} does not serve yet: {doing}; {advice}"),
            State::Failed(_, why) => format!("{name} does not serve: {why}; stop the server to look at it without"),
            State::Serving => format!("{name} does not serve; {advice}"),
        };
        Refused::other(why)
    })
}

fn store_of(engine: &Engine) -> Answer<Arc<dyn ObjectStore>> {
    Ok(match open(engine)? {
        keeper::Watched::Objects(client, _) => Arc::new(client),
        keeper::Watched::Array(array) => Arc::new(array.client.clone()),
        keeper::Watched::Blue(blue) => Arc::new(blue.client.clone()),
    })
}

/// True if two nodes are of one drive.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    match (one.file_type().is_block_device(), other.file_type().is_block_device()) {
        (true, true) => one.rdev() == other.rdev(),
        (false, false) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// The array that has one of the drives: no drive belongs to two.
fn array(watched: &Watched, drives: &[PathBuf]) -> Answer<(Arc<Engine>, Arc<Array>)> {
    let known = |path: &Path| std::fs::metadata(path).ok();
    let asked: Vec<_> = drives.iter().filter_map(|path| known(path)).collect();
    let mut closed = None;
    for engine in watched.engines.iter().filter(|engine| engine.kind == Kind::Array) {
        let array = match open(engine) {
            Ok(keeper::Watched::Array(array)) => array,
            Ok(keeper::Watched::Objects(..) | keeper::Watched::Blue(_)) => continue,
            Err(why) => {
                closed = Some(why);
                continue;
            }
        };
        let mut own = array.nodes.iter().filter_map(|path| known(path));
        if own.any(|own| asked.iter().any(|asked| is_same(&own, asked))) {
            return Ok((engine.clone(), array));
        }
    }
    let words = "the server has no array with these drives";
    Err(closed.unwrap_or_else(|| Refused::Because(Refusal::NotMine, words.to_owned())))
}

/// The right to check an engine. (SV-ASK-3)
fn begin_check(engine: &Engine) -> Answer<OwnedMutexGuard<()>> {
    engine.checking.clone().try_lock_owned().map_err(|_| {
        let name = engine.health.name();
        Refused::other(format!("{name} is being checked already: wait until that has ended, or end it"))
    })
}

async fn list(store: &dyn ObjectStore, prefix: &str, lines: &mut Lines) -> Answer {
    for bucket in lines.during(store.list_buckets(), || Line::Alive).await?.map_err(refused)? {
        let mut after = None;
        loop {
            let request = ListRequest { prefix: prefix.to_owned(), delimiter: None, after, limit: PAGE };
            let page = lines.during(store.list(&bucket.name, request), || Line::Alive).await?;
            let page = match page {
                Ok(page) => page,
                // It was deleted meanwhile.
                Err(error) if error.kind == shingle_store_api::StoreErrorKind::NoSuchBucket => break,
                Err(error) => return Err(refused(error)),
            };
            for object in page.objects {
                let bucket = bucket.name.clone();
                lines.add(&Line::Object { bucket, key: object.key, size: object.size, etag: object.etag }).await?;
            }
            lines.flush().await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(())
}

async fn stored(engine: &Engine, lines: &mut Lines) -> Answer {
    let line = match open(engine)? {
        keeper::Watched::Objects(client, _) => {
            let stats = lines.during(client.stats(), || Line::Alive).await?.map_err(refused)?;
            let (live_bytes, file_bytes) = (stats.live_bytes, stats.file_bytes);
            Line::Stored { objects: stats.objects, live_bytes, files: stats.files, file_bytes }
        }
        keeper::Watched::Array(array) => {
            let stats = lines.during(array.client.figures(), || Line::Alive).await?.map_err(refused)?.array;
            let (live_bytes, capacity_bytes) = (stats.live, stats.capacity);
            let array = engine.health.name().to_owned();
            Line::ArrayStored { array, objects: stats.objects, live_bytes, capacity_bytes }
        }
        keeper::Watched::Blue(blue) => {
            let figures = lines.during(blue.client.figures(), || Line::Alive).await?.map_err(refused)?;
            let (live_bytes, capacity_bytes) = (figures.store.live_bytes, figures.store.capacity_bytes);
            let blue = engine.health.name().to_owned();
            Line::BlueStored { blue, objects: figures.objects, live_bytes, capacity_bytes }
        }
    };
    Ok(lines.add(&line).await?)
}

async fn check(engine: &Engine, quick: bool, lines: &mut Lines) -> Answer {
    if engine.kind == Kind::Blue {
        let message =
            "it is not checked while it is served: stop the server, and check its drive with `shingle blue check`";
        let (blue, message) = (engine.health.name().to_owned(), message.to_owned());
        return Ok(lines.add(&Line::BlueUnchecked { blue, message }).await?);
    }
    let outcome = match open(engine) {
        Ok(keeper::Watched::Objects(client, _)) => {
            let _one = begin_check(engine)?;
            return check_objects(engine, &client, quick, lines).await;
        }
        Ok(keeper::Watched::Array(array)) => match begin_check(engine) {
            Ok(_one) => check_array(engine, &array.client, quick, lines).await?.map_err(refused),
            Err(why) => Err(why),
        },
        // It was dealt with above.
        Ok(keeper::Watched::Blue(_)) => Ok(()),
        Err(why) => Err(why),
    };
    match outcome {
        // The others are checked all the same.
        Err(Refused::Because(_, message)) if engine.kind == Kind::Array => {
            let array = engine.health.name().to_owned();
            Ok(lines.add(&Line::Unchecked { array, message }).await?)
        }
        outcome => outcome,
    }
}

async fn check_objects(engine: &Engine, client: &ObjectStoreClient, quick: bool, lines: &mut Lines) -> Answer {
    let depth = if quick { Depth::Quick } else { Depth::Full };
    let (tell, told) = watch::channel(CheckProgress::default());
    let work = client.check_gently(depth, move |now| {
        tell.send_replace(now);
    });
    let now = || {
        let CheckProgress { done, all } = *told.borrow();
        Line::Drives { done, all }
    };
    let report = lines.during(work, now).await?.map_err(refused)?;
    let names = report.damaged_objects.iter().map(|name| (name.bucket.clone(), name.key.clone()));
    engine.damage.checked(!quick, names, report.damage.len() as u64 + report.damage_more);
    let CheckReport { objects, entries, bytes, damage, damage_more, damaged_objects, damaged_uploads, unnamed } =
        report;
    for finding in damage {
        lines.add(&found(Found::Damage, finding)).await?;
    }
    for (upload, names) in [(false, damaged_objects), (true, damaged_uploads)] {
        for name in names {
            lines.add(&Line::Damaged { upload, bucket: name.bucket, key: name.key }).await?;
        }
    }
    Ok(lines.add(&Line::Checked { objects, entries, bytes, damage_more, unnamed }).await?)
}

fn found(what: Found, finding: Finding) -> Line {
    Line::Found { what, words: finding.words, objects: finding.objects.into() }
}

/// Checks an array; its error, if it could not be checked.
async fn check_array(
    engine: &Engine,
    client: &ArrayClient,
    quick: bool,
    lines: &mut Lines,
) -> Result<Result<(), StoreError>, Gone> {
    let array = engine.health.name().to_owned();
    let first = Line::Sets { array: array.clone(), done: 0, sets: 0, bytes: 0, damaged: 0 };
    let (tell, told) = watch::channel(first);
    let label = array.clone();
    let work = client.check_gently(quick, move |now: &ScrubReport| {
        let (done, sets, bytes, damaged) = (now.done, now.sets, now.bytes, now.damaged.len());
        tell.send_replace(Line::Sets { array: label.clone(), done, sets, bytes, damaged });
    });
    let report = match lines.during(work, || told.borrow().clone()).await? {
        Ok(report) => report,
        Err(error) => return Ok(Err(error)),
    };
    engine.damage.checked(!quick, names_of(&report.lost), (report.repairable.len() + report.lost.len()) as u64);
    for (what, all) in [(Found::MissingDrive, report.missing_drives), (Found::Buffer, report.buffer)] {
        for words in all {
            lines.add(&Line::Found { what, words, objects: Objects::default() }).await?;
        }
    }
    let found_all = [(Found::Repairable, report.repairable), (Found::Lost, report.lost), (Found::Away, report.away)];
    for (what, all) in found_all {
        for finding in all {
            lines.add(&found(what, finding)).await?;
        }
    }
    let (objects, sets, bytes) = (report.objects, report.sets, report.bytes);
    lines.add(&Line::ArrayChecked { array, objects, sets, bytes }).await?;
    Ok(Ok(()))
}

async fn list_array(array: &Array, prefix: String, lines: &mut Lines) -> Answer {
    let mut after = None;
    loop {
        let work = array.client.array_objects(prefix.clone().into_bytes(), after.take(), PAGE);
        let page = lines.during(work, || Line::Alive).await?.map_err(refused)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.name.to_vec());
        for object in page {
            let name = hex(&object.name);
            lines.add(&Line::ArrayObject { name, size: object.size, version: object.version.0 }).await?;
        }
        lines.flush().await?;
    }
}

async fn stand(array: &Array, lines: &mut Lines) -> Answer {
    let mut seen = lines.during(array.client.inspection(), || Line::Alive).await?.map_err(refused)?;
    let stats = lines.during(array.client.figures(), || Line::Alive).await?.map_err(refused)?.array;
    seen.clean = array.was_clean;
    let standing = ArrayStanding { seen, stats, report: array.report.clone() };
    Ok(lines.add(&Line::Standing(Box::new((&standing).into()))).await?)
}

async fn show(array: &Array, name: String, lines: &mut Lines) -> Answer {
    let found = lines.during(array.client.array_object(name.into_bytes()), || Line::Alive).await?.map_err(refused)?;
    let object = found.map_err(|error| Refused::other(error.to_string()))?;
    let name = hex(&object.name);
    Ok(lines.add(&Line::ArrayObject { name, size: object.size, version: object.version.0 }).await?)
}
