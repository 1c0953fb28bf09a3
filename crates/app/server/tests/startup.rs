//! Reactions of a server to wrong data directories, drives and addresses.

mod common;

use std::path::{Path, PathBuf};

use common::{SHAPE, Scratch, block_on, config, get, make_bucket, run_once};
use shingle_runtime::Runtime;
use shingle_server::{Config, Error, ErrorKind, Offline, Server, inventory, precheck};
use shingle_zoned_linux::System;

async fn refused(config: Config) -> Error {
    match Server::start(config).await {
        Err(error) => error,
        Ok(_) => panic!("the server started"),
    }
}

#[test]
fn a_first_start_makes_drives_and_keys_and_a_second_finds_them() {
    let scratch = Scratch::new("first");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        let mut config = config(&data, &[&a, &b]);
        config.admin = Some(([127, 0, 0, 1], 0).into());
        let server = Server::start(config.clone()).await.unwrap();
        assert!(get(server.endpoint(), "/").starts_with("HTTP/1.1 403 "), "an unsigned request");
        let admin = server.admin().unwrap();
        for path in ["/livez", "/readyz", "/healthz"] {
            assert!(get(admin, path).starts_with("HTTP/1.1 200 "), "{path}");
        }
        let metrics = get(admin, "/metrics");
        assert!(metrics.contains("\nshingle_up 1\n") && metrics.contains("shingle_drive_free_bytes{"), "{metrics}");
        assert!(get(admin, "/other").starts_with("HTTP/1.1 404 "));

        let keys = std::fs::read_to_string(server.credentials()).unwrap();
        let secret = keys.split('"').nth(3).unwrap();
        let told = server.ready_text(true);
        assert!(told.contains(&server.endpoint().to_string()) && !told.contains(secret), "{told}");
        server.stop().await;

        let noted = std::fs::read_to_string(data.join("drives.toml")).unwrap();
        assert_eq!(noted.matches("[[drive]]").count(), 2);
        assert_eq!(run_once(config).await, noted);
        assert_eq!(std::fs::read_to_string(data.join("credentials.toml")).unwrap(), keys);
    });
}

#[test]
fn a_directory_an_address_and_a_drive_in_use_are_named() {
    let scratch = Scratch::new("in-use");
    let (data, other, a, b) = (scratch.path("data"), scratch.path("other"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        let server = Server::start(config(&data, &[&a])).await.unwrap();
        let error = refused(config(&data, &[&a])).await;
        assert!(error.kind == ErrorKind::InUse && error.message.contains("data directory"), "{error}");
        let error = refused(config(&other, &[&a])).await;
        assert!(error.kind == ErrorKind::InUse && error.message.contains("drive is in use"), "{error}");
        let mut same_port = config(&other, &[&b]);
        same_port.listen = server.endpoint();
        let error = refused(same_port).await;
        assert!(error.kind == ErrorKind::InUse && error.message.contains("address"), "{error}");
        server.stop().await;
    });
}

/// SV-SRV-2.
#[test]
fn a_drive_that_is_gone_is_not_made_anew() {
    let scratch = Scratch::new("gone");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        let noted = run_once(config(&data, &[&a, &b])).await;
        std::fs::rename(&b, scratch.path("elsewhere")).unwrap();
        let error = refused(config(&data, &[&a, &b])).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("nothing is made in its place"), "{error}");
        assert!(!b.exists());
        let error = refused(config(&data, &[&a])).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("allow_missing_drives"), "{error}");

        let moved = scratch.path("elsewhere");
        let noted_since = run_once(config(&data, &[&a, &moved])).await;
        assert_eq!(noted_since.matches("store =").count(), 2);
        assert_ne!(noted_since, noted, "the drive's new path is noted");
    });
}

/// SV-SRV-2.
#[test]
fn a_drive_of_another_data_directory_is_refused_and_left_as_it_was() {
    let scratch = Scratch::new("foreign");
    let (data, other, a, b) = (scratch.path("data"), scratch.path("other"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        run_once(config(&data, &[&a])).await;
        let noted = run_once(config(&other, &[&b])).await;
        let put_something = Server::start(config(&other, &[&b])).await.unwrap();
        make_bucket(&put_something).await;
        put_something.stop().await;

        let error = refused(config(&data, &[&a, &b])).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("none of those"), "{error}");
        assert_eq!(run_once(config(&other, &[&b])).await, noted, "the other server finds its drive");
    });
}

