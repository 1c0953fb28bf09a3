//! Answers of examinations: a value with its confidence, or the reason why there is none.

use serde::{Deserialize, Serialize};

use crate::stats::CONFIDENCE;

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// The drive is so.
    Known {
        /// Its value.
        value: T,
        /// Probability with which it is right, if the examination's assumptions hold; `None`: no test of one was made,
        /// the value is read off times that agree.
        confidence: Option<f64>,
    },
    /// The times do not tell.
    CannotTell {
        /// The reason.
        reason: String,
    },
}

impl<T> Answer<T> {
    /// A value that a statistical test decided, at the usual confidence.
    pub fn tested(value: T) -> Self {
        Self::Known { value, confidence: Some(CONFIDENCE) }
    }

    /// A value that was read off times.
    pub fn known(value: T) -> Self {
        Self::Known { value, confidence: None }
    }

    /// A value that a test confirmed at the usual confidence, or did not.
    pub fn known_if(value: T, confirmed: bool) -> Self {
        if confirmed { Self::tested(value) } else { Self::known(value) }
    }

    /// No value.
    pub fn cannot_tell(reason: impl Into<String>) -> Self {
        Self::CannotTell { reason: reason.into() }
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::CannotTell { .. } => None,
        }
    }
}
