//! A drive's owner: a thread that has the device and its chunk store to itself.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shingle_base::StoreId;
use shingle_chunk_store::{
    ChunkClient, ChunkStore, Counters, FormatOptions, GcStatus, Landing, Options, RecoveryReport, StoreStat, Unread,
};
use shingle_object_store::Standing;
use shingle_record::NotOwned;
use shingle_runtime::Runtime;
use shingle_zoned::{CreateOptions, FileDevice, ZonedDevice};
use shingle_zoned_linux::{OpenOptions, System};
use tokio::sync::oneshot;

use super::{thread, waiting, whole};
use crate::config::DriveConfig;
use crate::drive_path::holder;
use crate::engines::device;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::{self, Content, DriveName};
use crate::reports::gauges::Gauges;
use crate::reports::health::Health;

/// Requests that wait between the object store and a drive.
const QUEUE_DEPTH: usize = 256;
/// Largest age of figures in metrics.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Pause between two looks at a drive that is being opened.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without any answer after which a drive is named. Silence is counted in looks: a machine that stood still is one.
const LOOKS_NAMED: u32 = 60;
/// Looks without any answer after which a drive is given up: the kernel gives up commands by then.
const LOOKS_MAX: u32 = 120;

/// Figures of a drive, as its owner last gave them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) space: StoreStat,
    pub(crate) counters: Counters,
    pub(crate) gc: GcStatus,
}

/// A drive for observers.
#[derive(Clone)]
pub(crate) struct DriveView {
    pub(crate) path: PathBuf,
    pub(crate) store: StoreId,
    pub(crate) sample: Arc<Mutex<Sample>>,
    pub(crate) gauges: Arc<Gauges>,
    /// As the object store last met it.
    pub(crate) standing: Standing,
}

impl DriveView {
    /// State of the drive in a word.
    pub(crate) fn state(&self) -> &'static str {
        match self.standing {
            Standing::Up => "up",
            Standing::Slow => "slow",
            Standing::Failing => "failing",
            Standing::Silent => "silent",
            Standing::Ended => "stopped",
        }
    }

    /// True if it answers.
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self.standing, Standing::Silent | Standing::Ended)
    }

    /// The trouble that the object store has with it now, for people.
    pub(crate) fn trouble(&self) -> Option<String> {
        let what = match self.standing {
            Standing::Up => return None,
            Standing::Slow => "writes far slower than the others, which take its place for a while",
            Standing::Failing => "failed its last write",
            Standing::Silent => "does not answer: its objects cannot be read until it does",
            Standing::Ended => {
                "has stopped; the log says why: its objects cannot be read until the server is started again"
            }
        };
        Some(format!("drive {} {what}", self.path.display()))
    }
}

#[cfg(test)]
impl DriveView {
    pub(crate) fn for_test(number: usize, standing: Standing) -> Self {
        let (counters, forecast) = (Counters::default(), shingle_chunk_store::Forecast::Never);
        let gc = GcStatus { victim: None, progress: 0.0, speed: 0.0, forecast };
        let sample = Arc::new(Mutex::new(Sample { space: StoreStat::default(), counters, gc }));
        let path = PathBuf::from(format!("d{number}"));
        Self { path, store: StoreId(number as u64), sample, gauges: Arc::default(), standing }
    }
}

/// A drive whose owner runs.
pub(crate) struct Drive {
    pub(crate) path: PathBuf,
    /// For people: its path, and another name that its configuration has not.
    pub(crate) name: String,
    pub(crate) store: StoreId,
    /// Report of opening its store.
    pub(crate) report: RecoveryReport,
    /// `None` when the object store has it.
    pub(crate) client: Option<ChunkClient>,
    /// Ends the owner, whoever still has a client: readers and writers of slow clients must not keep the drive from being opened again.
    /// Dropped, it does the same.
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) sample: Arc<Mutex<Sample>>,
    pub(crate) gauges: Arc<Gauges>,
    /// Completes when the owner has ended.
    pub(crate) ended: oneshot::Receiver<()>,
}

