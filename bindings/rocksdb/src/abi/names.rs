//! Names: files and directories by their paths, and locks.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use shingle_files_server::{About as Found, Files, Lock};
use shingle_zone_files::FilesResult;

use super::status::{borrowed, give, present, take_back, text, told};

/// `shingle_about`.
#[repr(C)]
struct About {
    serial: u64,
    size: u64,
    modified_nanos: u64,
    links: u32,
    directory: bool,
}

impl From<Option<Found>> for About {
    fn from(found: Option<Found>) -> Self {
        match found {
            Some(file) => Self {
                serial: file.serial,
                size: file.size,
                modified_nanos: file.modified,
                links: file.links,
                directory: false,
            },
            None => Self { serial: 0, size: 0, modified_nanos: 0, links: 0, directory: true },
        }
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `about` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_stat(
    files: *const Arc<Files>,
    path: *const c_char,
    about: *mut About,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            let found = borrowed(files)?.stat(text(path)?)?;
            present(about)?;
            about.write(found.into());
            Ok(())
        })
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `entry` takes `context`, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_list(
    files: *const Arc<Files>,
    path: *const c_char,
    entry: extern "C" fn(*mut c_void, *const c_char, *const About),
    context: *mut c_void,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        told(message, || {
            for (name, found) in borrowed(files)?.list(text(path)?)? {
                // No name has a zero byte.
                let name = CString::new(name).unwrap_or_default();
                entry(context, name.as_ptr(), &About::from(found));
            }
            Ok(())
        })
    }
}

/// A call on one path.
///
/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, and `message` may be null.
unsafe fn on_path(
    files: *const Arc<Files>,
    path: *const c_char,
    message: *mut *mut c_char,
    work: impl FnOnce(&Files, &str) -> FilesResult<()>,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { told(message, || work(borrowed(files)?, text(path)?)) }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_remove(files: *const Arc<Files>, path: *const c_char, message: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_path(files, path, message, Files::remove) }
}

/// # Safety
/// `files` came from `shingle_files_open`, the paths end in a zero byte, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_rename(
    files: *const Arc<Files>,
    from: *const c_char,
    to: *const c_char,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_path(files, from, message, |files, from| files.rename(from, text(to)?)) }
}

/// # Safety
/// `files` came from `shingle_files_open`, the paths end in a zero byte, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_link(
    files: *const Arc<Files>,
    from: *const c_char,
    to: *const c_char,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_path(files, from, message, |files, from| files.link(from, text(to)?)) }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_make_dir(
    files: *const Arc<Files>,
    path: *const c_char,
    all: bool,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        on_path(files, path, message, |files, path| if all { files.make_dir_all(path) } else { files.make_dir(path) })
    }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_remove_dir(
    files: *const Arc<Files>,
    path: *const c_char,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_path(files, path, message, Files::remove_dir) }
}

/// # Safety
/// `files` came from `shingle_files_open`, `path` ends in a zero byte, `lock` may be written to, and `message` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_lock_path(
    files: *const Arc<Files>,
    path: *const c_char,
    lock: *mut *mut Lock,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { on_path(files, path, message, |files, path| give(lock, files.lock(path)?)) }
}

/// # Safety
/// `lock` came from `shingle_lock_path`, and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_unlock(lock: *mut Lock) {
    // SAFETY: as the caller says.
    unsafe { take_back(lock) }
}
