//! Contents of chunks: the names of chunks, and the entries and backups inside them (`docs/formats/object-log.md`).

mod backup;
mod body;
mod chunk_name;
mod entry;

pub use backup::read_backup_piece;
pub(crate) use backup::{PIECE_HEADER_SIZE, Piece, decode_piece_header, decode_records, put_record};
pub use body::{BlobRef, Body, Manifest};
pub use chunk_name::ChunkName;
pub use entry::{Entry, EntryHeader, EntryPlace, HEAD_SIZE_MAX, HEADER_SIZE, Header};
pub(crate) use entry::{MAGIC, Sealed};
pub use shingle_buckets::Attributes;
