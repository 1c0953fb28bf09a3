//! The library, and its functions (`bindings/rocksdb/include/shingle/keys.h`).

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fmt;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shingle_blue_store::kv::{KvError, KvErrorKind, KvResult, MergeOperator, Order, merged};
use shingle_files_server::error_number;
use shingle_zone_files::FilesErrorKind;

/// Names the library, if it is not where it is looked for.
const VARIABLE: &str = "SHINGLE_ROCKSDB_LIBRARY";
const NAME: &str = "libshingle_rocksdb.so";
/// `SHINGLE_KEYS_VERSION`.
const VERSION: u32 = 1;

/// `shingle_bytes`.
type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize);
/// `shingle_merge`.
type Merge = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, *const u8, usize, Sink, *mut c_void);

/// `shingle_keys_options`.
#[repr(C)]
struct RawOptions {
    socket: c_int,
    path: *const c_char,
    read_only: bool,
    cache_bytes: u64,
    buffer_bytes: u64,
    table_bytes: u64,
    merge: Merge,
    operators: *mut c_void,
}

/// `shingle_keys`.
#[repr(C)]
struct RawKeys {
    _private: [u8; 0],
}

type Message = *mut *mut c_char;

#[derive(Clone, Copy)]
struct Functions {
    open: unsafe extern "C" fn(*const RawOptions, *mut *mut RawKeys, Message) -> c_int,
    get: unsafe extern "C" fn(*mut RawKeys, *const u8, usize, Sink, *mut c_void, Message) -> c_int,
    scan: unsafe extern "C" fn(
        *mut RawKeys,
        *const u8,
        usize,
        *const u8,
        usize,
        bool,
        usize,
        Sink,
        *mut c_void,
        Message,
    ) -> c_int,
    write: unsafe extern "C" fn(*mut RawKeys, *const u8, usize, Message) -> c_int,
    close: unsafe extern "C" fn(*mut RawKeys),
    string_free: unsafe extern "C" fn(*mut c_char),
}

/// The library, loaded. It stays so until the process ends: RocksDB has threads that nobody stops.
pub(crate) struct Library {
    functions: Functions,
}

/// The library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// Parameters of a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) read_only: bool,
    pub(crate) cache_bytes: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) table_bytes: u64,
    pub(crate) operators: &'static [MergeOperator],
}

/// Places where the library is looked for.
fn places() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(NAME));
    let installed = ["/usr/local/lib", "/usr/lib"].map(|directory| Path::new(directory).join(NAME));
    beside.into_iter().chain(installed).collect()
}

/// The first of the places where there is a library.
fn find() -> Result<PathBuf, LoadError> {
    let places = places();
    places.iter().find(|path| path.exists()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        LoadError(format!(
            "there is no {NAME} ({}): build it by `make -C bindings/rocksdb`, or name it in {VARIABLE}",
            looked.join(", ")
        ))
    })
}

/// The last failure of the loader, in words.
fn loader_says() -> String {
    // SAFETY: the loader's text is null, or stays until this thread's next call of it.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: it is not null, and ends in a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A function of the library by its name.
///
/// # Safety
/// `F` is the type of that function.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, LoadError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle came from the loader, and the name ends in a zero byte.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(LoadError(format!("the library is of another version: {}", loader_says())));
    }
    // SAFETY: it is the address of a function of this type, says the caller; both have the size of a pointer.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

impl Library {
    /// The library at `path`; or the one beside the program, in `/usr/local/lib` or `/usr/lib`, or the one that `SHINGLE_ROCKSDB_LIBRARY` names.
    /// A library is loaded once.
    ///
    /// # Errors
    /// It is not there, lacks RocksDB, or is of another version.
    pub(crate) fn load(path: Option<&Path>) -> Result<Arc<Self>, LoadError> {
        static LOADED: Mutex<Vec<(PathBuf, Arc<Library>)>> = Mutex::new(Vec::new());
        let path = path.map_or_else(find, |path| Ok(path.to_owned()))?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = loaded.iter().find(|(known, _)| *known == path) {
            return Ok(library.clone());
        }
        let library = Self::load_from(&path)?;
        loaded.push((path, library.clone()));
        Ok(library)
    }

