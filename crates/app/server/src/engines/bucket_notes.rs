//! A file in the data directory with the buckets of each engine, for the time in which the engine cannot be asked.
//!
//! A cache: an engine's list replaces its notes when it opens. The file may be deleted: then all engines have to open
//! once before requests are served.
//!
//! # Invariants
//! - SV-NOTE-1: a bucket that was made since the engine was last open is noted: a line is durable before the bucket is made.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use shingle_placement::{Noted, Notes};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::reports::health::unix_time_s;

const HEAD: &str = "# Which buckets each engine has, version 1. A cache, written by the server.";
const FILE: &str = "buckets";

/// Creation times of buckets, by engine and name.
type Known = BTreeMap<String, BTreeMap<String, u64>>;

/// The notes of a data directory.
pub(crate) struct BucketNotes {
    path: PathBuf,
    known: Mutex<Known>,
}

impl BucketNotes {
    /// Reads the notes in `directory`. A file that makes no sense is ignored: then nothing is known.
    pub(crate) fn read(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let known = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "it is not known which buckets the engines had");
                None
            }
        };
        Self { path, known: Mutex::new(known.unwrap_or_default()) }
    }

    /// Notes of an engine, if there are any.
    pub(crate) fn of(&self, engine: &str) -> Option<Vec<Noted>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = known.get(engine)?.iter();
        Some(buckets.map(|(bucket, &created_unix_s)| Noted { bucket: bucket.clone(), created_unix_s }).collect())
    }

    /// Notes an engine's buckets, and writes the file anew.
    pub(crate) fn set(&self, engine: &str, found: &[Noted]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = found.iter().map(|noted| (noted.bucket.clone(), noted.created_unix_s)).collect();
        known.insert(engine.to_owned(), buckets);
        // The old file stays valid: each bucket made since is in it.
        if let Err(error) = write(&self.path, &known) {
            tracing::warn!(file = %self.path.display(), %error, "which buckets the engines have could not be noted");
        }
    }

    fn append(&self, line: &str, durable: bool) -> std::io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        // A line that a power cut tore ends here.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        if durable { file.sync_all() } else { Ok(()) }
    }
}

impl Notes for BucketNotes {
    fn add(&self, site: &str, bucket: &str) -> StoreResult<()> {
        let now = unix_time_s();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&format!("+ {site} {now} {bucket} ."), true).map_err(|error| {
            let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            let kind = if full { StoreErrorKind::NoSpace } else { StoreErrorKind::Unavailable };
            StoreError::new(kind, "the bucket could not be noted in the data directory, and was not made")
        })?;
        known.entry(site.to_owned()).or_default().insert(bucket.to_owned(), now);
        Ok(())
    }

    fn remove(&self, site: &str, bucket: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(site.to_owned()).or_default().remove(bucket);
        if let Err(error) = self.append(&format!("- {site} {bucket} ."), false) {
            tracing::warn!(file = %self.path.display(), %error, "it could not be noted that a bucket was deleted");
        }
    }
}

/// `None` for another version. A line ends with a dot: a line that a power cut tore is ignored.
fn parse(text: &str) -> Option<Known> {
    let mut known = Known::new();
    let mut lines = text.split_inclusive('\n');
    if lines.next()?.trim_end() != HEAD {
        return None;
    }
    for line in lines.filter_map(|line| line.strip_suffix('\n')) {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["engine", engine] => drop(known.entry((*engine).to_owned()).or_default()),
            ["+", engine, created, bucket, "."] => {
                let Ok(created) = created.parse() else { continue };
                known.entry((*engine).to_owned()).or_default().insert((*bucket).to_owned(), created);
            }
            ["-", engine, bucket, "."] => drop(known.entry((*engine).to_owned()).or_default().remove(*bucket)),
            _ => {}
        }
    }
    Some(known)
}

fn write(path: &Path, known: &Known) -> std::io::Result<()> {
    let mut text = format!("{HEAD}\n");
    for (engine, buckets) in known {
        text += &format!("engine {engine}\n");
        for (bucket, created) in buckets {
            text += &format!("+ {engine} {created} {bucket} .\n");
        }
    }
    let unfinished = path.with_extension("new");
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(bucket: &str, created_unix_s: u64) -> Noted {
        Noted { bucket: bucket.to_owned(), created_unix_s }
    }

    /// SV-NOTE-1
    #[test]
    fn what_was_noted_comes_back_and_torn_lines_and_other_files_say_nothing() {
        let folder = std::env::temp_dir().join(format!("shingle-notes-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let notes = BucketNotes::read(&folder);
        assert_eq!(notes.of("drives"), None);
        notes.set("drives", &[noted("a", 5), noted("/b", 6)]);
        notes.set("shelf", &[]);
        notes.add("shelf", "c").unwrap();
        notes.remove("drives", "a");
        let again = BucketNotes::read(&folder);
        assert_eq!(again.of("drives"), Some(vec![noted("/b", 6)]));
        assert_eq!(again.of("shelf").unwrap()[0].bucket, "c");
        assert_eq!(again.of("other"), None);

        let file = folder.join(FILE);
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{whole}+ shelf 12")).unwrap();
        BucketNotes::read(&folder).add("shelf", "d").unwrap();
        let buckets: Vec<_> =
            BucketNotes::read(&folder).of("shelf").unwrap().into_iter().map(|noted| noted.bucket).collect();
        assert_eq!(buckets, ["c", "d"]);
        for nonsense in ["", "\0", "# something else\nengine drives\n"] {
            std::fs::write(&file, nonsense).unwrap();
            assert_eq!(BucketNotes::read(&folder).of("drives"), None);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
