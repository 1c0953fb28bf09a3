//! Results, texts and pointers on their way to C and back.

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use shingle_files_server::error_number;
use shingle_zone_files::{FilesError, FilesErrorKind, FilesResult};

/// `SHINGLE_OK`.
const OK: c_int = 0;

/// Runs `work`; its failure is stored in `message`, and its number returned. (RK-ABI-1)
///
/// # Safety
/// `message` is null, or may be written to.
pub(super) unsafe fn told(message: *mut *mut c_char, work: impl FnOnce() -> FilesResult<()>) -> c_int {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return OK,
        Ok(Err(error)) => error,
        Err(_) => FilesError::new(FilesErrorKind::Unavailable, "a fault in Shingle stopped the call"),
    };
    if !message.is_null() {
        let text = CString::new(error.message.replace('\0', "\u{fffd}")).unwrap_or_default();
        // SAFETY: it is not null, and the caller says that it may be written to.
        unsafe { *message = text.into_raw() };
    }
    c_int::from(error_number(error.kind))
}

/// A text of the caller's.
///
/// # Safety
/// `text` is null, or ends in a zero byte and stays as it is for `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char) -> FilesResult<&'a str> {
    let invalid = |text: &str| FilesError::new(FilesErrorKind::Invalid, text);
    if text.is_null() {
        return Err(invalid("a path is missing"));
    }
    // SAFETY: it is not null, and the caller says that it ends in a zero byte.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| invalid("a path is not UTF-8"))
}

/// The value behind a pointer that was given away. (RK-ABI-2)
///
/// # Safety
/// `given` is null, or came from [`give`] for a `T` and was not taken back; that happens only after `'a`.
pub(super) unsafe fn borrowed<'a, T>(given: *const T) -> FilesResult<&'a T> {
    // SAFETY: as the caller says.
    unsafe { given.as_ref() }.ok_or_else(|| FilesError::new(FilesErrorKind::Invalid, "a pointer is null"))
}

/// Fails where there is no place for a result.
pub(super) fn present<T>(place: *const T) -> FilesResult<()> {
    if place.is_null() { Err(FilesError::new(FilesErrorKind::Invalid, "a pointer is null")) } else { Ok(()) }
}

/// Gives `value` to the caller.
///
/// # Safety
/// `place` is null, or may be written to.
pub(super) unsafe fn give<T>(place: *mut *mut T, value: T) -> FilesResult<()> {
    present(place)?;
    // SAFETY: it is not null, and the caller says that it may be written to.
    unsafe { *place = Box::into_raw(Box::new(value)) };
    Ok(())
}

/// Takes back and drops what was given away.
///
/// # Safety
/// As for [`borrowed`], and nothing uses it any more.
pub(super) unsafe fn take_back<T>(given: *mut T) {
    if !given.is_null() {
        // SAFETY: it came from a box (RK-ABI-2), and the caller uses it no more. A panic of its drop ends here (RK-ABI-1).
        let owned = unsafe { Box::from_raw(given) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

/// # Safety
/// `text` ends in a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_string_new(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: it is not null, and the caller says that it ends in a zero byte.
    unsafe { CStr::from_ptr(text) }.to_owned().into_raw()
}

/// # Safety
/// `string` is null, a copy of a text, or a text of a failed call.
#[unsafe(no_mangle)]
unsafe extern "C" fn shingle_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: it came from `CString::into_raw` above.
        drop(unsafe { CString::from_raw(string) });
    }
}