    fn load_from(path: &Path) -> Result<Arc<Self>, LoadError> {
        let words = |error: String| LoadError(format!("{}: {error}", path.display()));
        let mut name = OsString::from(path);
        if !path.has_root() {
            // A name without a slash would be looked for elsewhere.
            name = Path::new(".").join(path).into();
        }
        let name = CString::new(name.as_bytes()).map_err(|error| words(error.to_string()))?;
        // SAFETY: the name ends in a zero byte. Loading runs code of the library: it is the user's, in a place that the user chose.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(words(loader_says()));
        }
        // SAFETY: the types are those of keys.h and files.h.
        let found = unsafe {
            let version: unsafe extern "C" fn() -> u32 = function(handle, c"shingle_keys_version")?;
            if version() != VERSION {
                return Err(words("it is of another version of Shingle; build or install it anew".to_owned()));
            }
            Functions {
                open: function(handle, c"shingle_keys_open")?,
                get: function(handle, c"shingle_keys_get")?,
                scan: function(handle, c"shingle_keys_scan")?,
                write: function(handle, c"shingle_keys_write")?,
                close: function(handle, c"shingle_keys_close")?,
                string_free: function(handle, c"shingle_string_free")?,
            }
        };
        Ok(Arc::new(Self { functions: found }))
    }

    /// Runs a function, and makes an error of its number and text.
    fn run(&self, call: impl FnOnce(Message) -> c_int) -> KvResult<()> {
        let mut text: *mut c_char = null_mut();
        let result = call(&mut text);
        let words = if text.is_null() {
            String::new()
        } else {
            // SAFETY: the function stored a text that ends in a zero byte, and belongs to this caller.
            let words = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
            // SAFETY: it is freed once, by the function for it.
            unsafe { (self.functions.string_free)(text) };
            words
        };
        let is = |kind: FilesErrorKind| result == c_int::from(error_number(kind));
        let kind = match result {
            0 => return Ok(()),
            _ if is(FilesErrorKind::NoSpace) => KvErrorKind::NoSpace,
            _ if is(FilesErrorKind::Corrupt) => KvErrorKind::Corrupt,
            _ if is(FilesErrorKind::Device) => KvErrorKind::Device,
            _ => KvErrorKind::Unavailable,
        };
        Err(KvError::new(kind, format!("RocksDB: {words}")))
    }
}