/// SV-SRV-2: a drive at a path that its data directory does not know could be one that it misses.
#[test]
fn a_drive_is_not_made_while_another_is_away() {
    let scratch = Scratch::new("renamed");
    let (data, renamed) = (scratch.path("data"), scratch.path("renamed"));
    block_on(async {
        let noted = run_once(config(&data, &[&data.join("a"), &data.join("b")])).await;
        std::fs::rename(&data, &renamed).unwrap();
        let (a, b) = (renamed.join("a"), renamed.join("b"));
        std::fs::rename(&b, scratch.path("b")).unwrap();
        let named = config(&renamed, &[&a, &b]);
        let error = refused(named.clone()).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("nothing is made in its place"), "{error}");
        let without = Config { allow_missing_drives: true, ..named.clone() };
        run_once(without).await;
        assert!(!b.exists(), "it goes on without the drive, which it still names");
        std::fs::rename(scratch.path("b"), &b).unwrap();
        let since = run_once(named).await;
        let stores = |text: &str| {
            let mut lines: Vec<_> = text.lines().filter(|line| line.starts_with("store")).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(stores(&since), stores(&noted));
    });
}

/// Opens the objects as a command does, and finds nothing wrong.
#[expect(clippy::disallowed_methods, reason = "a command has a process of its own, and this a thread")]
fn look(config: Config) -> Result<(), Error> {
    let work = |rt| async move {
        let objects = Offline::open(&rt, &config, None).await?;
        let checked = objects.check(true, |_| ()).await?;
        assert!(checked.objects.unwrap().is_clean() && checked.arrays.is_empty());
        objects.close().await;
        Ok(())
    };
    std::thread::spawn(|| shingle_runtime::real::run(work).unwrap()).join().unwrap()
}

#[test]
fn looking_at_objects_makes_nothing() {
    let scratch = Scratch::new("looking");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    std::fs::create_dir_all(&data).unwrap();
    block_on(async {
        let error = look(config(&data, &[&a])).unwrap_err();
        assert!(error.kind == ErrorKind::Config && error.message.contains("no data directory"), "{error}");
        assert_eq!((std::fs::read_dir(&data).unwrap().count(), a.exists()), (0, false));

        let noted = run_once(config(&data, &[&a])).await;
        let error = look(config(&data, &[&a, &b])).unwrap_err();
        assert!(error.kind == ErrorKind::NotMade && !b.exists(), "{error}");
        look(config(&data, &[&a])).unwrap();
        assert_eq!(std::fs::read_to_string(data.join("drives.toml")).unwrap(), noted);
    });
}

#[test]
fn what_is_no_drive_is_left_alone() {
    let scratch = Scratch::new("no-drive");
    let (data, file) = (scratch.path("data"), scratch.path("letter"));
    std::fs::write(&file, b"Dear reader").unwrap();
    block_on(async {
        let error = refused(config(&data, &[&file])).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("not a Shingle drive"), "{error}");
    });
    assert_eq!(std::fs::read(&file).unwrap(), b"Dear reader");
}

#[test]
fn a_drive_with_data_that_is_nobodys_store_is_not_formatted() {
    use shingle_zoned::{CreateOptions, FileDevice, ZonedDevice};
    let scratch = Scratch::new("data");
    let (data, path) = (scratch.path("data"), scratch.path("drive"));
    let zone = shingle_base::ZoneId(40);
    FileDevice::create(&path, &SHAPE.geometry().unwrap(), CreateOptions::default()).unwrap();
    let file = path.clone();
    shingle_runtime::real::run(|runtime| async move {
        let device = FileDevice::open(&file, &runtime).unwrap();
        let block = shingle_base::AlignedBuf::zeroed(shingle_base::Blocks(1)).freeze();
        device.write(device.geometry().start_of(zone), vec![block]).await.unwrap();
    })
    .unwrap();
    block_on(async {
        let error = refused(config(&data, &[&path])).await;
        assert!(error.kind == ErrorKind::Drive && error.message.contains("1 of its zones hold data"), "{error}");
    });
}

#[test]
fn a_lost_data_directory_is_made_again_from_the_drives() {
    let scratch = Scratch::new("lost");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        let server = Server::start(config(&data, &[&a, &b])).await.unwrap();
        make_bucket(&server).await;
        server.stop().await;
        std::fs::remove_dir_all(&data).unwrap();
        let server = Server::start(config(&data, &[&a, &b])).await.unwrap();
        let buckets = server.store().list_buckets().await.unwrap();
        assert_eq!(buckets.iter().map(|bucket| bucket.name.as_str()).collect::<Vec<_>>(), ["first"]);
        server.stop().await;
    });
}

