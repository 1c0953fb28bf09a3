//! A drive in a file, whose flushes fail or take time.

#![allow(unreachable_pub, reason = "pub for the programs")]
#![allow(dead_code, reason = "each program uses some of it")]

use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_files_server::{Caching, Files, OpenError, OpenFiles, Opener, open_files};
use shingle_runtime::Runtime;
use shingle_zone_files::{FilesError, FilesErrorKind, FormatOptions, Options, WriteLifetime, ZoneFiles};
use shingle_zoned::{
    CreateOptions, DeviceError, DeviceErrorKind, DeviceFuture, FileDevice, FileDeviceErrorKind, Geometry, ZoneInfo,
    ZoneOp, ZonedDevice,
};

pub const NONE: WriteLifetime = WriteLifetime::None;
const CACHE: u64 = 1 << 20;
/// Both ways to keep tables in memory.
pub const CACHINGS: [Caching; 2] = [Caching::Blocks(CACHE), Caching::WholeTables(CACHE)];

/// A drive with an empty store, in a file that goes with it.
pub struct Drive {
    path: PathBuf,
    store: StoreId,
    /// Flushes fail.
    pub fails: Arc<AtomicBool>,
    /// Milliseconds that a flush takes.
    pub delay: Arc<AtomicU32>,
    /// The cache of those who open it.
    pub caching: Caching,
}

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drive {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-files-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        FileDevice::create(&path, &Geometry::hm_smr(Blocks(1024), 40, 0, 8), CreateOptions::default()).unwrap();
        let at = path.clone();
        let store = shingle_runtime::real::run(|rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(FileDevice::open(&at, &rt).unwrap());
            ZoneFiles::format(&rt, device, FormatOptions::default()).await.unwrap()
        });
        Self {
            path,
            store: store.unwrap(),
            fails: Arc::default(),
            delay: Arc::default(),
            caching: Caching::Blocks(CACHE),
        }
    }

    pub fn open(&self) -> Files {
        self.try_open().unwrap()
    }

    /// The first who opens it owns it; others reach it through that one.
    pub fn try_open(&self) -> Result<Files, FilesError> {
        let parameters =
            OpenFiles { holder: &self.path, partition: None, options: Options::default(), caching: self.caching };
        open_files(&parameters, self.opener())
    }

    pub fn socket(&self) -> UnixStream {
        let found = std::fs::metadata(&self.path).unwrap();
        let name = format!("shingle-files/file-{}-{}", found.st_dev(), found.st_ino());
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    }

    /// Removes a file, by one who does not look at what is in shared memory.
    pub fn remove(&self, name: &str) {
        let (path, name) = (self.path.clone(), name.to_owned());
        let removed = shingle_runtime::real::run(|rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(FileDevice::open(&path, &rt).unwrap());
            let (files, _) = ZoneFiles::open(&rt, device, Options::default()).await.unwrap();
            files.remove(&name).await.unwrap();
            files.close().await.unwrap();
        });
        removed.unwrap();
    }

    /// Files that the drive's users have in shared memory; `None` without a directory of theirs.
    pub fn tails(&self) -> Option<usize> {
        let user = rustix::process::geteuid().as_raw();
        let entries = std::fs::read_dir(format!("/dev/shm/shingle-files-{user}/{}", self.store));
        entries.ok().map(Iterator::count)
    }

    pub fn opener(&self) -> Opener {
        let (path, fails, delay) = (self.path.clone(), self.fails.clone(), self.delay.clone());
        Arc::new(move |rt| {
            let (path, fails, delay) = (path.clone(), fails.clone(), delay.clone());
            async move {
                match FileDevice::open(&path, &rt) {
                    Ok(inner) => Ok(Rc::new(Flaky { rt, inner, fails, delay }) as Rc<dyn ZonedDevice>),
                    Err(error) => Err(OpenError {
                        in_use: matches!(error.kind, FileDeviceErrorKind::InUse),
                        error: FilesError::new(FilesErrorKind::Unavailable, error.to_string()),
                    }),
                }
            }
            .boxed_local()
        })
    }
}

struct Flaky {
    rt: Runtime,
    inner: FileDevice,
    fails: Arc<AtomicBool>,
    delay: Arc<AtomicU32>,
}

impl ZonedDevice for Flaky {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.inner.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.inner.write(at, data)
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.inner.append(zone, data)
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.inner.manage(zone, op)
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let delay = self.delay.load(Ordering::Relaxed);
            if delay > 0 {
                self.rt.sleep(Duration::from_millis(delay.into())).await;
            }
            match self.fails.load(Ordering::Relaxed) {
                true => Err(DeviceError::new(DeviceErrorKind::WriteFailed, Lba(0), None)),
                false => self.inner.flush().await,
            }
        })
    }
}

pub fn contents(files: &Files, path: &str) -> Vec<u8> {
    let reader = files.open(path).unwrap();
    let mut bytes = vec![0; reader.about().size as usize + 10];
    let length = reader.read(0, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 7 + at / 4096) as u8 ^ seed).collect()
}
