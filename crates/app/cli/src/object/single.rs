//! `shingle object get|put|rm|stat` of single objects: a server that runs is asked.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_runtime::Runtime;
use shingle_server::{Access, Config, Offline, Served};
use shingle_store_api::{
    Commit, Metadata, ObjectInfo, ObjectReader, ObjectStore, ObjectWriter, StoreError, StoreErrorKind, StoreResult,
};

use super::directory::{Directory, not_run};
use crate::failure::{Failure, Outcome};
use crate::named::{Name, copy_in, object_json, tell};
use crate::output::size;
use crate::transfer::{Input, Output, Range};

/// Writes an object to a file or to standard output.
#[derive(Args)]
pub(crate) struct Get {
    /// The object: its bucket, a slash, and its key.
    #[arg(value_name = "BUCKET/KEY")]
    name: Name,
    /// The file to write, or `-` [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes, counted as in HTTP: 0-99 (the first 100), 100- (all behind), -100 (the last 100) [default:
    /// all].
    #[arg(long, value_name = "FIRST-LAST", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Write binary data to the terminal too.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    directory: StoreArgs,
}

/// Stores a file, or standard input, as an object.
#[derive(Args)]
pub(crate) struct Put {
    /// The object: an existing bucket, a slash, and its key. An object of that name is replaced when all of the new one
    /// is safe.
    #[arg(value_name = "BUCKET/KEY")]
    name: Name,
    /// The file to store, or `-` [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Content type of the object [default: S3's `binary/octet-stream`].
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    #[command(flatten)]
    directory: Directory,
}

/// Deletes objects.
#[derive(Args)]
pub(crate) struct Rm {
    /// The objects: each is a bucket, a slash, and a key.
    #[arg(required = true, value_name = "BUCKET/KEY")]
    names: Vec<Name>,
    #[command(flatten)]
    directory: Directory,
}

/// Place of a server's objects, for a command that prints bytes.
#[derive(Args)]
pub(crate) struct StoreArgs {
    /// The server's configuration [default: none; default settings].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: the configuration's, or ./shingle-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The objects of a directory.
enum Objects<'a> {
    /// Of a server that runs.
    Served(Served),
    /// Opened by this command.
    Open(&'a dyn ObjectStore),
}

impl Objects<'_> {
    async fn head(&self, Name { bucket, key }: &Name) -> StoreResult<ObjectInfo> {
        match self {
            Self::Served(server) => server.head(bucket, key),
            Self::Open(store) => store.head(bucket, key).await,
        }
    }

    async fn open(&self, Name { bucket, key }: &Name) -> StoreResult<Box<dyn ObjectReader>> {
        match self {
            Self::Served(server) => server.open(bucket, key),
            Self::Open(store) => store.open(bucket, key).await,
        }
    }

    async fn delete(&self, Name { bucket, key }: &Name) -> StoreResult<bool> {
        match self {
            Self::Served(server) => server.delete(bucket, key),
            Self::Open(store) => store.delete(bucket, key).await,
        }
    }

    async fn begin_put(&self, Name { bucket, key }: &Name, size: Option<u64>) -> StoreResult<Box<dyn ObjectWriter>> {
        match self {
            Self::Served(server) => server.begin_put(bucket, key, size),
            Self::Open(store) => {
                let mut writer = store.begin_put(bucket, key).await?;
                size.into_iter().for_each(|size| writer.expect(size));
                Ok(writer)
            }
        }
    }
}

