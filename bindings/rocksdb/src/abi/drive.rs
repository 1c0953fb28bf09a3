//! Drives: opening, letting go, room.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use shingle_files_server::{Caching, Files, files_of_socket};

use super::status::{borrowed, give, present, take_back, text, told};
use crate::drives;

/// `shingle_room`.
#[repr(C)]
struct Room {
    store: u64,
    capacity_bytes: u64,
    free_bytes: u64,
    written_bytes: u64,
    drive_bytes: u64,
}

/// # Safety
/// `drive` ends in a zero byte; `files` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_files_open(
    drive: *const c_char,
    cache_bytes: u64,
    files: *mut *mut Arc<Files>,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { told(message, || give(files, drives::open(text(drive)?, cache_bytes)?)) }
}

/// # Safety
/// `socket` is an open socket that nobody else uses or closes; `files` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_files_of_socket(
    socket: c_int,
    cache_bytes: u64,
    files: *mut *mut Arc<Files>,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            let stream = UnixStream::from_raw_fd(socket);
            give(files, Arc::new(files_of_socket(stream, Caching::Blocks(cache_bytes))?))
        })
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_files_close(files: *mut Arc<Files>) {
    // SAFETY: as the caller says.
    unsafe { take_back(files) }
}

/// # Safety
/// `files` came from `shingle_files_open`; `room` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_room_of(files: *const Arc<Files>, room: *mut Room, message: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            let found = borrowed(files)?.room()?;
            present(room)?;
            room.write(Room {
                store: found.store,
                capacity_bytes: found.capacity_bytes,
                free_bytes: found.free_bytes,
                written_bytes: found.written_bytes,
                drive_bytes: found.drive_bytes,
            });
            Ok(())
        })
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `text` takes `context`, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_metrics(
    files: *const Arc<Files>,
    text: extern "C" fn(*mut c_void, *const c_char),
    context: *mut c_void,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            let figures = borrowed(files)?.metrics()?;
            text(context, CString::new(figures).unwrap_or_default().as_ptr());
            Ok(())
        })
    }
}
