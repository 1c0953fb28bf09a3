//! Opening a drive's device: a part that the caller brings.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use shingle_runtime::Runtime;
use shingle_zone_files::{FilesError, FilesErrorKind};
use shingle_zoned::ZonedDevice;

/// Opens a drive's device, on the thread of its owner.
pub type Opener = Arc<dyn Fn(Runtime) -> LocalBoxFuture<'static, Result<Rc<dyn ZonedDevice>, OpenError>> + Send + Sync>;

/// A drive that cannot be opened.
#[derive(Clone, Debug)]
pub struct OpenError {
    /// Another process has it, which may serve it.
    pub in_use: bool,
    /// The words for the caller.
    pub error: FilesError,
}

impl OpenError {
    pub(crate) fn other(kind: FilesErrorKind, text: String) -> Self {
        Self { in_use: false, error: FilesError::new(kind, text) }
    }
}

impl From<FilesError> for OpenError {
    fn from(error: FilesError) -> Self {
        Self { in_use: false, error }
    }
}