impl Drive {
    pub(crate) fn view(&self) -> DriveView {
        DriveView {
            path: self.path.clone(),
            store: self.store,
            sample: self.sample.clone(),
            gauges: self.gauges.clone(),
            standing: Standing::default(),
        }
    }
}

/// Options of a drive's owner.
#[derive(Clone)]
pub(crate) struct Manner {
    /// The stores that this data directory has used.
    pub(crate) ours: Vec<StoreId>,
    /// Longest wait for the drive if it is missing.
    pub(crate) wait: Option<Duration>,
    pub(crate) blank: Blank,
    pub(crate) health: Health,
    /// Its part of the memory that all drives may use together.
    pub(crate) memory: u64,
    /// Its store gives up these places, if it can read all others.
    pub(crate) accept_loss: Vec<Unread>,
}

/// Options of a drive's store with that much memory: that much in the landing log, and a quarter as much for buffers.
/// On a server of few drives each has its best size.
fn options(memory: u64) -> Options {
    let best = Options::default();
    let buffer_bytes = best.buffer_bytes.min(usize::try_from(memory / 4).unwrap_or(usize::MAX));
    let landing = best.landing.map(|landing| Landing { budget: landing.budget.min(memory), ..landing });
    Options { buffer_bytes, landing, ..best }
}

/// The owner's report once the store is open.
struct Opened {
    name: String,
    store: StoreId,
    report: RecoveryReport,
    client: ChunkClient,
    sample: Arc<Mutex<Sample>>,
}

/// Treatment of a drive that holds no store, or is missing although the configuration says how to make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// It is made, and formatted.
    Make,
    /// It is left as it is: the error is [`NotMade`](ErrorKind::NotMade).
    Leave,
}

/// Starts a drive's owner and waits until its store is open; a drive that is silent meanwhile is given up.
///
/// # Errors
/// `Denied`, `Drive`, `NotMade`, `NewerVersion`, `InUse`, `System`.
pub(crate) async fn start(config: DriveConfig, number: usize, manner: Manner) -> Result<Drive> {
    device::refuse_hung(&config.path)?;
    let (tell, told) = oneshot::channel();
    let path = config.path.clone();
    let gauges = Arc::new(Gauges::default());
    let counted = gauges.clone();
    let (stop, stopped) = oneshot::channel();
    let health = manner.health.clone();
    let owner = move |runtime: Runtime| own(runtime, config, manner, counted, tell, stopped);
    let ended = thread::start(&format!("drive-{number}"), owner)?;
    let lost =
        |_| Error::new(ErrorKind::Drive, format!("{}: the drive's thread ended while it was opened", path.display()));
    let label = path.display().to_string();
    let told = tokio::select! {
        told = told => told.map_err(lost).flatten(),
        // Its thread lets it go as soon as it answers.
        () = silent(&gauges, &health, &label) => return Err(device::give_up(&path, ended)),
    };
    health.waits(&label, false);
    let Opened { name, store, report, client, sample } = told?;
    Ok(Drive { path, name, store, report, client: Some(client), stop, sample, gauges, ended })
}

/// Completes when a drive that is being opened has left commands unanswered for too long. It is named before.
#[expect(clippy::disallowed_methods, reason = "the server's own clock, outside simulations")]
async fn silent(gauges: &Gauges, health: &Health, drive: &str) {
    let (mut looks, mut answered) = (0, gauges.answered());
    loop {
        tokio::time::sleep(LOOK).await;
        let now = gauges.answered();
        if now != answered || !gauges.is_asked() {
            if looks >= LOOKS_NAMED {
                health.waits(drive, false);
            }
            (looks, answered) = (0, now);
            continue;
        }
        looks += 1;
        if looks == LOOKS_NAMED {
            tracing::error!(engine = health.name(), drive, "the drive has not answered for a minute: it is waited for");
            health.waits(drive, true);
        }
        if looks >= LOOKS_MAX {
            return health.waits(drive, false);
        }
    }
}

