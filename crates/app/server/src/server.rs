//! The order of starting and stopping.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shingle_s3_gateway::{AccessLog, Gateway, Limits, Options as GatewayOptions};
use shingle_store_api::ObjectStore;
use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::asking;
use crate::config::Config;
use crate::credentials;
use crate::data_dir::DataDir;
use crate::engines::keeper::Engines;
use crate::engines::opening;
use crate::error::{Error, ErrorKind, Result};
use crate::reports::access_log::{AccessNotes, AccessWriter};
use crate::reports::admin;
use crate::reports::answers::{Answers, Watched};
use crate::reports::health::unix_time_s;
use crate::reports::notify::Manager;
use crate::reports::ready;
use crate::reports::status;
use crate::reports::volumes;
use crate::signals::{Signals, caught};
use crate::volumes::Volumes;

/// Time between two lines to the service manager.
const STATUS_PAUSE: Duration = Duration::from_secs(30);

/// A server that runs, in the tokio runtime it was started in.
pub struct Server {
    endpoint: SocketAddr,
    admin: Option<SocketAddr>,
    credentials: PathBuf,
    region: String,
    store: Arc<dyn ObjectStore>,
    engines: Engines,
    volumes: Option<Volumes>,
    watched: Arc<Watched>,
    access_log: Option<Arc<AccessWriter>>,
    grace: Duration,
    stop_gateway: oneshot::Sender<()>,
    gateway: JoinHandle<()>,
    admin_tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts everything, and returns when requests are served: by each engine, or by those that could be opened.
    ///
    /// # Errors
    /// As [`Server::begin`] and [`Server::opened`]. Opened engines are closed again.
    pub async fn start(config: Config) -> Result<Self> {
        let mut server = Self::begin(config).await?;
        match server.opened().await {
            Ok(()) => Ok(server),
            Err(error) => {
                server.stop().await;
                Err(error)
            }
        }
    }

    /// Begins to start everything. Connections are answered from now on: engines that are not open refuse with 503.
    ///
    /// # Errors
    /// `Config`, `Credentials`, `InUse`, `NewerVersion`, `System`; the message says what to do.
    pub async fn begin(config: Config) -> Result<Self> {
        let directory = DataDir::open(&config.data)?;
        let path = directory.path().to_owned();
        let keys = credentials::load_or_create(&path)?;
        let listener = bind(config.listen, "listen").await?;
        let admin_listener = match config.admin {
            Some(address) => Some(bind(address, "admin").await?),
            None => None,
        };
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| Error::system("a socket", error));
        let endpoint = address(&listener)?;
        let admin = admin_listener.as_ref().map(address).transpose()?;
        // Their places are found to be in use before anything is opened.
        let volumes = match config.exports() {
            Some(exports) => Some(Volumes::begin(&exports).await?),
            None => None,
        };
        let memory = config.memory();
        let engines = Engines::begin(&config, directory, &memory)?;
        let store = engines.store();

        let access = match config.access_log() {
            Some(place) => Some(Arc::new(AccessWriter::start(place)?)),
            None => None,
        };
        let access_log = access.clone();
        let access = access.map(|writer| writer as Arc<dyn AccessLog>);
        let grace = Duration::from_secs(config.limits.shutdown_grace_s);
        let limits = Limits {
            connections_max: config.limits.connections,
            head_timeout: Duration::from_secs(config.limits.head_timeout_s),
            stall_timeout: Duration::from_secs(config.limits.stall_timeout_s),
            reader_rate_min: config.limits.reader_rate_min,
            writer_rate_min: config.limits.writer_rate_min,
            shutdown_grace: grace,
            memory: memory.clone(),
            ..Limits::default()
        };
        let options = GatewayOptions {
            region: config.region.clone(),
            credentials: vec![keys],
            domain: config.domain,
            limits,
            access,
        };
        let gateway =
            Gateway::new(store.clone(), options).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        let ids = gateway.request_ids();
        let notes = access_log.clone().map(|log| AccessNotes { log, ids });
        let watched = Arc::new(Watched {
            gateway: gateway.metrics(),
            store: store.clone(),
            engines: engines.all(),
            volumes: volumes.as_ref().map(Volumes::standings).unwrap_or_default(),
            listen: endpoint,
            admin,
            started_unix_s: unix_time_s(),
            memory,
            access: notes,
            seats: Arc::new(Semaphore::new(asking::SEATS)),
        });
        let mut admin_tasks = vec![tokio::spawn(admin::serve(status::listen(&path)?, watched.clone()))];
        if let Some(listener) = admin_listener {
            admin_tasks.push(tokio::spawn(admin::serve(listener, watched.clone())));
        }
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
            credentials: path.join(credentials::FILE),
            region: config.region,
            store,
            engines,
            volumes,
            watched,
            access_log,
            grace,
            stop_gateway,
            gateway: serving,
            admin_tasks,
        })
    }

    /// Completes once each engine serves or has failed.
    ///
    /// # Errors
    /// Every kind but those of [`Server::begin`], if all engines have failed; the message says what to do.
    pub async fn opened(&mut self) -> Result<()> {
        self.engines.settled().await
    }

    /// Address for S3 clients.
    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// Address of the metrics.
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

    /// The longest time that [`Server::stop`] takes: it grows with the objects, whose index has to be made durable.
    pub async fn stop_patience(&self) -> Duration {
        let objects = Answers::of(&self.watched).await.objects_max();
        [opening::close_patience(objects), opening::DRIVE_CLOSE_PATIENCE]
            .into_iter()
            .fold(self.grace, Duration::saturating_add)
    }

    /// Text for the time when requests are served: endpoint, the keys' file, and for a person commands to try.
    pub fn ready_text(&self, person: bool) -> String {
        let volumes: Vec<_> = self.watched.volumes.iter().flat_map(|volume| volume.uris.clone()).collect();
        ready::text(self.endpoint, self.admin, &volumes, &self.credentials, &self.region, person)
    }

    /// Completes if all engines have failed; with the first one's error.
    pub async fn failed(&mut self) -> Error {
        self.engines.failed().await
    }

    /// Stops: no new requests, those under way finish, then the engines close. Acknowledged writes are safe in any
    /// case.
    pub async fn stop(self) {
        let Self { store, engines, volumes, stop_gateway, gateway, admin_tasks, .. } = self;
        let _ = stop_gateway.send(());
        let _ = gateway.await;
        drop(store);
        for task in admin_tasks {
            task.abort();
            let _ = task.await;
        }
        // Side by side: a volume whose drive hangs keeps no engine from closing.
        let volumes = async {
            if let Some(volumes) = volumes
                && !volumes.stop(opening::DRIVE_CLOSE_PATIENCE).await
            {
                tracing::error!(
                    "a volume could not be closed in time; its next start reads what was written since the last checkpoint"
                );
            }
        };
        tokio::join!(volumes, engines.close());
    }
}

