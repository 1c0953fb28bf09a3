//! A server answers from the first second on, and does what it can with the engines that it has.

#![expect(clippy::disallowed_methods, reason = "real time, outside simulations")]

mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Scratch, block_on, config, get, make_bucket, run_once, with_three_drives};
use shingle_server::{Config, ErrorKind, Server};
use shingle_store_api::{SiteName, StoreErrorKind};

/// A configuration with an array on these drives beside what is there.
fn with_array(mut config: Config, drives: &[PathBuf]) -> Config {
    let drives: Vec<_> = drives.iter().map(|drive| format!("\"{}\"", drive.display())).collect();
    let text = format!("[[array]]\nname = \"shelf\"\ndrives = [{}]", drives.join(", "));
    config.arrays = Config::parse(&text).unwrap().arrays;
    config.admin = Some(([127, 0, 0, 1], 0).into());
    config
}

/// Waits until `path` of the server's admin listener says `words`, and returns all that it says.
fn await_words(server: &Server, path: &str, words: &str) -> String {
    let began = Instant::now();
    loop {
        let answer = get(server.admin().unwrap(), path);
        if answer.contains(words) {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{path} does not say `{words}`: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// SV-WAIT-1, SV-GATE-1
#[test]
fn a_drive_that_is_away_is_waited_for_while_the_server_answers() {
    let scratch = Scratch::new("waiting");
    let (data, drive, away) = (scratch.path("data"), scratch.path("drive"), scratch.path("away"));
    block_on(async {
        let mut config = config(&data, &[&drive]);
        let server = Server::start(config.clone()).await.unwrap();
        make_bucket(&server).await;
        server.stop().await;
        std::fs::rename(&drive, &away).unwrap();
        config.admin = Some(([127, 0, 0, 1], 0).into());
        config.drive_wait = Some(Duration::from_secs(60));
        let mut server = Server::begin(config).await.unwrap();
        let said = await_words(&server, "/readyz", "waiting for");
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains(drive.to_str().unwrap()), "{said}");
        assert!(get(server.admin().unwrap(), "/livez").starts_with("HTTP/1.1 200 "));
        assert!(get(server.admin().unwrap(), "/metrics").contains("shingle_engine_up{engine=\"drives\"} 0\n"));
        let error = server.store().bucket("first").await.unwrap_err();
        assert!(error.kind == StoreErrorKind::Unavailable && error.message.contains("waiting for"), "{error}");
        assert!(get(server.endpoint(), "/").starts_with("HTTP/1.1 403 "), "an unsigned request");

        std::fs::rename(&away, &drive).unwrap();
        server.opened().await.unwrap();
        assert_eq!(server.store().list_buckets().await.unwrap().len(), 1);
        assert!(get(server.admin().unwrap(), "/readyz").starts_with("HTTP/1.1 200 "));
        server.stop().await;
    });
}

/// SV-KEEPER-1
#[test]
fn an_engine_that_cannot_be_opened_leaves_the_others_serving() {
    let scratch = Scratch::new("one-of-two");
    let (data, drive, lost) = (scratch.path("data"), scratch.path("drive"), scratch.path("lost"));
    block_on(async {
        run_once(config(&data, &[&drive])).await;
        // Once it has been seen which buckets there are.
        std::fs::write(
            data.join("buckets"),
            "# Which buckets each engine has, version 1. A cache, written by the server.\n\
             engine drives\nengine shelf\n+ shelf 5 cold .\n",
        )
        .unwrap();
        let config = with_array(config(&data, &[&drive]), &[lost]);
        let server = Server::start(config.clone()).await.unwrap();
        make_bucket(&server).await;
        let store = server.store();
        assert_eq!(store.bucket("first").await.unwrap().name, "first");
        assert_eq!(store.bucket("cold").await.unwrap_err().kind, StoreErrorKind::Unavailable);
        assert_eq!(store.bucket("none").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
        let shelf = store.at(SiteName::Location("shelf")).unwrap();
        assert_eq!(shelf.create_bucket("more").await.unwrap_err().kind, StoreErrorKind::Unavailable);
        let said = get(server.admin().unwrap(), "/readyz");
        assert!(
            said.starts_with("HTTP/1.1 503 ") && said.contains("shelf: failed: ") && said.contains("drives: ok"),
            "{said}"
        );
        let metrics = get(server.admin().unwrap(), "/metrics");
        assert!(metrics.contains("shingle_engine_up{engine=\"shelf\"} 0\n"), "{metrics}");
        assert!(metrics.contains("shingle_engine_up{engine=\"drives\"} 1\n"), "{metrics}");
        drop(store);
        server.stop().await;

        // Neither of them can be opened: nothing is left to serve.
        std::fs::rename(&drive, scratch.path("elsewhere")).unwrap();
        let error = Server::start(config).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Drive);
    });
}

/// SV-ARR-1: a drive of an array is away. It is waited for and named; then the array is served without it, and says so, or not
/// at all where it is not to be degraded.
#[test]
fn a_drive_of_an_array_is_not_given_up_silently() {
    let scratch = Scratch::new("array-away");
    let (data, drive, away) = (scratch.path("data"), scratch.path("drive"), scratch.path("gone"));
    let (mut config, drives) = with_three_drives(config(&data, &[&drive]), &scratch);
    config.admin = Some(([127, 0, 0, 1], 0).into());
    let lost = drives[1].to_str().unwrap().to_owned();
    block_on(async {
        run_once(config.clone()).await;
        std::fs::rename(&lost, &away).unwrap();
        config.drive_wait = Some(Duration::from_secs(60));
        let mut server = Server::begin(config.clone()).await.unwrap();
        let said = await_words(&server, "/readyz", "waiting for");
        assert!(said.contains(&lost), "{said}");
        std::fs::rename(&away, &lost).unwrap();
        server.opened().await.unwrap();
        server.stop().await;

        std::fs::rename(&lost, &away).unwrap();
        config.drive_wait = None;
        let mut strict = config.clone();
        strict.arrays[0].degraded = false;
        let server = Server::start(strict).await.unwrap();
        let said = get(server.admin().unwrap(), "/readyz");
        assert!(said.contains("shelf: failed: ") && said.contains(&lost), "{said}");
        server.stop().await;
        let server = Server::start(config).await.unwrap();
        let said = get(server.admin().unwrap(), "/readyz");
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("degraded") && said.contains(&lost), "{said}");
        server.stop().await;
    });
}

/// Nobody knows which buckets an engine has that was never open here.
#[test]
fn nothing_is_served_while_an_engine_is_unknown() {
    let scratch = Scratch::new("unknown");
    let (data, drive, lost) = (scratch.path("data"), scratch.path("drive"), scratch.path("lost"));
    block_on(async {
        let server = Server::start(with_array(config(&data, &[&drive]), &[lost])).await.unwrap();
        let error = server.store().create_bucket("first").await.unwrap_err();
        assert!(error.kind == StoreErrorKind::Unavailable && error.message.contains("shelf"), "{error}");
        server.stop().await;
    });
}

#[test]
fn a_drive_that_comes_back_is_told() {
    let scratch = Scratch::new("back");
    let (data, a, b) = (scratch.path("data"), scratch.path("a"), scratch.path("b"));
    block_on(async {
        let mut config = config(&data, &[&a, &b]);
        run_once(config.clone()).await;
        std::fs::rename(&b, scratch.path("away")).unwrap();
        config.allow_missing_drives = true;
        config.admin = Some(([127, 0, 0, 1], 0).into());
        let server = Server::start(config).await.unwrap();
        let said = get(server.admin().unwrap(), "/readyz");
        let named = format!("drives: degraded: drive {}", b.display());
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains(&named), "it serves, and says without what: {said}");
        let metrics = get(server.admin().unwrap(), "/metrics");
        assert!(metrics.contains("shingle_engine_drives_missing{engine=\"drives\"} 1\n"), "{metrics}");
        std::fs::rename(scratch.path("away"), &b).unwrap();
        await_words(&server, "/readyz", "there again: restart");
        server.stop().await;
    });
}
