//! The changes that commands make, as lines of the access log: as if a client of S3 had made them.
//!
//! # Invariants
//! - SV-ALOG-2: each change that a command begins has one line, also if it fails, or the command goes away.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use hyper::Method;
use shingle_s3_gateway::{Access, AccessLog, Peer, told_of};
use shingle_store_api::{StoreError, StoreResult};

use crate::reports::access_log::{AccessNotes, AccessWriter};

/// A change under way: its line is written when this is dropped. (SV-ALOG-2)
pub(super) struct Noted {
    began: Instant,
    line: Option<(Arc<AccessWriter>, Access)>,
}

impl Noted {
    /// `operation` is one of S3, and `method` its method.
    pub(super) fn begin(
        notes: Option<AccessNotes>,
        peer: Peer,
        (method, operation): (Method, &str),
        (bucket, key): (&str, &str),
    ) -> Self {
        // The status stays 0 if the command goes away.
        let line = notes.map(|AccessNotes { log, ids }| {
            let access = Access {
                operation: Some(operation.to_owned()),
                bucket: Some(bucket.to_owned()),
                key: Some(key.to_owned()),
                ..Access::begun(SystemTime::now(), ids.fresh(), peer, method)
            };
            (log, access)
        });
        Self { began: Instant::now(), line }
    }

    pub(super) fn received(&mut self, bytes: u64) {
        if let Some((_, access)) = &mut self.line {
            access.received_bytes += bytes;
        }
    }

    pub(super) fn end<T>(mut self, result: &StoreResult<T>) {
        if let Some((_, access)) = &mut self.line {
            access.whole = true;
            (access.status, access.error) = match result {
                Ok(_) if access.method == Method::DELETE => (204, None),
                Ok(_) => (200, None),
                Err(error) => {
                    let (status, code) = told_of(error);
                    (status, Some(code))
                }
            };
        }
    }

    /// Ends with an error, which is the result.
    pub(super) fn failed<T>(self, error: StoreError) -> StoreResult<T> {
        let result = Err(error);
        self.end(&result);
        result
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some((log, mut access)) = self.line.take() {
            access.took = self.began.elapsed();
            log.note(access);
        }
    }
}
