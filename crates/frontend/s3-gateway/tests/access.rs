//! GW-ACC-1 and GW-ACC-2: what is noted of requests.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

mod client;

use std::sync::{Arc, Mutex};

use client::{Request, Server};
use shingle_s3_gateway::{Access, AccessLog, Limits, Options, Peer};

#[derive(Debug, Default)]
struct Pad(Mutex<Vec<Access>>);

impl AccessLog for Pad {
    fn note(&self, access: Access) {
        self.0.lock().unwrap().push(access);
    }
}

impl Pad {
    /// The only line since the last look.
    fn line(&self) -> Access {
        let mut lines = std::mem::take(&mut *self.0.lock().unwrap());
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }
}

#[tokio::test]
async fn each_request_has_a_line_with_the_id_of_its_answer() {
    let pad = Arc::new(Pad::default());
    let options = Options { limits: Limits::default(), access: Some(pad.clone()), ..Options::default() };
    let server = Server::begin(options, 1 << 30).await;
    assert_eq!(pad.line().operation.as_deref(), Some("CreateBucket"));

    let answer = server.send(Request::put("/bucket/a%20key%0A", "0123456789")).await;
    let line = pad.line();
    assert_eq!((answer.status, line.status, line.received_bytes, line.sent_bytes), (200, 200, 10, 0));
    assert_eq!(answer.header("x-amz-request-id"), Some(line.id.as_str()));
    assert_eq!(line.operation.as_deref(), Some("PutObject"));
    assert_eq!((line.bucket.as_deref(), line.key.as_deref()), (Some("bucket"), Some("a key\n")));
    assert!(
        line.key_id.is_some() && line.peer == Peer::Address([127, 0, 0, 1].into()) && line.path.is_none() && line.whole
    );

    let large = vec![7; 5 << 20];
    server.send(Request::put("/bucket/large", large.clone())).await;
    assert_eq!(pad.line().received_bytes, large.len() as u64);
    let answer = server.send(Request::new("GET", "/bucket/large")).await;
    assert_eq!(answer.body.len(), large.len());
    // The line comes with the end of the body, which the client may see a moment before.
    for _ in 0..100 {
        if !pad.0.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let line = pad.line();
    assert_eq!((line.operation.as_deref(), line.sent_bytes, line.whole), (Some("GetObject"), large.len() as u64, true));

    let answer = server.send(Request::new("GET", "/bucket/none")).await;
    let line = pad.line();
    assert_eq!((line.status, line.error.as_deref()), (404, Some("NoSuchKey")));
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(body.contains(&format!("<RequestId>{}</RequestId>", line.id)), "{body}");

    // Refused before it is an operation: its path, and nothing of its query.
    let query = "X-Amz-Signature=abcdef&X-Amz-Credential=KEY%2F20260101%2Fr%2Fs3%2Faws4_request".to_owned();
    server.send(Request { query, ..Request::new("PATCH", "/bucket/k") }).await;
    let line = pad.line();
    assert!(line.status >= 400 && line.operation.is_none(), "{line:?}");
    assert_eq!(line.path.as_deref(), Some("/bucket/k"));
    assert!(!format!("{line:?}").contains("abcdef"), "{line:?}");
}

#[tokio::test]
async fn ids_go_on_after_a_restart() {
    let mut before = String::new();
    for _ in 0..3 {
        let server = Server::start(Limits::default()).await;
        let answer = server.send(Request::new("GET", "/bucket")).await;
        let id = answer.header("x-amz-request-id").unwrap().to_owned();
        assert!(id > before, "{id} after {before}");
        before = id;
        server.stop().await;
    }
}
