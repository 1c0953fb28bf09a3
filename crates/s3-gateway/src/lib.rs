//! S3 protocol over a store
