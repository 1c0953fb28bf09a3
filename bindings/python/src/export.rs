//! Volumes on real and emulated drives, exported over NBD while a policy cleans.

use std::path::PathBuf;
use std::rc::Rc;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use shingle_nbd_server::{About, Export as NbdExport, Listener, Options as NbdOptions, Server};
use shingle_runtime::Runtime;
use shingle_runtime::owner::{Calls, Closing, Desk};
use shingle_store_api::{StoreError, StoreResult};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{CreateOptions, FileDevice, Geometry, ZonedDevice};
use shingle_zoned_linux::OpenOptions;
use tokio::sync::oneshot;

use crate::answer::exception;
use crate::policy::{Cleaner, run_beside};

/// Calls to a volume that wait, and that are under way.
const CALLS: (usize, usize) = (64, 1024);

/// Makes an emulated drive in a file: `zones` zones of `zone_mib` MiB.
#[pyfunction]
#[pyo3(signature = (path, *, zones = 64, zone_mib = 16))]
pub(crate) fn create_drive(path: PathBuf, zones: u32, zone_mib: u32) -> PyResult<()> {
    let geometry = Geometry::hm_smr(shingle_base::Blocks(u64::from(zone_mib) * 256), zones, 0, 16);
    FileDevice::create(&path, &geometry, CreateOptions::default())
        .map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Makes a volume on a drive.
#[pyfunction]
#[pyo3(signature = (drive, *, size = None, sector = 4096, force = false))]
pub(crate) fn create_volume(
    py: Python<'_>,
    drive: PathBuf,
    size: Option<u64>,
    sector: u64,
    force: bool,
) -> PyResult<()> {
    let options = FormatOptions { size_bytes: size, sector_bytes: sector, force, ..FormatOptions::default() };
    py.detach(|| {
        let made = shingle_runtime::real::run(|rt| async move {
            let device = open(&drive, &rt).map_err(Failed::Drive)?;
            Volume::format(&rt, device, options).await.map(drop).map_err(Failed::Volume)
        });
        made.map_err(|error| Failed::Drive(error.to_string()))?
    })
    .map_err(PyErr::from)
}

enum Failed {
    Drive(String),
    Volume(StoreError),
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Drive(text) => PyOSError::new_err(text),
            Failed::Volume(error) => exception(&error),
        }
    }
}

fn open(path: &std::path::Path, rt: &Runtime) -> Result<Rc<dyn ZonedDevice>, String> {
    shingle_zoned_linux::open_drive(path, rt, OpenOptions::default()).map_err(|error| error.to_string())
}

/// State of the thread that owns a volume.
struct Core {
    volume: Volume,
    closing: Closing,
}

/// A volume that is exported over NBD on a Unix socket, until it is stopped.
#[pyclass(module = "shingle._native")]
pub(crate) struct Export {
    #[pyo3(get)]
    socket: PathBuf,
    /// The last one once the server has ended: the volume's thread ends with it, and closes the volume.
    desk: Option<Desk<Core>>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<StoreResult<()>>>,
    server: Option<std::thread::JoinHandle<()>>,
}

