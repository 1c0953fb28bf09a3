//! Multi-stream runs that several experiments use: each is made once, by the thread that asks first, while others wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::LabError;
use crate::load::multistream::MultiStreamResult;

type Found = Result<Arc<MultiStreamResult>, LabError>;

/// Results by all that decides them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    runs: Mutex<BTreeMap<String, Arc<OnceLock<Found>>>>,
}

impl Known {
    /// The run of that key, made by `make` unless it was made before.
    pub(crate) fn or_make(&self, key: String, make: impl FnOnce() -> Result<MultiStreamResult, LabError>) -> Found {
        let cell = self.runs.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        cell.get_or_init(|| make().map(Arc::new)).clone()
    }
}
