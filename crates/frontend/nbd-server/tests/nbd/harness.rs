//! A server with stores on threads of their own, for one test.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shingle_nbd_server::{About, Export, Limits, Listener, Options, Served, Server};
use shingle_runtime::owner::{Closing, Desk};
use shingle_runtime::real;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::store::{Control, MemoryStore};

/// Bytes of an export.
pub(crate) const SIZE: u64 = 64 << 20;

/// The owner of a store.
pub(crate) struct Core {
    pub(crate) store: MemoryStore,
    closing: Closing,
}

/// An export, its owner, and the hold on its store.
pub(crate) struct Volume {
    pub(crate) desk: Desk<Core>,
    pub(crate) control: Arc<Control>,
    pub(crate) export: Export,
}

pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) volume: Volume,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Served>,
}

/// Limits by which tests of stalls do not take long.
pub(crate) fn short() -> Limits {
    let stall = Duration::from_millis(500);
    Limits {
        stall_timeout: stall,
        handshake_timeout: stall,
        shutdown_grace: Duration::from_secs(5),
        ..Limits::default()
    }
}

impl Volume {
    pub(crate) async fn new(about: About, sector: u64) -> Self {
        let control = Arc::new(Control::default());
        let (desk, calls) = Desk::with_places(64, 1024);
        let held = control.clone();
        real::spawn_thread("store", move |runtime| async move {
            let store = MemoryStore::new(SIZE, sector, held);
            let core = Rc::new(Core { store, closing: Closing::default() });
            calls.serve(runtime, core, |core| &core.closing).await;
        })
        .unwrap();
        let export = Export::of(desk.clone(), |core| &core.store, about).await.unwrap();
        Self { desk, control, export }
    }

    /// The store loses its volatile cache.
    pub(crate) async fn cut_power(&self) {
        self.desk.call(|core| async move { core.store.cut_power() }).await.unwrap();
    }

    /// The owner goes away.
    pub(crate) async fn close(&self) {
        self.desk.call(|core| async move { core.closing.begin() }).await.unwrap();
    }
}

impl Harness {
    pub(crate) async fn new(about: About, sector: u64, options: Options) -> Self {
        let volume = Volume::new(about, sector).await;
        let server = Server::new(options);
        server.add(volume.export.clone()).unwrap();
        let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
        let address = listener.tcp_address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.clone();
        let serving = tokio::spawn(async move { serving.serve(vec![listener], async { drop(stopped.await) }).await });
        Self { server, address, volume, stop: Some(stop), serving }
    }

    /// One export `disk` of sectors of 512 bytes.
    pub(crate) async fn usual() -> Self {
        Self::limited(Limits::default()).await
    }

    /// The same, within limits.
    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::new(About::new("disk"), 512, Options { limits, tls: None }).await
    }

    /// A client in the handshake.
    pub(crate) async fn client(&self) -> Client {
        Client::over_tcp(self.address).await
    }

    /// A client that has the export, with structured replies.
    pub(crate) async fn attached(&self) -> Client {
        let mut client = self.client().await;
        client.structured().await;
        client.contexts("disk", &["base:allocation"]).await;
        client.go("disk", &[3]).await;
        client
    }

    /// The same for a client that does not ask for sectors.
    pub(crate) async fn untold(&self) -> Client {
        let mut client = self.client().await;
        client.structured().await;
        client.contexts("disk", &["base:allocation"]).await;
        client.go("disk", &[]).await;
        client
    }

    pub(crate) fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn stop(mut self) -> Served {
        self.begin_stop();
        self.serving.await.unwrap()
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come to hold");
}
