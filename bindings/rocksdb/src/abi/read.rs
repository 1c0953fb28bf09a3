//! Files that are being read.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use shingle_files_server::{Files, Pending, Reader};
use shingle_zone_files::FilesResult;

use super::status::{borrowed, give, present, take_back, text, told};

/// The caller's memory.
///
/// # Safety
/// `into` has `length` bytes that the caller uses for nothing else for `'a`.
unsafe fn memory<'a>(into: *mut c_void, length: usize) -> FilesResult<&'a mut [u8]> {
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: it is not null, and as the caller says.
    unsafe {
        present(into)?;
        Ok(std::slice::from_raw_parts_mut(into.cast(), length))
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `reader` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_open(
    files: *const Arc<Files>,
    path: *const c_char,
    reader: *mut *mut Reader,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { told(message, || give(reader, borrowed(files)?.open(text(path)?)?)) }
}

/// # Safety
/// `reader` came from `shingle_open`, `into` has `length` bytes, `done` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_read(
    reader: *const Reader,
    offset: u64,
    into: *mut c_void,
    length: usize,
    done: *mut usize,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            present(done)?;
            done.write(borrowed(reader)?.read(offset, memory(into, length)?)?);
            Ok(())
        })
    }
}

/// # Safety
/// `reader` came from `shingle_open`, `into` has `length` bytes, `pending` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_read_begin(
    reader: *const Reader,
    offset: u64,
    into: *mut c_void,
    length: usize,
    pending: *mut *mut Pending,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            present(pending)?;
            pending.write(ptr::null_mut());
            let reader = borrowed(reader)?;
            if reader.remembered(offset, memory(into, length)?) {
                return Ok(());
            }
            give(pending, reader.begin(offset, length as u64))
        })
    }
}

/// # Safety
/// `pending` came from `shingle_read_begin`, `into` has `length` bytes, `done` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_read_wait(
    pending: *mut Pending,
    into: *mut c_void,
    length: usize,
    done: *mut usize,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says; the box is taken back once.
    unsafe {
        told(message, || {
            present(pending)?;
            let pending = Box::from_raw(pending);
            present(done)?;
            let bytes = pending.wait()?;
            let length = length.min(bytes.len());
            memory(into, length)?.copy_from_slice(&bytes[..length]);
            done.write(length);
            Ok(())
        })
    }
}

/// # Safety
/// `pending` came from `shingle_read_begin`, and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_read_abandon(pending: *mut Pending) {
    // SAFETY: as the caller says.
    unsafe { take_back(pending) }
}

/// # Safety
/// `reader` came from `shingle_open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_reader_serial(reader: *const Reader) -> u64 {
    // SAFETY: as the caller says.
    unsafe { borrowed(reader) }.map_or(0, |reader| reader.about().serial)
}

/// # Safety
/// `reader` came from `shingle_open`, and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_reader_close(reader: *mut Reader) {
    // SAFETY: as the caller says.
    unsafe { take_back(reader) }
}
