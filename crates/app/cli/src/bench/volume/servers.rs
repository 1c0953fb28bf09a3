//! The two servers, each on a Unix socket: this one with a volume in memory, and nbdkit with its memory plugin.

#![expect(clippy::disallowed_methods, reason = "nbdkit starts in real time")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_nbd_server::{About, Export, Listener, Options as ServerOptions, Server};
use shingle_runtime::owner::{Closing, Desk};
use shingle_store_api::BlockStore;
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, ZonedDevice};
use tokio::sync::oneshot;

use crate::bench::volume::drive::FlatDrive;
use crate::failure::{Failure, Outcome};

/// Bytes of a zone, and the number of zones for each one that the volume's bytes take: a third of a drive in use, so that cleaning has
/// little to copy.
const ZONE_BYTES: u64 = 16 << 20;
const ZONES_FOR_ONE: u64 = 3;

/// Time that nbdkit has for its start.
const PATIENCE: Duration = Duration::from_secs(10);

struct Core {
    volume: Volume,
    closing: Closing,
}

impl Core {
    fn store(&self) -> &dyn BlockStore {
        &self.volume
    }
}

/// This server. Serves as long as it lives.
pub(super) struct Ours {
    pub(super) socket: PathBuf,
    executor: tokio::runtime::Runtime,
}

impl Ours {
    pub(super) fn start(scratch: &Path, size: u64) -> Outcome<Self> {
        let (desk, calls) = Desk::<Core>::with_places(256, 4096);
        let (tell, told) = oneshot::channel();
        shingle_runtime::real::spawn_thread("volume", move |rt| async move {
            let zones = (size / ZONE_BYTES * ZONES_FOR_ONE) as u32;
            let geometry = Geometry::hm_smr(Blocks::holding(ZONE_BYTES), zones, 0, 128);
            let drive: Rc<dyn ZonedDevice> = Rc::new(FlatDrive::new(geometry));
            let options = FormatOptions { size_bytes: Some(size), ..FormatOptions::default() };
            let opened = async {
                Volume::format(&rt, drive.clone(), options).await?;
                Volume::open(&rt, drive.clone(), Options::default()).await
            };
            let volume = match opened.await {
                Ok((volume, _)) => volume,
                Err(error) => return drop(tell.send(Err(error))),
            };
            // If nobody waits, the calls end at once.
            let _ = tell.send(Ok(()));
            let core = Rc::new(Core { volume, closing: Closing::default() });
            calls.serve(rt, core, |core| &core.closing).await;
        })?;
        let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let socket = scratch.join("ours.sock");
        let listener = executor.block_on(async {
            told.await.map_err(|_| Failure::new("the volume's thread is gone"))??;
            let about = About { fast_zeros: true, ..About::new("volume") };
            let server = Server::new(ServerOptions::default());
            server.add(Export::of(desk, Core::store, about).await?)?;
            let listener = Listener::unix(&socket).await?;
            Ok::<_, Failure>((server, listener))
        });
        let (server, listener) = listener?;
        executor.spawn(async move { server.serve(vec![listener], std::future::pending()).await });
        Ok(Self { socket, executor })
    }

    pub(super) fn stop(self) {
        self.executor.shutdown_background();
    }
}

/// nbdkit. Ends with the value.
pub(super) struct Nbdkit {
    pub(super) socket: PathBuf,
    process: Child,
}

impl Nbdkit {
    /// # Errors
    /// Advice to install it.
    pub(super) fn start(scratch: &Path, size: u64) -> Outcome<Self> {
        let socket = scratch.join("nbdkit.sock");
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket).arg("memory");
        let command = command.arg(format!("size={size}")).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().map_err(|_| {
            Failure::new("this is measured beside nbdkit, which is not there: install it (apt install nbdkit)")
        })?;
        let mut server = Self { socket, process };
        let began = crate::bench::limit::now();
        while !server.socket.exists() {
            if server.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                return Err(Failure::new("nbdkit did not start"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
