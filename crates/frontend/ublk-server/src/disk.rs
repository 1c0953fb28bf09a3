//! The life of a disk: added, served, started; stopped, and deleted.

use std::path::PathBuf;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::Shared;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zoned_linux::{UblkCommand, UblkDisk, UblkError, UblkErrorKind, UblkRequest, UblkRequests};

use crate::backend::{Backend, Done, Refused};

/// A disk of the kernel that this thread serves.
pub struct Disk {
    rt: Runtime,
    disk: UblkDisk,
    /// Completes when the kernel gives no more requests.
    served: Shared<LocalBoxFuture<'static, ()>>,
}

impl Disk {
    /// Makes a disk of `backend`, with its node. `called` names it in the log.
    ///
    /// # Errors
    /// As [`UblkDisk::add`] and [`UblkDisk::start`].
    ///
    /// # Panics
    /// Outside of [`shingle_runtime::real`].
    pub async fn begin(rt: &Runtime, backend: Rc<dyn Backend>, called: String) -> Result<Self, UblkError> {
        let shape = backend.shape().map_err(|why| UblkError { kind: UblkErrorKind::Shape(why) })?;
        let (disk, requests) = UblkDisk::add(rt, shape).await?;
        let task = rt.spawn(serve(rt.clone(), requests, backend, called.into()));
        let served = task.map(drop).boxed_local().shared();
        let begun = Self { rt: rt.clone(), disk, served };
        if let Err(error) = begun.disk.start(rt).await {
            // Its error says more than theirs.
            let _ = begun.end().await;
            return Err(error);
        }
        Ok(begun)
    }

    /// The disk's node.
    pub fn node(&self) -> PathBuf {
        self.disk.node()
    }

    /// Completes when the disk was taken away from outside.
    pub async fn ended(&self) {
        self.served.clone().await;
    }

    /// Takes the disk away: the kernel writes what it holds in memory, requests are served, the node goes. (UB-END-1)
    ///
    /// # Errors
    /// `System`.
    pub async fn end(self) -> Result<(), UblkError> {
        let stopped = self.disk.stop(&self.rt).await;
        if stopped.is_ok() {
            self.served.await;
        }
        // One that cannot be stopped is deleted all the same, which stops it.
        self.disk.delete(&self.rt).await?;
        stopped
    }
}

/// Serves a disk's requests to the end, each in a task of its own.
async fn serve(rt: Runtime, mut requests: UblkRequests, backend: Rc<dyn Backend>, called: Rc<str>) {
    while let Some(request) = requests.next().await {
        let (backend, called) = (backend.clone(), called.clone());
        rt.spawn_detached(async move { answer(request, &*backend, &called).await });
    }
}

async fn answer(request: UblkRequest, backend: &dyn Backend, called: &str) {
    let command = request.command();
    let data = match request.data() {
        Ok(data) => data,
        Err(error) => {
            tracing::error!(disk = called, %error, "the kernel does not give the data of a write");
            return request.failed(libc::EIO);
        }
    };
    answer_with(request, backend.execute(command, data).await, called);
}

/// Gives the kernel the result of a command. (UB-ACK-1)
fn answer_with(request: UblkRequest, result: Result<Done, Refused>, called: &str) {
    let command = request.command();
    match result {
        Ok(Done::Plain) => request.done(),
        Ok(Done::Data(pieces)) => request.done_with(&pieces),
        Ok(Done::Appended(sector)) => request.appended(sector),
        Err(refused) => {
            if command == UblkCommand::Unknown {
                tracing::warn!(disk = called, "{}", refused.message);
            }
            tracing::debug!(disk = called, ?command, errno = refused.errno, "{}", refused.message);
            request.failed(refused.errno);
        }
    }
}
