//! The order in which everything starts and stops.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shingle_placement::Placement;
use shingle_s3_gateway::{Gateway, Limits, Options as GatewayOptions};
use shingle_store_api::ObjectStore;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::admin;
use crate::config::Config;
use crate::credentials;
use crate::data_dir::DataDir;
use crate::engines::{Engines, Opened};
use crate::error::{Error, ErrorKind, Result};
use crate::ready;

/// A server that runs, in the tokio runtime it was started in.
pub struct Server {
    endpoint: SocketAddr,
    admin: Option<SocketAddr>,
    credentials: PathBuf,
    region: String,
    store: Arc<dyn ObjectStore>,
    engines: Engines,
    tidying: Option<JoinHandle<()>>,
    stop_gateway: oneshot::Sender<()>,
    gateway: JoinHandle<()>,
    admin_task: Option<JoinHandle<()>>,
    /// Locked until the last thread has ended.
    _directory: DataDir,
}

impl Server {
    /// Starts everything, and returns when requests are served.
    ///
    /// # Errors
    /// Every kind; the message says what to do. What was opened is closed again.
    pub async fn start(config: Config) -> Result<Self> {
        let mut directory = DataDir::open(&config.data)?;
        let keys = credentials::load_or_create(directory.path())?;
        // Before the drives, which can take long to open.
        let listener = bind(config.listen, "listen").await?;
        let admin_listener = match config.admin {
            Some(address) => Some(bind(address, "admin").await?),
            None => None,
        };
        let mut engines = Engines::default();
        let store = match engines.open(&config, &mut directory).await {
            Ok(store) => store,
            Err(error) => {
                engines.close().await;
                return Err(error);
            }
        };
        let Opened { store, placement } = store;

        let limits = Limits {
            connections_max: config.limits.connections,
            head_timeout: Duration::from_secs(config.limits.head_timeout_s),
            stall_timeout: Duration::from_secs(config.limits.stall_timeout_s),
            reader_rate_min: config.limits.reader_rate_min,
            writer_rate_min: config.limits.writer_rate_min,
            shutdown_grace: Duration::from_secs(config.limits.shutdown_grace_s),
            ..Limits::default()
        };
        let options =
            GatewayOptions { region: config.region.clone(), credentials: vec![keys], domain: config.domain, limits };
        let gateway =
            Gateway::new(store.clone(), options).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| Error::system("a socket", error));
        let endpoint = address(&listener)?;
        let admin = admin_listener.as_ref().map(address).transpose()?;
        let admin_task = admin_listener.map(|listener| {
            let watched = engines.watched(gateway.metrics());
            tokio::spawn(admin::serve(listener, Arc::new(watched)))
        });
        let tidying = placement.map(|placement| tokio::spawn(tidy(placement)));
        let (stop_gateway, stop) = oneshot::channel();
        let serving = tokio::spawn(async move {
            // A sender that is gone means the same.
            let served = gateway.serve(listener, async move { drop(stop.await) }).await;
            if served.cut > 0 {
                tracing::warn!(connections = served.cut, "requests that took too long to finish were cut off");
            }
        });
        Ok(Self {
            endpoint,
            admin,
            credentials: directory.path().join(credentials::FILE),
            region: config.region,
            store,
            engines,
            tidying,
            stop_gateway,
            gateway: serving,
            admin_task,
            _directory: directory,
        })
    }

    /// Where S3 clients connect.
    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// Where metrics are.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The file that holds the keys.
    pub fn credentials(&self) -> &Path {
        &self.credentials
    }

    /// The store that is served, for use without a front end.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    /// What is said once requests are served: endpoint, where the keys are, and to a person commands to try.
    pub fn ready_text(&self, person: bool) -> String {
        ready::text(self.endpoint, self.admin, &self.credentials, &self.region, person)
    }

    /// Completes if one of the stores ends by itself, which it only does when it fails.
    pub async fn failed(&mut self) -> Error {
        let which = self.engines.ended().await;
        let message = format!("{which} has stopped; see the log for why, and start the server again");
        Error::new(ErrorKind::Store, message)
    }

    /// Stops: no new requests, those under way finish, then the engines close. Takes at most the shutdown grace and a
    /// minute; what was acknowledged is safe in any case.
    pub async fn stop(self) {
        let Self { store, engines, tidying, stop_gateway, gateway, admin_task, _directory, .. } = self;
        let _ = stop_gateway.send(());
        let _ = gateway.await;
        drop(store);
        // They have handles of the stores.
        for task in [tidying, admin_task].into_iter().flatten() {
            task.abort();
            let _ = task.await;
        }
        engines.close().await;
    }
}

/// Removes what a power cut left in two storage classes.
async fn tidy(placement: Placement) {
    match placement.tidy().await {
        Ok(0) => {}
        Ok(objects) => tracing::info!(objects, "older versions in other storage classes were removed"),
        Err(error) => tracing::warn!(%error, "older versions in other storage classes stay until the next start"),
    }
}

/// Starts a server and runs it until SIGINT or SIGTERM. Standard output gets what [`Server::ready_text`] says once
/// requests are served, standard error the log.
///
/// # Errors
/// As [`Server::start`]; and `Store` if the object store stops by itself.
pub fn run(config: Config) -> Result<()> {
    start_log(&config.log)?;
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::system("no threads for the front end", error))?;
    let result = executor.block_on(async {
        let caught = |kind| signal(kind).map_err(|error| Error::system("no handler for signals", error));
        let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
        let mut server = tokio::select! {
            server = Server::start(config) => server?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        let mut out = io::stdout();
        let text = server.ready_text(io::IsTerminal::is_terminal(&out));
        // A reader that is gone is no reason to stop.
        let _ = io::Write::write_all(&mut out, text.as_bytes()).and_then(|()| io::Write::flush(&mut out));
        let result = tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            error = server.failed() => Err(error),
        };
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            () = server.stop() => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        result
    });
    executor.shutdown_background();
    result
}

fn start_log(levels: &str) -> Result<()> {
    let parsed: Targets =
        levels.parse().map_err(|error| Error::new(ErrorKind::Config, format!("log = \"{levels}\": {error}")))?;
    // The adapter calls every refused request an error and shows it whole, so clients could fill the log.
    let levels = if levels.contains("s3s") { parsed } else { parsed.with_target("s3s", LevelFilter::OFF) };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_filter(levels);
    // A caller that has its own log keeps it.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    Ok(())
}

async fn bind(address: SocketAddr, field: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::new(
            ErrorKind::InUse,
            format!("the address {address} is in use by another program: stop that one, or set another `{field}`"),
        ),
        _ => Error::system(format_args!("{field} = \"{address}\""), error),
    })
}
