//! The data directory of a server that commands on objects name, and the server that may run on it.

use std::future::Future;
use std::path::PathBuf;

use clap::Args;
use shingle_server::{Config, Error, Offline, Running};

use crate::failure::{Failure, Outcome};

/// Data directory of a server, and the form of output.
#[derive(Args)]
pub(crate) struct Directory {
    /// The server's configuration [default: none; default settings].
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The data directory [default: the configuration's, or ./shingle-data].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn not_run(failure: Failure) -> Failure {
    failure.not_run()
}

impl Directory {
    pub(super) fn configured(&self) -> Outcome<Config> {
        let config = crate::serve::config(self.config.as_deref(), self.data.clone()).map_err(not_run)?;
        if !config.data.is_dir() {
            return Err(not_run(Failure::new(format!("there is no data directory {}", config.data.display()))));
        }
        Ok(config)
    }

    /// The answer to `ask` of the server that runs on the directory; `None` if none runs.
    pub(super) fn asked<T>(&self, ask: impl FnOnce(Running) -> Result<T, Error>) -> Outcome<Option<T>> {
        let failed = |error: Error| not_run(error.into());
        let running = Running::of(&self.configured()?.data).map_err(failed)?;
        running.map(ask).transpose().map_err(failed)
    }
}

/// Runs `work` with the objects of a directory open, and closes them.
pub(super) fn with_objects<T, F: Future<Output = Outcome<(Offline, T)>>>(
    directory: &Directory,
    rebuild: Option<bool>,
    work: impl FnOnce(Offline) -> F,
) -> Outcome<T> {
    let config = directory.configured()?;
    let run = |rt| async move {
        let (objects, value) = work(Offline::open(&rt, &config, rebuild).await?).await?;
        objects.close().await;
        Ok(value)
    };
    shingle_runtime::real::run(run)?.map_err(not_run)
}