#[pymethods]
impl Export {
    /// Opens the volume on `drive` and exports it at `socket`; `policy` is that of `simulate`. With `record`, a block trace of what clients
    /// ask for goes to that new file.
    #[new]
    #[pyo3(signature = (drive, socket, policy = None, record = None))]
    fn new(
        py: Python<'_>,
        drive: PathBuf,
        socket: PathBuf,
        policy: Option<Py<PyAny>>,
        record: Option<PathBuf>,
    ) -> PyResult<Self> {
        let cleaner = Cleaner::of(py, policy)?;
        let (desk, calls) = Desk::with_places(CALLS.0, CALLS.1);
        let (opened, is_open) = oneshot::channel();
        let (closed, ended) = oneshot::channel();
        let owner = shingle_runtime::real::spawn_thread("volume", move |rt| async move {
            match opened_volume(&rt, &drive).await {
                Ok(volume) => {
                    let _ = opened.send(Ok(()));
                    let _ = closed.send(own(rt, volume, calls, cleaner).await);
                }
                Err(failed) => drop(opened.send(Err(failed))),
            }
        });
        owner.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let gone = || PyRuntimeError::new_err("the volume's thread has ended");
        py.detach(|| is_open.blocking_recv()).map_err(|_| gone())?.map_err(PyErr::from)?;
        let (stop, stopped) = oneshot::channel();
        let (served, is_served) = oneshot::channel();
        let (exported, at) = (desk.clone(), socket.clone());
        #[expect(clippy::disallowed_methods, reason = "a front end lives on threads of its own, outside simulations")]
        let server = std::thread::spawn(move || serve(exported, (at, record), stopped, served));
        py.detach(|| is_served.blocking_recv())
            .map_err(|_| gone())?
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self { socket, desk: Some(desk), stop: Some(stop), ended: Some(ended), server: Some(server) })
    }

    /// The address for NBD clients.
    #[getter]
    fn uri(&self) -> String {
        format!("nbd+unix:///volume?socket={}", self.socket.display())
    }

    /// Answers the calls under way, and closes the volume.
    fn stop(&mut self, py: Python<'_>) -> PyResult<()> {
        drop(self.stop.take());
        let (server, ended, desk) = (self.server.take(), self.ended.take(), self.desk.take());
        let closed = py.detach(move || {
            server.map(std::thread::JoinHandle::join);
            // A call that says so might find the queue full.
            drop(desk);
            ended.and_then(|ended| ended.blocking_recv().ok())
        });
        closed.transpose().map(drop).map_err(|error| exception(&error))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&mut self, py: Python<'_>, _kind: Py<PyAny>, _value: Py<PyAny>, _trace: Py<PyAny>) -> PyResult<()> {
        self.stop(py)
    }
}

async fn opened_volume(rt: &Runtime, drive: &std::path::Path) -> Result<Volume, Failed> {
    let device = open(drive, rt).map_err(Failed::Drive)?;
    let (volume, _) = Volume::open(rt, device, Options::default()).await.map_err(Failed::Volume)?;
    Ok(volume)
}

/// Serves a volume's calls until it is to close, and closes it.
async fn own(rt: Runtime, volume: Volume, calls: Calls<Core>, cleaner: Cleaner) -> StoreResult<()> {
    match cleaner {
        Cleaner::Native(layer) => layer.begin(&rt, &volume),
        Cleaner::Python(generator) => rt.spawn_detached(run_beside(rt.clone(), volume.control(), generator)),
    }
    let core = Rc::new(Core { volume: volume.clone(), closing: Closing::default() });
    calls.serve(rt, core, |core| &core.closing).await;
    volume.close().await
}

fn serve(
    desk: Desk<Core>,
    (socket, record): (PathBuf, Option<PathBuf>),
    stopped: oneshot::Receiver<()>,
    served: oneshot::Sender<std::io::Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(served.send(Err(error))),
    };
    runtime.block_on(async {
        let server = Server::new(NbdOptions::default());
        let begun = async {
            let about = About { fast_zeros: true, ..About::new("volume") };
            let export = NbdExport::of(desk, |core: &Core| &core.volume, about).await?;
            let listener = Listener::unix(&socket).await?;
            let (export, recording) = match record {
                Some(file) => export.recorded(&file).map(|(export, recording)| (export, Some(recording)))?,
                None => (export, None),
            };
            server.add(export)?;
            Ok((listener, recording))
        };
        match begun.await {
            Ok((listener, recording)) => {
                let _ = served.send(Ok(()));
                server.serve(vec![listener], async { drop(stopped.await) }).await;
                if let Some(recording) = recording {
                    recording.finish().await;
                }
            }
            Err(error) => drop(served.send(Err(error))),
        }
    });
}
