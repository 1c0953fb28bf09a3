//! Files that are being written.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use shingle_files_server::{Files, Writer};
use shingle_zone_files::{FileKind, FilesResult, WriteLifetime};

use super::status::{borrowed, give, present, take_back, text, told};

fn kind_of(number: c_int) -> FileKind {
    match number {
        1 => FileKind::Wal,
        2 => FileKind::Sst,
        3 => FileKind::Manifest,
        _ => FileKind::Other,
    }
}

fn lifetime_of(number: c_int) -> WriteLifetime {
    match number {
        1 => WriteLifetime::Short,
        2 => WriteLifetime::Medium,
        3 => WriteLifetime::Long,
        4 => WriteLifetime::Extreme,
        _ => WriteLifetime::None,
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `writer` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_create(
    files: *const Arc<Files>,
    path: *const c_char,
    kind: c_int,
    lifetime: c_int,
    writer: *mut *mut Writer,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || give(writer, borrowed(files)?.create(text(path)?, kind_of(kind), lifetime_of(lifetime))?))
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `writer` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_append_to(
    files: *const Arc<Files>,
    path: *const c_char,
    writer: *mut *mut Writer,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { told(message, || give(writer, borrowed(files)?.append_to(text(path)?)?)) }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, `bytes` has `length` bytes, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_append(
    writer: *const Writer,
    bytes: *const u8,
    length: usize,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says; nothing is read where there are no bytes.
    unsafe {
        told(message, || {
            if length == 0 {
                return Ok(());
            }
            present(bytes)?;
            borrowed(writer)?.append(std::slice::from_raw_parts(bytes, length))
        })
    }
}

/// A call on a writer.
///
/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, and `message` may be null.
unsafe fn on_writer(
    writer: *const Writer,
    message: *mut *mut c_char,
    work: impl FnOnce(&Writer) -> FilesResult<()>,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { told(message, || work(borrowed(writer)?)) }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_flush(writer: *const Writer, message: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_writer(writer, message, Writer::flush) }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_sync(writer: *const Writer, message: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_writer(writer, message, Writer::sync) }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_truncate(writer: *const Writer, size: u64, message: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_writer(writer, message, |writer| writer.truncate(size)) }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_writer_size(writer: *const Writer) -> u64 {
    // SAFETY: as the caller says.
    unsafe { borrowed(writer) }.map_or(0, Writer::size)
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_writer_serial(writer: *const Writer) -> u64 {
    // SAFETY: as the caller says.
    unsafe { borrowed(writer) }.map_or(0, Writer::serial)
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_expect(writer: *const Writer, bytes: u64) {
    // SAFETY: as the caller says.
    if let Ok(writer) = unsafe { borrowed(writer) } {
        writer.expect(bytes);
    }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_set_lifetime(writer: *const Writer, lifetime: c_int) {
    // SAFETY: as the caller says.
    if let Ok(writer) = unsafe { borrowed(writer) } {
        writer.set_lifetime(lifetime_of(lifetime));
    }
}

/// # Safety
/// `writer` came from `shingle_create` or `shingle_append_to`, and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_writer_close(writer: *mut Writer) {
    // SAFETY: as the caller says.
    unsafe { take_back(writer) }
}
