//! Streams: what is written to different zones, so that it lies and dies apart.

use crate::room::{CLEANER_RESERVE, COPY_RESERVE};

/// Callers' writes.
pub(crate) const WRITES: u8 = 0;

/// Copies of the volume's own cleaner.
pub(crate) const COPIES: u8 = 1;

/// Callers' writes to sectors that are seldom overwritten, if the route tells them apart.
pub(crate) const COLD: u8 = 2;

/// Copies into a zone that a controller took.
pub(crate) const TAKEN: u8 = 3;

/// Copies of a controller, at the head of the log.
pub(crate) const HEAD: u8 = 4;

/// The first stream of sequential writes.
pub(crate) const SEQUENTIAL: u8 = 5;

/// Number of streams.
pub(crate) const STREAMS: u8 = 9;

/// The stream is of copies. Nothing is found by scanning its zones: the journal says what was moved to them.
pub(crate) fn is_copy(stream: u8) -> bool {
    matches!(stream, COPIES | TAKEN | HEAD)
}

/// The stream is of a sequential run.
pub(crate) fn is_run(stream: u8) -> bool {
    stream >= SEQUENTIAL
}

/// Free zones that a stream leaves to others: writers to all copies, those of controllers to the volume's own cleaner, so that this one can
/// always go on (TL-ROOM-1).
pub(crate) fn reserve(stream: u8) -> u32 {
    match stream {
        COPIES => 0,
        TAKEN | HEAD => CLEANER_RESERVE,
        _ => COPY_RESERVE,
    }
}

/// Streams of callers' writes.
pub(crate) fn of_writes() -> impl Iterator<Item = u8> {
    (0..STREAMS).filter(|&stream| !is_copy(stream))
}
