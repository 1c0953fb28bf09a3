//! The owner of a drive's files: a thread of this process.

use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures_util::future::select;
use shingle_runtime::Runtime;
use shingle_zone_files::{FilesErrorKind, Options, ZoneFiles};
use tokio::sync::oneshot;

use crate::address::Named;
use crate::awake::Awake;
use crate::link::{Answering, Link};
use crate::local::Local;
use crate::opener::{OpenError, Opener};
use crate::outbox::{Outbox, Taking};
use crate::resume;
use crate::service;
use crate::session::Session;
use crate::tail::Tails;
use crate::wire::Call;

/// Parameters of an opening.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) opener: Opener,
    pub(crate) options: Options,
    pub(crate) holder: PathBuf,
    pub(crate) partition: Option<String>,
}

/// The owner, from other threads. It closes the files and ends when this is dropped.
pub(crate) struct Owner {
    /// Unbounded, as each caller waits for its answers: a thread for each call, a writer for a bounded number of bytes.
    calls: Arc<Outbox>,
    thread: Mutex<Option<JoinHandle<std::io::Result<()>>>>,
}

impl Link for Owner {
    fn send(&self, call: Call, data: Bytes, answering: Answering) {
        self.calls.push(call, data, answering);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.calls.end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Owner {
    /// Opens the files on a thread of their own.
    pub(crate) fn start(opening: Opening) -> Result<(Arc<Self>, Option<Arc<Tails>>), OpenError> {
        let calls = Arc::new(Outbox::default());
        let taking = Taking(calls.clone());
        let (tell, told) = channel();
        let thread = shingle_runtime::real::spawn_thread("shingle-files", move |rt| own(rt, opening, tell, taking));
        let thread = thread.map_err(|error| OpenError::other(FilesErrorKind::Unavailable, error.to_string()))?;
        let owner = Arc::new(Self { calls, thread: Mutex::new(Some(thread)) });
        let ended =
            |_| OpenError::other(FilesErrorKind::Unavailable, "the owner of the drive ended at once".to_owned());
        let tails = told.recv().map_err(ended)??;
        Ok((owner, tails))
    }
}

async fn opened(rt: &Runtime, opening: &Opening) -> Result<(ZoneFiles, Option<Arc<Tails>>), OpenError> {
    let device = (opening.opener)(rt.clone()).await?;
    let (files, report) = ZoneFiles::open(rt, device, opening.options).await?;
    tracing::debug!(?report, "the files are open");
    match resume::resumed(&files).await? {
        Ok(tails) => Ok((files, Some(Arc::new(tails)))),
        Err(error) => {
            tracing::warn!(%error, "each flush of a log waits for the drive: there is no memory for it");
            Ok((files, None))
        }
    }
}

async fn own(rt: Runtime, opening: Opening, tell: Sender<Result<Option<Arc<Tails>>, OpenError>>, taking: Taking) {
    let (files, tails) = match opened(&rt, &opening).await {
        Ok(opened) => opened,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let session = Session::new(&rt, &files, tails.clone());
    let local = Rc::new(Local::new(&rt, taking.0.clone(), session));
    let named = Named { holder: &opening.holder, partition: opening.partition.as_deref() };
    let beside = Rc::downgrade(&local);
    let serving = named.address().and_then(|address| service::serve(&rt, &files, tails.clone(), beside, &address));
    let (serves, ends) = oneshot::channel::<()>();
    match serving {
        Ok(serving) => rt.spawn_detached(async move {
            // Either ends it.
            let _ = select(pin!(serving), ends).await;
        }),
        Err(error) => {
            tracing::warn!(%error, "other processes cannot reach the files on this drive while it is open here");
        }
    }
    let _ = tell.send(Ok(tails.clone()));
    let awake = Awake::new();
    while let Some(jobs) = taking.0.next(&rt, &awake).await {
        local.begin(jobs);
        if files.running().is_err() {
            // Files that have stopped hold the drive for nobody: the next to open them owns it. (FS-END-2)
            break;
        }
    }
    // New callers are to try again until the drive is free. (FS-END-2)
    drop(serves);
    local.finish().await;
    drop(local);
    // The next owner has no tails of its own before these have gone.
    let held = files.clone();
    match files.close().await {
        Ok(()) => tails.iter().for_each(|tails| tails.end()),
        Err(error) => tracing::warn!(%error, "the files were not closed in order; the next opening reads more"),
    }
    drop(held);
}
