//! Failures of a log.

use std::fmt;
use std::sync::Arc;

use shingle_base::ZoneId;
use shingle_zoned::DeviceError;

/// Reason why a log cannot be opened or written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MetaLogError {
    /// No metazone is left to write to.
    Full,
    /// A record is missing or damaged in front of later ones: its content is lost.
    Damaged {
        /// Its zone, if known.
        zone: Option<ZoneId>,
        /// Its position in the log.
        position: u64,
    },
    /// There is no complete checkpoint.
    NoCheckpoint,
    /// The drive failed the command.
    Device(Arc<DeviceError>),
    /// The log was closed by an earlier error.
    Stopped,
}

impl fmt::Display for MetaLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no metazone is left to write to"),
            Self::Damaged { zone: Some(zone), position } => {
                write!(
                    f,
                    "{zone}: the metadata log cannot be read from record {position} on, and what it says may be lost; if the \
                     drive only failed to read, try again"
                )
            }
            Self::Damaged { zone: None, position } => {
                write!(f, "record {position} of the metadata log is missing, and later ones depend on it")
            }
            Self::NoCheckpoint => f.write_str("the metazones hold no complete checkpoint"),
            Self::Device(error) => error.fmt(f),
            Self::Stopped => f.write_str("the metadata log stopped after an earlier error"),
        }
    }
}

impl std::error::Error for MetaLogError {}

impl From<DeviceError> for MetaLogError {
    fn from(error: DeviceError) -> Self {
        Self::Device(Arc::new(error))
    }
}