/// Merge operators, at a place to which the library has a pointer.
struct Operators(&'static [MergeOperator]);

/// A database that is open. It is closed when this is dropped, which waits for RocksDB's threads.
pub(crate) struct OpenKeys {
    loaded: Arc<Library>,
    keys: *mut RawKeys,
    /// The library has a pointer to them.
    _operators: Box<Operators>,
}

// SAFETY: the library's functions may be called from any thread, several at a time, says keys.h.
unsafe impl Send for OpenKeys {}
// SAFETY: as above.
unsafe impl Sync for OpenKeys {}

impl Drop for OpenKeys {
    fn drop(&mut self) {
        // SAFETY: the database is open, and used no more.
        unsafe { (self.loaded.functions.close)(self.keys) };
    }
}

/// A key and its value.
type Pair = (Bytes, Bytes);

impl OpenKeys {
    /// Opens the database in directory `path` of the files at the other end of a socket.
    pub(crate) fn open(library: &Arc<Library>, files: UnixStream, path: &CStr, given: Parameters) -> KvResult<Self> {
        let mut operators = Box::new(Operators(given.operators));
        let options = RawOptions {
            socket: files.into_raw_fd(),
            path: path.as_ptr(),
            read_only: given.read_only,
            cache_bytes: given.cache_bytes,
            buffer_bytes: given.buffer_bytes,
            table_bytes: given.table_bytes,
            merge,
            operators: (&raw mut *operators).cast(),
        };
        let mut keys = null_mut();
        // SAFETY: the options are as keys.h has them, and the socket is given away.
        library.run(|message| unsafe { (library.functions.open)(&options, &mut keys, message) })?;
        Ok(Self { loaded: library.clone(), keys, _operators: operators })
    }

    pub(crate) fn get(&self, key: &[u8]) -> KvResult<Option<Bytes>> {
        let mut found: Vec<Bytes> = Vec::new();
        let into = (&raw mut found).cast();
        let mut absent = false;
        let result = self.loaded.run(|message| {
            // SAFETY: the database is open; the key has these bytes, and `collect` takes the vector, which outlives the call.
            let done =
                unsafe { (self.loaded.functions.get)(self.keys, key.as_ptr(), key.len(), collect, into, message) };
            absent = done == c_int::from(error_number(FilesErrorKind::NotFound));
            done
        });
        if absent {
            return Ok(None);
        }
        result?;
        Ok(found.pop())
    }

    pub(crate) fn scan(&self, from: &[u8], to: &[u8], order: Order, limit: usize) -> KvResult<Vec<Pair>> {
        let mut found: Vec<Bytes> = Vec::new();
        let into = (&raw mut found).cast();
        let backward = order == Order::Backward;
        // SAFETY: as in `get`.
        self.loaded.run(|message| unsafe {
            (self.loaded.functions.scan)(
                self.keys,
                from.as_ptr(),
                from.len(),
                to.as_ptr(),
                to.len(),
                backward,
                limit,
                collect,
                into,
                message,
            )
        })?;
        let mut parts = found.into_iter();
        let mut pairs = Vec::with_capacity(parts.len() / 2);
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            pairs.push((key, value));
        }
        Ok(pairs)
    }

    pub(crate) fn write(&self, changes: &[u8]) -> KvResult<()> {
        // SAFETY: the database is open, and there are as many bytes.
        self.loaded.run(|message| unsafe {
            (self.loaded.functions.write)(self.keys, changes.as_ptr(), changes.len(), message)
        })
    }
}

/// Bytes of the library's.
///
/// # Safety
/// `bytes` has `length` bytes for `'a`; it may be null if that is zero.
unsafe fn slice<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 || bytes.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

/// Takes a key or a value into a vector.
///
/// # Safety
/// `context` is a `Vec<Bytes>` that nobody else uses, and `bytes` has `length` bytes.
unsafe extern "C" fn collect(context: *mut c_void, bytes: *const u8, length: usize) {
    // SAFETY: as the caller says.
    let (found, bytes) = unsafe { (&mut *context.cast::<Vec<Bytes>>(), slice(bytes, length)) };
    found.push(Bytes::copy_from_slice(bytes));
}

/// Merges as the operators do to which `operators` points.
///
/// # Safety
/// It points to operators that stay during the call; the other pointers have as many bytes as the lengths say, `value` may be null, and
/// `result` takes `context`.
unsafe extern "C" fn merge(
    operators: *mut c_void,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    operand: *const u8,
    operand_length: usize,
    result: Sink,
    context: *mut c_void,
) {
    // SAFETY: as the caller says.
    let operators = unsafe { &*operators.cast::<Operators>() };
    // SAFETY: as the caller says.
    let (key, operand) = unsafe { (slice(key, key_length), slice(operand, operand_length)) };
    // SAFETY: as the caller says.
    let before = (!value.is_null()).then(|| unsafe { slice(value, value_length) });
    // An operator never fails; if one panics all the same, no panic goes through C++, and the value is kept.
    let merged = catch_unwind(AssertUnwindSafe(|| merged(operators.0, key, before, operand)));
    let merged = merged.unwrap_or_else(|_| before.unwrap_or_default().to_vec());
    // SAFETY: the bytes are there during the call.
    unsafe { result(context, merged.as_ptr(), merged.len()) };
}
