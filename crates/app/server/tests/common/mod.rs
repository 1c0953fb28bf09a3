//! Servers on small emulated drives.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use shingle_array_store::{ArrayDrive, FormatOptions, format};
use shingle_server::{Config, DriveConfig, Server, Shape, open_drive};
use shingle_zoned::{CreateOptions, FileDevice};
use shingle_zoned_linux::OpenOptions;

/// Small enough that a test takes no time, large enough for a store: 64 zones of 1 MiB.
pub(crate) const SHAPE: Shape = Shape {
    zone_size: 1 << 20,
    zone_capacity: None,
    zones: 64,
    conventional_zones: 2,
    open_zones_max: 32,
    active_zones_max: None,
};

/// A directory of the test's own, removed when it is done.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shingle-startup-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn config(data: &Path, drives: &[&Path]) -> Config {
    let drive = |path: &&Path| DriveConfig { path: path.to_path_buf(), create: Some(SHAPE) };
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        data: data.to_owned(),
        drives: drives.iter().map(drive).collect(),
        drive_wait: None,
        ..Config::default()
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// Starts, stops, and says which stores its data directory has noted.
pub(crate) async fn run_once(config: Config) -> String {
    let notes = config.data.join("drives.toml");
    Server::start(config).await.unwrap().stop().await;
    std::fs::read_to_string(notes).unwrap()
}

pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Something durable on the server's drives.
pub(crate) async fn make_bucket(server: &Server) {
    server.store().create_bucket("first").await.unwrap();
}

/// An array of three small drives in `scratch`, named in the configuration.
#[expect(clippy::disallowed_methods, reason = "a command has a process of its own, and this a thread")]
pub(crate) fn with_three_drives(mut config: Config, scratch: &Scratch) -> (Config, Vec<PathBuf>) {
    let drives: Vec<PathBuf> = ["x", "y", "z"].map(|name| scratch.path(name)).into();
    let paths = drives.clone();
    let make = |rt| async move {
        let open = |path: &PathBuf| {
            FileDevice::create(path, &SHAPE.geometry().unwrap(), CreateOptions::default()).unwrap();
            ArrayDrive { name: path.display().to_string(), dev: open_drive(path, &rt, OpenOptions::default()).unwrap() }
        };
        let drives: Vec<_> = paths.iter().map(open).collect();
        let options = FormatOptions { segment_length: 128 << 10, ..FormatOptions::new("2+1".parse().unwrap()) };
        format(&rt, &drives, &options).await.unwrap();
    };
    std::thread::spawn(|| shingle_runtime::real::run(make).unwrap()).join().unwrap();
    let names: Vec<_> = drives.iter().map(|drive| format!("\"{}\"", drive.display())).collect();
    let text = format!("[[array]]\nname = \"shelf\"\ndrives = [{}]", names.join(", "));
    config.arrays = Config::parse(&text).unwrap().arrays;
    (config, drives)
}
