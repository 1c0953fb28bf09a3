//! A server that has the array open: commands that look at the array ask it; those for objects name commands that do.

use std::path::{Path, PathBuf};

use clap::Args;
use shingle_server::{Config, Error, Running};

use super::place::{ArrayArgs, Named};
use crate::device;
use crate::failure::{Failure, Outcome};

/// The configuration of the packaged service.
const PACKAGED: &str = "/etc/shingle/config.toml";

/// The server that may have the array open.
#[derive(Args)]
pub(crate) struct Serving {
    /// Configuration of a server that may have the array open [default: /etc/shingle/config.toml, unless there is a
    /// ./shingle-data].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Its data directory [default: the configuration's, or ./shingle-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Serving {
    /// A server's answer to `ask` about the array, which it finds by the nodes of its drives. `None` if no known server
    /// has it open.
    pub(crate) fn asked<T>(
        &self,
        place: &ArrayArgs,
        ask: impl FnOnce(Running, Vec<PathBuf>) -> Result<Option<T>, Error>,
    ) -> Outcome<Option<T>> {
        let Some(running) = self.running()? else { return Ok(None) };
        let Named { drives, .. } = place.named()?;
        let nodes = shingle_runtime::real::run(|rt| async move {
            let mut nodes = Vec::new();
            for name in &drives {
                if let Ok(node) = device::find(name, &rt).await {
                    nodes.push(std::path::absolute(node)?);
                }
            }
            Ok::<_, Failure>(nodes)
        })??;
        Ok(ask(running, nodes)?)
    }

    /// The configuration of a server, and true if it was named explicitly.
    fn configured(&self) -> (Outcome<Config>, bool) {
        let told = self.config.is_some() || self.data.is_some();
        let service = !told && !Path::new("shingle-data").exists();
        let file = self.config.clone().or_else(|| (service && Path::new(PACKAGED).exists()).then(|| PACKAGED.into()));
        (crate::serve::config(file.as_deref(), self.data.clone()), told)
    }

    fn running(&self) -> Outcome<Option<Running>> {
        let (config, told) = self.configured();
        let running = config.and_then(|config| Running::of(&config.data).map_err(Into::into));
        // A server that was not named explicitly may lack the array without an error.
        if told { running } else { Ok(running.unwrap_or_default()) }
    }

    /// Adds advice if drives are in use and no server was found that has them.
    pub(crate) fn advised<T>(&self, outcome: Outcome<T>) -> Outcome<T> {
        outcome.map_err(|failure| match failure.message.contains("in use") {
            true => Failure {
                message: format!(
                    "{}\nIf a server has the array open, name its configuration with --config, or its data directory with --data: it is asked then",
                    failure.message
                ),
                ..failure
            },
            false => failure,
        })
    }

    /// Adds commands that do the same through a server, if drives are in use: the server keeps buckets and keys in the array,
    /// and must see each change.
    pub(crate) fn instead<T>(&self, outcome: Outcome<T>, object: &str, s3: &str) -> Outcome<T> {
        outcome.map_err(|failure| {
            if !failure.message.contains("in use") {
                return failure;
            }
            let server = self.configured().0.map_or("ADDRESS".to_owned(), |config| config.listen.to_string());
            let advice = format!(
                "If a server has the array open, its objects are named by bucket and key: use `shingle object {object}`, or an \
                 S3 client, such as `aws --endpoint-url http://{server} s3 {s3}`"
            );
            Failure { message: format!("{}\n{advice}", failure.message), ..failure }
        })
    }
}