/// Runs `work` with all objects of a directory: those of the server that runs there; else it opens them, and closes them
/// even if the work failed.
fn with_objects<T>(
    directory: &Directory,
    access: Access,
    work: impl AsyncFnOnce(&Runtime, &Objects<'_>, &Config) -> Outcome<T>,
) -> Outcome<T> {
    let config = directory.configured()?;
    let served = Served::of(&config.data).map_err(|error| not_run(error.into()))?;
    let run = |rt: Runtime| async move {
        if let Some(server) = served {
            return work(&rt, &Objects::Served(server), &config).await;
        }
        let offline = Offline::open(&rt, &config, None).await.map_err(|error| not_run(error.into()))?;
        let result = match offline.store(access).await {
            Err(error) => Err(not_run(error.into())),
            Ok(store) => {
                store.absent().iter().for_each(|error| note!("shingle: {error}"));
                let result = work(&rt, &Objects::Open(store.store()), &config).await;
                store.close().await;
                result
            }
        };
        offline.close().await;
        result
    };
    shingle_runtime::real::run(run)?
}

/// An error of the store; if a bucket is missing, with advice to make one.
fn told(error: StoreError, config: &Config) -> Failure {
    if error.kind != StoreErrorKind::NoSuchBucket {
        return error.into();
    }
    Failure::new(format!(
        "{error}. Buckets are made by clients of the running server, such as `aws --endpoint-url http://{} s3 mb s3://NAME`; \
         `shingle object ls` lists the objects there are",
        config.listen
    ))
}

impl Get {
    pub(super) fn run(self) -> Outcome {
        let StoreArgs { config, data } = self.directory;
        let directory = Directory { config, data, json: false };
        let (name, range) = (self.name, self.range);
        with_objects(&directory, Access::Read, async |_, objects, config| {
            let reader = objects.open(&name).await.map_err(|error| told(error, config))?;
            let (label, size) = (name.shown(), reader.info().size);
            let (begin, end) = Range::of(range, &label, size)?;
            // Only now: a wrong name costs no file.
            let output = Output::begin(self.output, &label, self.force)?;
            output.copy((begin, end), async |at, length| reader.read(at, length).await).await
        })
    }
}

impl Put {
    pub(super) fn run(self) -> Outcome {
        let (name, directory) = (self.name, self.directory);
        let mut input = Input::open(self.file)?;
        let content_type = self.content_type.map(|content_type| ("content-type".to_owned(), content_type));
        let metadata: Metadata = content_type.into_iter().collect();
        let info = with_objects(&directory, Access::Write, async |rt, objects, config| {
            let begun = objects.begin_put(&name, input.size()).await;
            let mut writer = begun.map_err(|error| told(error, config))?;
            let etag = copy_in(rt, &mut input, &name, &mut *writer).await?;
            let commit = Commit { etag, metadata, ..Commit::default() };
            writer.commit(commit).await.map_err(|error| told(error, config))
        })?;
        if directory.json {
            say!("{}", object_json(&name, &info));
        } else {
            say!("stored `{}`: {}", name.shown(), size(info.size));
        }
        Ok(())
    }
}

impl Rm {
    pub(super) fn run(self) -> Outcome {
        let (names, directory) = (self.names, self.directory);
        let (mut deleted, mut absent) = (Vec::new(), Vec::new());
        let result = with_objects(&directory, Access::Write, async |_, objects, config| {
            for name in &names {
                let found = objects.delete(name).await.map_err(|error| told(error, config))?;
                if found { deleted.push(name) } else { absent.push(name) }
            }
            Ok(())
        });
        // Objects deleted before the failed one stay deleted.
        if directory.json {
            let names = |of: &[&Name]| of.iter().map(|name| name.json()).collect::<Vec<_>>();
            say!("{}", json!({ "deleted": names(&deleted), "absent": names(&absent) }));
        } else {
            deleted.iter().for_each(|name| say!("deleted `{}`", name.shown()));
        }
        result?;
        if absent.is_empty() {
            return Ok(());
        }
        let words: Vec<_> = absent.iter().map(|name| format!("there is no object `{}`", name.shown())).collect();
        Err(Failure::new(words.join("\n")))
    }
}

/// Shows one object.
pub(super) fn stat(name: &Name, directory: &Directory) -> Outcome {
    let info = with_objects(directory, Access::Read, async |_, objects, config| {
        objects.head(name).await.map_err(|error| told(error, config))
    })?;
    tell(name, &info, directory.json);
    Ok(())
}