async fn own(
    runtime: Runtime,
    config: DriveConfig,
    manner: Manner,
    gauges: Arc<Gauges>,
    tell: oneshot::Sender<Result<Opened>>,
    stopped: oneshot::Receiver<()>,
) {
    let path = config.path.clone();
    let (name, store, report) = match open(&runtime, config, &manner, &gauges).await {
        Ok((name, store, report)) => (name, Rc::new(store), report),
        Err(error) => return drop(tell.send(Err(error))),
    };
    let (client, requests) = ChunkClient::channel(QUEUE_DEPTH);
    let sample = Arc::new(Mutex::new(look(&store)));
    let opened = Opened { name, store: store.id(), report, client, sample: sample.clone() };
    if tell.send(Ok(opened)).is_err() {
        return;
    }
    drop(runtime.spawn({
        let (runtime, store) = (runtime.clone(), store.clone());
        async move {
            loop {
                runtime.sleep(SAMPLE_INTERVAL).await;
                let now = look(&store);
                *sample.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
    }));
    if let Err(error) = store.serve_until(requests, async { drop(stopped.await) }).await {
        tracing::warn!(drive = %path.display(), %error, "the drive's last checkpoint failed; its next start takes longer");
    }
}

fn look(store: &ChunkStore) -> Sample {
    Sample { space: store.store_stat(), counters: store.counters(), gc: store.gc_status() }
}

/// Opens a drive's store, and finds the drive's name for people.
async fn open(
    runtime: &Runtime,
    config: DriveConfig,
    manner: &Manner,
    gauges: &Arc<Gauges>,
) -> Result<(String, ChunkStore, RecoveryReport)> {
    let Manner { ours, wait, blank, health, memory, accept_loss } = manner;
    let options = Options { accept_loss: accept_loss.clone(), ..options(*memory) };
    let (path, blank) = (&config.path, *blank);
    let name = DriveName::of_path(path).map_err(|error| Error::new(ErrorKind::Config, error))?;
    let node = waiting::find(runtime, &name, *wait, health).await?.unwrap_or_else(|| path.clone());
    if node != *path {
        tracing::info!(drive = %name, node = %node.display(), "found");
    }
    let called = inventory::called(&System::host(), &name, &node);
    let config = DriveConfig { path: node, ..config.clone() };
    let label = path.display().to_string();
    let device = waiting::named_if_late(runtime, health, &label, open_device(runtime, &config, blank)).await?;
    let device = gauges.count(runtime, device);
    let failed = |error: shingle_chunk_store::Error| {
        let kind = if error.message.contains("newer") { ErrorKind::NewerVersion } else { ErrorKind::Drive };
        Error::new(kind, format!("{}: {error}", path.display()))
    };
    if !ours.is_empty()
        && let Ok((store, chunks)) = shingle_chunk_store::identify(runtime, device.clone()).await
        && chunks > 0
        && !ours.contains(&store)
    {
        return Err(foreign(path, store, chunks, ours));
    }
    let (store, report) = match ChunkStore::open(runtime, device.clone(), options.clone()).await {
        Err(error) if is_blank(&error) && blank == Blank::Leave => {
            return Err(Error::new(ErrorKind::NotMade, format!("{}: the drive holds no store", path.display())));
        }
        Err(error) if is_blank(&error) => {
            if let content @ Content::Array(_) = inventory::content(&device).await {
                let words = format!("{}: {content}: take it out of the configuration", path.display());
                return Err(Error::new(ErrorKind::Drive, words));
            }
            ChunkStore::format(runtime, device.clone(), &FormatOptions::default()).await.map_err(failed)?;
            tracing::info!(drive = %path.display(), "formatted");
            ChunkStore::open(runtime, device, options).await.map_err(failed)?
        }
        opened => opened.map_err(failed)?,
    };
    for damage in &report.damage {
        tracing::error!(drive = called, "damage: {damage}");
    }
    Ok((called, store, report))
}

fn foreign(path: &Path, store: StoreId, chunks: u64, ours: &[StoreId]) -> Error {
    let ours: Vec<_> = ours.iter().map(ToString::to_string).collect();
    Error::new(
        ErrorKind::Drive,
        format!(
            "{}: the drive holds {chunks} chunks of store {store}, which is none of those that this data directory has \
             used ({}): give it a data directory of its own, or name the right drive",
            path.display(),
            ours.join(", ")
        ),
    )
}

/// True if the drive could be read and holds no store of any kind.
fn is_blank(error: &shingle_chunk_store::Error) -> bool {
    let source = std::error::Error::source(error);
    matches!(source.and_then(|source| source.downcast_ref()), Some(NotOwned::Blank(_)))
}

async fn open_device(runtime: &Runtime, config: &DriveConfig, blank: Blank) -> Result<Rc<dyn ZonedDevice>> {
    let path: &Path = &config.path;
    if blank == Blank::Leave && !holder(path).exists() {
        return Err(Error::new(ErrorKind::NotMade, format!("{}: the drive is not there", path.display())));
    }
    if let Some(shape) = &config.create
        && !holder(path).exists()
    {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::system(parent.display(), error))?;
        }
        FileDevice::create(path, &shape.geometry()?, CreateOptions::default()).map_err(whole::of_emulated)?;
        tracing::info!(drive = %path.display(), zones = shape.zones, "made an emulated drive");
    }
    device::open_drive_in_time(path, runtime, OpenOptions::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Shape;

    /// A reader or writer that a slow client keeps has a client of the drive: it does not keep the drive from being opened again.
    #[tokio::test]
    async fn a_drive_ends_under_those_who_still_have_it() {
        let path = std::env::temp_dir().join(format!("shingle-drive-{}-ends", std::process::id()));
        let create =
            Shape { zone_size: 1 << 20, zones: 64, conventional_zones: 2, open_zones_max: 32, ..Shape::default() };
        let config = DriveConfig { path: path.clone(), create: Some(create) };
        let manner = Manner {
            ours: Vec::new(),
            wait: None,
            blank: Blank::Make,
            health: Health::new("drives", tokio::sync::watch::Sender::default()),
            memory: 64 << 20,
            accept_loss: Vec::new(),
        };
        let drive = start(config.clone(), 0, manner.clone()).await.unwrap();
        let kept = drive.client.clone().unwrap();
        assert_eq!(
            start(config.clone(), 1, manner.clone()).await.err().map(|error| error.kind),
            Some(ErrorKind::InUse)
        );
        let closing = crate::engines::opening::close_drives(vec![drive]);
        tokio::time::timeout(Duration::from_secs(10), closing).await.expect("it waits for a client");
        let again = start(config, 2, manner).await.unwrap();
        assert!(kept.is_closed() && kept.store_stat().await.is_err());
        crate::engines::opening::close_drives(vec![again]).await;
        std::fs::remove_file(path).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_drive_that_hangs_while_it_is_opened_is_named_and_then_given_up() {
        let (gauges, health) = (Gauges::default(), Health::new("drives", tokio::sync::watch::Sender::default()));
        let watched = silent(&gauges, &health, "d7");
        tokio::pin!(watched);
        let mut still =
            async |seconds| tokio::time::timeout(Duration::from_secs(seconds), watched.as_mut()).await.is_err();
        assert!(still(1000).await, "it is asked nothing");
        let _asked = gauges.reads.begin();
        let lines = || health.lines(&[]);
        assert!(still(50).await && !lines().contains("d7"), "{}", lines());
        assert!(still(50).await && lines().contains("waiting for d7"), "{}", lines());
        gauges.zones.times[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(still(100).await, "it has answered another command");
        assert!(!still(100).await && !lines().contains("d7"), "{}", lines());
    }

    /// One number bounds the memory of any number of drives; one alone has its best size.
    #[test]
    fn drives_share_the_memory_that_they_keep() {
        let kept = |drives: u64| {
            let options = options((1 << 30) / drives);
            let landing = options.landing.map_or(0, |landing| landing.budget);
            (drives * landing, drives * options.buffer_bytes as u64)
        };
        for drives in [1, 2, 8, 24, 60, 200] {
            let (landing, buffers) = kept(drives);
            assert!(landing <= 1 << 30 && buffers <= 256 << 20, "{drives}: {landing}, {buffers}");
        }
        let best = Options::default();
        assert_eq!(kept(1), (best.landing.map_or(0, |landing| landing.budget), best.buffer_bytes as u64));
    }
}
