//! Calls and replies of a session.

use serde::{Deserialize, Serialize};
use shingle_store_api::{Metadata, ObjectInfo, StoreError, StoreErrorKind};

/// A call of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Call {
    /// Attributes of an object.
    Head { bucket: String, key: String },
    /// Deletes an object.
    Delete { bucket: String, key: String },
    /// Opens an object: reads are of this version.
    Open { bucket: String, key: String },
    /// Bytes of the open object.
    Read { at: u64, length: u64 },
    /// Begins to store an object; its size, if known.
    Put { bucket: String, key: String, size: Option<u64> },
    /// The next bytes of it follow this line.
    Piece { length: u64 },
    /// They were all: stores it.
    Commit { etag: String, metadata: Metadata },
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// The server is at work; the reply comes later.
    Alive,
    /// The next piece may come.
    Ready,
    /// An object's attributes.
    Object(#[serde(with = "Told")] ObjectInfo),
    /// The object is deleted; or there was none.
    Deleted { found: bool },
    /// Bytes follow this line.
    Piece { length: u64 },
    /// The store's error.
    Refused { kind: String, message: String },
}

/// An object's attributes as they are told.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ObjectInfo")]
struct Told {
    key: String,
    size: u64,
    etag: String,
    modified_unix_ns: u64,
    version: u64,
    metadata: Metadata,
    part_sizes: Vec<u64>,
    class: Option<String>,
}

/// Kinds of errors by name. Another one is told as `Unavailable`.
const KINDS: [(&str, StoreErrorKind); 16] = [
    ("no-such-bucket", StoreErrorKind::NoSuchBucket),
    ("no-such-key", StoreErrorKind::NoSuchKey),
    ("no-such-upload", StoreErrorKind::NoSuchUpload),
    ("bucket-exists", StoreErrorKind::BucketExists),
    ("bucket-not-empty", StoreErrorKind::BucketNotEmpty),
    ("precondition-failed", StoreErrorKind::PreconditionFailed),
    ("invalid-part", StoreErrorKind::InvalidPart),
    ("invalid-part-order", StoreErrorKind::InvalidPartOrder),
    ("part-too-small", StoreErrorKind::PartTooSmall),
    ("too-large", StoreErrorKind::TooLarge),
    ("invalid", StoreErrorKind::Invalid),
    ("no-space", StoreErrorKind::NoSpace),
    ("corrupt", StoreErrorKind::Corrupt),
    ("device", StoreErrorKind::Device),
    ("busy", StoreErrorKind::Busy),
    ("unavailable", StoreErrorKind::Unavailable),
];

impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        let named = KINDS.iter().find(|(_, kind)| *kind == error.kind);
        Self::Refused { kind: named.map_or("unavailable", |(name, _)| name).to_owned(), message: error.message }
    }
}

/// The store's error that a reply tells.
pub(super) fn refused(kind: &str, message: String) -> StoreError {
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    StoreError::new(known.map_or(StoreErrorKind::Unavailable, |(_, kind)| *kind), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_replies_are_words_that_stay() {
        let call = Call::Put { bucket: "b".to_owned(), key: "k\n".to_owned(), size: None };
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(text, r#"{"put":{"bucket":"b","key":"k\n","size":null}}"#);
        assert_eq!(serde_json::from_str::<Call>(&text).unwrap(), call);
        assert!(serde_json::from_str::<Call>(r#"{"read":{"at":-1,"length":1}}"#).is_err());
        assert_eq!(serde_json::to_string(&Reply::Alive).unwrap(), r#""alive""#);
        let info = ObjectInfo {
            key: "k".to_owned(),
            size: 3,
            etag: "e".to_owned(),
            modified_unix_ns: 5,
            version: 7,
            metadata: Metadata::from([("content-type".to_owned(), "x".to_owned())]),
            part_sizes: vec![1, 2],
            class: Some("c".to_owned()),
        };
        let text = serde_json::to_string(&Reply::Object(info.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), Reply::Object(info));
    }

    #[test]
    fn an_error_keeps_its_kind_and_its_words() {
        for (_, kind) in KINDS {
            let Reply::Refused { kind: name, message } = Reply::from(StoreError::new(kind, "words")) else {
                panic!("no refusal")
            };
            let error = refused(&name, message);
            assert_eq!((error.kind, error.message.as_str()), (kind, "words"));
        }
        assert_eq!(refused("of a newer version", String::new()).kind, StoreErrorKind::Unavailable);
    }
}