/// Starts a server and runs it until SIGINT, SIGTERM or SIGHUP. Standard output gets [`Server::ready_text`] once
/// requests are served, standard error the log.
///
/// # Errors
/// As [`Server::start`]; and an engine's error if all of them have failed.
pub fn run(config: Config) -> Result<()> {
    start_log(&config.log)?;
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::system("no threads for the front end", error))?;
    let result = executor.block_on(async {
        let manager = Manager::from_environment();
        let mut reopen = caught(SignalKind::user_defined1())?;
        let mut signals = Signals::new()?;
        let mut server = Server::begin(config).await?;
        tracing::info!(endpoint = %server.endpoint(), "listening; the engines are being opened");
        manager.ready();
        let (watched, access_log) = (server.watched.clone(), server.access_log.clone());
        let rotate = async {
            while reopen.recv().await.is_some() {
                access_log.iter().for_each(|log| log.reopen());
            }
            std::future::pending().await
        };
        let result = tokio::select! {
            () = signals.any() => Ok(()),
            error = serve(&mut server) => Err(error),
            () = tell(&manager, &watched) => Ok(()),
            () = rotate => Ok(()),
        };
        manager.stopping(server.stop_patience().await);
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            () = server.stop() => {}
            () = signals.any() => {}
        }
        result
    });
    executor.shutdown_background();
    result
}

/// Prints the ready text when requests are served, and completes when none is any more.
async fn serve(server: &mut Server) -> Error {
    if let Err(error) = server.opened().await {
        return error;
    }
    let mut out = io::stdout();
    let text = server.ready_text(io::IsTerminal::is_terminal(&out));
    // A reader that is gone is no reason to stop.
    let _ = io::Write::write_all(&mut out, text.as_bytes()).and_then(|()| io::Write::flush(&mut out));
    server.failed().await
}

/// Tells the service manager the server's state, and that it lives (SV-LIVE-1).
async fn tell(manager: &Manager, watched: &Watched) {
    // A third, so that one that comes late does no harm.
    let pause = manager.watchdog().map_or(STATUS_PAUSE, |time| (time / 3).min(STATUS_PAUSE));
    loop {
        let answers = Answers::of(watched).await;
        manager.status((answers.lines() + &volumes::lines(&watched.volumes)).trim_end());
        for engine in answers.silent() {
            tracing::error!(
                engine,
                "the engine does not answer: its objects are not served until it does, or the server is restarted"
            );
        }
        if !answers.is_dead() {
            manager.alive();
        }
        tokio::time::sleep(pause).await;
    }
}

/// A level, or levels by module. A word that is neither would be taken for a module whose name it is, and silence all others.
pub(crate) fn log_levels(levels: &str) -> Result<Targets> {
    let wrong = |why: &dyn std::fmt::Display| {
        let advice = "a level is one of off, error, warn, info, debug and trace; a module's is written module=level";
        Error::new(ErrorKind::Config, format!("log = \"{levels}\": {why}; {advice}"))
    };
    for word in levels.split(',').map(str::trim) {
        let (level, module) = word.split_once('=').map_or((word, None), |(module, level)| (level, Some(module)));
        if level.parse::<LevelFilter>().is_err() || level.bytes().all(|c| c.is_ascii_digit()) {
            return Err(wrong(&format_args!("`{level}` is no level")));
        }
        if module.is_some_and(|module| module.trim().is_empty()) {
            return Err(wrong(&"a module has no name"));
        }
    }
    levels.parse().map_err(|error| wrong(&error))
}

/// Begins a log of these levels on standard error.
pub fn start_log(levels: &str) -> Result<()> {
    let parsed = log_levels(levels)?;
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
