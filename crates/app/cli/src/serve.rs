//! `shingle serve`: the S3 server in the foreground.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use shingle_server::{Config, Error, ErrorKind};

use crate::failure::{Failure, Outcome, status};

/// Without options, makes two emulated drives of 64 GiB under ./shingle-data: `shingle serve`
///
/// With a configuration, uses the drives named there: `shingle serve --config shingle.toml`
#[derive(Args)]
pub(crate) struct Serve {
    /// The configuration, a TOML file: see shingle.toml(5) [default: none; default settings].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory: index, keys, and emulated drives [default: the configuration's, or ./shingle-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address for S3 clients [default: the configuration's, or 127.0.0.1:9000].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Address for metrics and health, open to anyone who can connect [default: the configuration's, or none].
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Only check the configuration and every drive and array, and change nothing. Exit status: 0 the server could
    /// start, 1 it could not, 78 the configuration is wrong.
    #[arg(long)]
    check: bool,
}

/// Checks if the server could start; prints the findings, problems last.
fn check(config: Config) -> Outcome {
    let look = |runtime| async move { shingle_server::precheck(&runtime, &config).await };
    let found = shingle_runtime::real::run(look)??;
    found.fine.iter().for_each(|line| say!("ok: {line}"));
    found.warnings.iter().for_each(|line| say!("warning: {line}"));
    found.problems.iter().for_each(|line| say!("problem: {line}"));
    match (found.problems.is_empty(), found.wrong) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::silent(status::CONFIG)),
        (false, false) => Err(Failure::silent(status::FAILED)),
    }
}

/// A wrong configuration has a status of its own: the unit does not restart the server then.
fn failure(error: Error) -> Failure {
    let wrong = matches!(error.kind, ErrorKind::Config | ErrorKind::Credentials | ErrorKind::NewerVersion);
    let status = if wrong { status::CONFIG } else { status::FAILED };
    Failure::from(error).with_status(status)
}

/// The configuration of a file, or the default, with the data directory from the command line.
pub(crate) fn config(file: Option<&Path>, data: Option<PathBuf>) -> Outcome<Config> {
    let mut config = match file {
        Some(path) => Config::load(path).map_err(failure)?,
        None => Config::default(),
    };
    if let Some(data) = data {
        config.data = data;
    }
    // Paths in it are told to people in other directories, and noted for later starts.
    config.data = std::path::absolute(&config.data)?;
    Ok(config)
}

impl Serve {
    pub(crate) fn run(self) -> Outcome {
        let mut config = config(self.config.as_deref(), self.data)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.admin = self.admin.or(config.admin);
        if self.check {
            return check(config);
        }
        shingle_server::run(config).map_err(failure)
    }
}
