//! From a request to the lines of its answer.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use tokio::sync::mpsc;

use super::lines::{Gone, Lines};
use super::verbs::{Refused, answer};
use super::wire::{Line, Question, Refusal};
use super::{QUESTION_BYTES_MAX, SEATS};
use crate::reports::answers::Watched;
use crate::reports::health::PATIENCE;

/// Begins to answer a question: its lines; or a status and words, if it cannot be understood.
pub(crate) async fn respond(
    question: Incoming,
    watched: Arc<Watched>,
) -> Result<mpsc::Receiver<Bytes>, (StatusCode, String)> {
    let refused = |status, words: &str| Err((status, format!("{words}\n")));
    let text = match tokio::time::timeout(PATIENCE, read(question)).await {
        Ok(Some(text)) => text,
        Ok(None) => return refused(StatusCode::PAYLOAD_TOO_LARGE, "the question is cut off, or too long"),
        Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, "the question did not come in time"),
    };
    let question = match serde_json::from_slice::<Question>(&text) {
        Ok(question) => question,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &format!("that is no question: {error}")),
    };
    let Ok(seat) = watched.seats.clone().try_acquire_owned() else {
        let words = format!("{SEATS} commands ask the server already: wait until one of them has ended");
        return refused(StatusCode::SERVICE_UNAVAILABLE, &words);
    };
    let (mut lines, out) = Lines::new();
    tokio::spawn(async move {
        let last = match answer(&watched, question, &mut lines).await {
            Ok(()) => Line::End,
            Err(Refused::Gone) => return,
            Err(Refused::Because(why, message)) => Line::Refused { why, message },
        };
        // The client may have gone away.
        if lines.add(&last).await.is_ok() {
            let _ = lines.flush().await;
        }
        drop(seat);
    });
    Ok(out)
}

/// All of a body; `None` if it is too long or breaks off.
async fn read(mut body: Incoming) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let data = frame.ok()?.into_data().ok()?;
        if text.len() + data.len() > QUESTION_BYTES_MAX {
            return None;
        }
        text.extend_from_slice(&data);
    }
    Some(text)
}

impl From<Gone> for Refused {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl Refused {
    pub(super) fn other(message: impl Into<String>) -> Self {
        Self::Because(Refusal::Other, message.into())
    }
}
