//! `shingle object`: the objects of a server that is not running.

use std::future::Future;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_base::ByteSize;
use shingle_server::Offline;

use crate::failure::{Failure, Outcome, status};

/// Commands on the objects of a data directory.
#[derive(Subcommand)]
pub(crate) enum Object {
    /// Make the index again from the drives: `shingle object rebuild-index --data shingle-data`
    RebuildIndex(Rebuild),
    /// Compare index and drives. Exit status: 0 clean, 4 damage, 8 could not run.
    Check(Check),
    /// List all objects.
    Ls(List),
    /// Show how many objects there are, and what they take.
    Stat(Directory),
    /// Win back the space of deleted and replaced objects now.
    Gc(Directory),
}

#[derive(Args)]
pub(crate) struct Directory {
    /// The server's configuration, if it has one.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The data directory, if not the configuration's or ./shingle-data.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    directory: Directory,
    /// Read every drive from its beginning, even if there is a backup of the index.
    #[arg(long)]
    no_backup: bool,
}

#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    directory: Directory,
    /// Only compare index and chunk lists; do not read the objects.
    #[arg(long)]
    quick: bool,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    directory: Directory,
    /// Only keys that begin with this.
    #[arg(default_value = "")]
    prefix: String,
}

/// Runs `work` with the objects of a directory open, and closes them.
fn with_objects<T, F: Future<Output = Outcome<(Offline, T)>>>(
    directory: &Directory,
    rebuild: Option<bool>,
    work: impl FnOnce(Offline) -> F,
) -> Outcome<T> {
    let not_run = |failure: Failure| failure.with_status(status::NOT_RUN);
    let config = crate::serve::config(directory.config.as_deref(), directory.data.clone()).map_err(not_run)?;
    if !config.data.is_dir() {
        return Err(not_run(Failure::new(format!("there is no data directory {}", config.data.display()))));
    }
    let run = |_| async move {
        let (objects, value) = work(Offline::open(&config, rebuild).await?).await?;
        objects.close().await;
        Ok(value)
    };
    shingle_runtime::real::run(run)?.map_err(not_run)
}

impl Object {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::RebuildIndex(rebuild) => rebuild.run(),
            Self::Check(check) => check.run(),
            Self::Ls(list) => list.run(),
            Self::Stat(directory) => directory.stat(),
            Self::Gc(directory) => directory.gc(),
        }
    }
}

impl Rebuild {
    fn run(self) -> Outcome {
        let directory = self.directory;
        with_objects(&directory, Some(!self.no_backup), |objects| async {
            let report = objects.report();
            let objects_now = objects.stats().await?.objects;
            if directory.json {
                let damage: Vec<_> = report.damage.iter().map(|damage| format!("{damage:?}")).collect();
                say!(
                    "{}",
                    json!({ "objects": objects_now, "files": report.files, "entries": report.entries,
                            "read_bytes": report.bytes, "damage": damage })
                );
            } else {
                say!(
                    "{objects_now} objects; {} entries read in {} files, {}",
                    report.entries,
                    report.files,
                    ByteSize(report.bytes)
                );
                report.damage.iter().for_each(|damage| say!("damaged: {damage:?}"));
            }
            Ok((objects, ()))
        })
    }
}

impl Check {
    fn run(self) -> Outcome {
        let directory = self.directory;
        let report = with_objects(&directory, None, |objects| async {
            let report = objects.check(!self.quick).await?;
            Ok((objects, report))
        })?;
        if directory.json {
            say!("{}", json!({ "clean": report.is_clean(), "repaired": 0, "damage": report.damage }));
        } else {
            say!("{} objects, {} verified", report.objects, ByteSize(report.bytes));
            report.damage.iter().for_each(|damage| say!("damaged: {damage}"));
            say!("{}", if report.is_clean() { "clean" } else { "damage is left: restore what is named above" });
        }
        if report.is_clean() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }
}

impl List {
    fn run(self) -> Outcome {
        let directory = self.directory;
        let mut rows = Vec::new();
        with_objects(&directory, None, |objects| async {
            let list = objects.list(&self.prefix, |bucket, object| {
                if directory.json {
                    rows.push(
                        json!({ "bucket": bucket, "key": object.key, "size_bytes": object.size, "etag": object.etag }),
                    );
                } else {
                    say!("{:>14}  {bucket}/{}", object.size, object.key);
                }
            });
            list.await?;
            Ok((objects, ()))
        })?;
        if directory.json {
            say!("{}", json!({ "objects": rows }));
        }
        Ok(())
    }
}

impl Directory {
    fn stat(self) -> Outcome {
        let stats = with_objects(&self, None, |objects| async {
            let stats = objects.stats().await?;
            Ok((objects, stats))
        })?;
        if self.json {
            say!(
                "{}",
                json!({ "objects": stats.objects, "live_bytes": stats.live_bytes, "files": stats.files,
                        "file_bytes": stats.file_bytes })
            );
        } else {
            say!("objects  {}", stats.objects);
            say!("live     {}", ByteSize(stats.live_bytes));
            say!("files    {}, {}", stats.files, ByteSize(stats.file_bytes));
        }
        Ok(())
    }

    fn gc(self) -> Outcome {
        let freed = with_objects(&self, None, |objects| async {
            let freed = objects.collect_garbage().await?;
            Ok((objects, freed))
        })?;
        if self.json {
            say!("{}", json!({ "freed_bytes": freed }));
        } else {
            say!("{} of files deleted", ByteSize(freed));
        }
        Ok(())
    }
}
