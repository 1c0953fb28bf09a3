//! `shingle blue put|get|rm|stat`: objects one by one.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_blue_objects::BlueClient;
use shingle_store_api::{Commit, Metadata, ObjectStore, StoreErrorKind};

use super::opened::{no_bucket, with_buckets};
use super::target::Target;
use crate::confirm::confirm;
use crate::failure::{Failure, Outcome};
use crate::named::{Name, copy_in, object_json, tell};
use crate::output::{counted, size};
use crate::transfer::{Input, Output, Range};

#[derive(Args)]
pub(crate) struct Stat {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The object: its bucket, a slash, and its key.
    #[arg(value_name = "BUCKET/KEY")]
    name: Name,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Get {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The object: its bucket, a slash, and its key.
    #[arg(value_name = "BUCKET/KEY")]
    name: Name,
    /// The file to write, or `-` [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes, counted as in HTTP: 0-99 (the first 100), 100- (all behind), -100 (the last 100) [default: all].
    #[arg(long, value_name = "FIRST-LAST", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Write binary data to the terminal too.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Put {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The object: its bucket, a slash, and its key. An object of that name is replaced when all of the new one is safe.
    #[arg(value_name = "BUCKET/KEY")]
    name: Name,
    /// The file to store, or `-` [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Content type of the object [default: S3's `binary/octet-stream`].
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Make the bucket if it is not there.
    #[arg(long)]
    create_bucket: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Rm {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The objects: each is a bucket, a slash, and a key. A bucket alone is one that holds nothing.
    #[arg(required = true, value_name = "BUCKET/KEY")]
    names: Vec<Target>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(self) -> Outcome {
        let Name { bucket, key } = &self.name;
        let info = with_buckets(&self.drive, false, async |_, client| Ok(client.head(bucket, key).await?))?;
        tell(&self.name, &info, self.json);
        Ok(())
    }
}

impl Get {
    pub(crate) fn run(self) -> Outcome {
        let Self { drive, name, output, range, force } = self;
        with_buckets(&drive, false, async |_, client| {
            let reader = client.open(&name.bucket, &name.key).await?;
            let (label, size) = (name.shown(), reader.info().size);
            let (begin, end) = Range::of(range, &label, size)?;
            // Only now: a wrong name costs no file.
            let output = Output::begin(output, &label, force)?;
            output.copy((begin, end), async |at, length| reader.read(at, length).await).await
        })
    }
}

impl Put {
    pub(crate) fn run(self) -> Outcome {
        let Self { drive, name, file, content_type, create_bucket, json } = self;
        let mut input = Input::open(file)?;
        let metadata: Metadata = content_type.into_iter().map(|of| ("content-type".to_owned(), of)).collect();
        let info = with_buckets(&drive, true, async |rt, client| {
            if create_bucket {
                make_bucket(client, &name.bucket).await?;
            }
            let mut writer = client.begin_put(&name.bucket, &name.key).await.map_err(|error| match error.kind {
                StoreErrorKind::NoSuchBucket => {
                    let failure = no_bucket(&name.bucket);
                    Failure::new(format!("{}; --create-bucket makes it", failure.message))
                }
                _ => error.into(),
            })?;
            input.size().into_iter().for_each(|size| writer.expect(size));
            let etag = copy_in(rt, &mut input, &name, &mut *writer).await?;
            Ok(writer.commit(Commit { etag, metadata, ..Commit::default() }).await?)
        })?;
        if json {
            say!("{}", object_json(&name, &info));
        } else {
            say!("stored `{}`: {}", name.shown(), size(info.size));
        }
        Ok(())
    }
}

async fn make_bucket(client: &BlueClient, bucket: &str) -> Outcome {
    match client.create_bucket(bucket).await {
        Err(error) if error.kind != StoreErrorKind::BucketExists => Err(error.into()),
        _ => Ok(()),
    }
}

impl Rm {
    pub(crate) fn run(self) -> Outcome {
        let Self { drive, names, yes, json } = self;
        let lost = match &names[..] {
            [one] => one.shown(),
            _ => counted(names.len() as u64, "name"),
        };
        confirm(yes, &format!("{}: {lost} will be lost", drive.display()))?;
        let (mut deleted, mut absent) = (Vec::new(), Vec::new());
        let result = with_buckets(&drive, true, async |_, client| {
            for name in &names {
                if delete(client, name).await? { deleted.push(name) } else { absent.push(name) }
            }
            Ok(())
        });
        // Objects deleted before the failed one stay deleted.
        if json {
            let row = |name: &&Target| json!({ "bucket": name.bucket, "key": name.key });
            let rows = |of: &[&Target]| of.iter().map(row).collect::<Vec<_>>();
            say!("{}", json!({ "deleted": rows(&deleted), "absent": rows(&absent) }));
        } else {
            deleted.iter().for_each(|name| say!("deleted {}", name.shown()));
        }
        result?;
        if absent.is_empty() {
            return Ok(());
        }
        let words: Vec<_> = absent.iter().map(|name| format!("there is no {}", name.shown())).collect();
        Err(Failure::new(words.join("\n")))
    }
}

/// False if there is no such object or bucket.
async fn delete(client: &BlueClient, name: &Target) -> Outcome<bool> {
    let deleted = match name.key.is_empty() {
        true => client.delete_bucket(&name.bucket).await.map(|()| true),
        false => client.delete(&name.bucket, &name.key).await,
    };
    match deleted {
        Err(error) if error.kind == StoreErrorKind::NoSuchBucket => Ok(false),
        deleted => Ok(deleted?),
    }
}