#[test]
fn a_damaged_index_is_set_aside_and_made_again_from_the_drives() {
    let scratch = Scratch::new("damaged-index");
    let (data, drive) = (scratch.path("data"), scratch.path("drive"));
    block_on(async {
        let server = Server::start(config(&data, &[&drive])).await.unwrap();
        make_bucket(&server).await;
        server.stop().await;
        let index = data.join("index");
        let mut damaged = 0;
        for file in files_below(&index) {
            std::fs::write(&file, b"no index at all").unwrap();
            damaged += 1;
        }
        assert!(damaged > 0, "there is an index to damage");
        // One is kept, however often that happens.
        std::fs::create_dir(data.join("index.damaged")).unwrap();
        std::fs::write(data.join("index.damaged").join("older"), b"").unwrap();
        let server = Server::start(config(&data, &[&drive])).await.unwrap();
        let buckets = server.store().list_buckets().await.unwrap();
        assert_eq!(buckets.len(), 1, "the bucket is found on the drive");
        assert!(data.join("index.damaged").is_dir(), "the damaged index is kept for a look");
        assert!(!data.join("index.damaged").join("older").exists());
        server.stop().await;
    });
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// SV-SRV-4: a copy of a running server's drive, as a power cut would leave it, has what was acknowledged.
#[test]
fn a_server_that_did_not_stop_in_order_has_lost_nothing() {
    let scratch = Scratch::new("cut");
    let (data, drive, left) = (scratch.path("data"), scratch.path("drive"), scratch.path("left"));
    block_on(async {
        let server = Server::start(config(&data, &[&drive])).await.unwrap();
        make_bucket(&server).await;
        std::fs::copy(&drive, &left).unwrap();
        server.stop().await;
        let server = Server::start(config(&scratch.path("other"), &[&left])).await.unwrap();
        assert_eq!(server.store().list_buckets().await.unwrap().len(), 1);
        server.stop().await;
    });
}

/// Files below a directory and their bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_below(folder);
    files.sort();
    // The socket of a server that ran here stays.
    files.into_iter().filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Runs `work` as a command does, in a thread of its own.
#[expect(clippy::disallowed_methods, reason = "a command has a process of its own, and this a thread")]
fn command<T: Send + 'static>(work: impl AsyncFnOnce(Runtime) -> T + Send + 'static) -> T {
    let run = move |rt| async move { work(rt).await };
    std::thread::spawn(|| shingle_runtime::real::run(run).unwrap()).join().unwrap()
}

/// SV-PRE-1: before the first start, between two, and beside a server that runs.
#[test]
fn a_look_before_the_start_makes_locks_and_changes_nothing() {
    let scratch = Scratch::new("precheck");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    let look = |config: Config| command(async move |rt| precheck(&rt, &config).await.unwrap());
    block_on(async {
        let (whole, more) = (config(&data, &[&a]), config(&data, &[&a, &b]));
        assert_eq!(look(whole.clone()).problems, Vec::<String>::new());
        assert_eq!(contents(&scratch.path("")), []);
        run_once(whole.clone()).await;
        let before = contents(&scratch.path(""));
        assert_eq!(look(more.clone()).problems, Vec::<String>::new());
        assert!(contents(&scratch.path("")) == before, "something was made or changed");
        let server = Server::start(whole.clone()).await.unwrap();
        assert_eq!(look(whole).problems, Vec::<String>::new());
        make_bucket(&server).await;
        server.stop().await;
    });
}

/// SV-INV-1: a drive is looked at between two starts, and while a server writes to it.
#[test]
fn a_look_at_a_drive_writes_nothing_and_takes_it_from_nobody() {
    let scratch = Scratch::new("inventory");
    let (data, drive) = (scratch.path("data"), scratch.path("drive"));
    let look = |path: &Path| {
        let path = path.to_owned();
        command(async move |rt| inventory::at(&rt, &System::host(), &path).await.unwrap().content.store())
    };
    block_on(async {
        run_once(config(&data, &[&drive])).await;
        let before = std::fs::read(&drive).unwrap();
        let store = look(&drive);
        assert!(store.is_some());
        assert!(std::fs::read(&drive).unwrap() == before, "the drive was written to");
        let server = Server::start(config(&data, &[&drive])).await.unwrap();
        assert_eq!(look(&drive), store);
        make_bucket(&server).await;
        server.stop().await;
    });
}

/// SV-SRV-2: drives that could not be noted hold nothing, or the next start would take them for somebody else's.
#[test]
fn nothing_is_on_a_new_drive_before_it_is_noted() {
    let scratch = Scratch::new("unnoted");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        run_once(config(&data, &[&a])).await;
        // As a full disk does, this keeps the notes from being written.
        let in_the_way = data.join("drives.toml.new");
        std::fs::create_dir(&in_the_way).unwrap();
        for _ in 0..2 {
            let error = refused(config(&data, &[&a, &b])).await;
            assert!(error.message.contains("drives.toml"), "{error}");
        }
        std::fs::remove_dir(&in_the_way).unwrap();
        let noted = run_once(config(&data, &[&a, &b])).await;
        assert_eq!(noted.matches("[[drive]]").count(), 2, "{noted}");
    });
}
