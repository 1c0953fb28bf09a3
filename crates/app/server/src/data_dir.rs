//! The data directory: locked against a second server, and its notes about drives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use shingle_base::StoreId;

use crate::error::{Error, ErrorKind, Result};

/// The version of the directory's layout that this code writes, and the newest it reads.
const VERSION: u32 = 1;
const LOCK: &str = "lock";
const DRIVES: &str = "drives.toml";

/// A data directory, locked while this lives.
pub(crate) struct DataDir {
    path: PathBuf,
    /// Holds the lock. The kernel lets it go with the process, however that ends.
    _lock: File,
    drives: Vec<KnownDrive>,
}

/// A drive this directory has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownDrive {
    pub(crate) store: StoreId,
    pub(crate) path: PathBuf,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DrivesFile {
    #[expect(dead_code, reason = "read before, on its own: files of other versions need not have this shape")]
    version: u32,
    #[serde(default)]
    drive: Vec<DriveEntry>,
}

#[derive(serde::Deserialize)]
struct VersionOnly {
    version: u32,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveEntry {
    store: String,
    path: PathBuf,
}

impl DataDir {
    /// Locks the directory at `path`, which is made if it is missing, and reads its notes.
    ///
    /// # Errors
    /// `InUse`, `NewerVersion`, `System`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::system(format_args!("the data directory {}", path.display()), error);
        // It holds objects' bytes: closed to other users.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock = lock(path).map_err(failed)??;
        let drives = read_drives(&path.join(DRIVES))?;
        Ok(Self { path: path.to_owned(), _lock: lock, drives })
    }

    /// Locks the directory at `path`, which a server has used before: it knows drives, or has arrays.
    ///
    /// # Errors
    /// `Config` if no server has used it; `InUse`, `NewerVersion`, `System`.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        let is_there = |name: &str| path.join(name).symlink_metadata().is_ok();
        if !is_there(DRIVES) && !is_there(crate::engines::arrays::FOLDER) {
            let message = format!(
                "{} is no data directory of a server: it has no {DRIVES}. Name the right one with --data or --config; if it \
                 should be mounted there, mount it",
                path.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Self::open(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The drives it has used.
    pub(crate) fn drives(&self) -> &[KnownDrive] {
        &self.drives
    }

    /// Notes the drives now in use; those noted before stay, at their present paths. Durable when it returns.
    ///
    /// # Errors
    /// `System`.
    pub(crate) fn note_drives(&mut self, used: &[KnownDrive]) -> Result<()> {
        let mut drives = self.drives.clone();
        for drive in used {
            match drives.iter_mut().find(|known| known.store == drive.store) {
                Some(known) => known.path.clone_from(&drive.path),
                None => drives.push(drive.clone()),
            }
        }
        if drives == self.drives {
            return Ok(());
        }
        let path = self.path.join(DRIVES);
        write_drives(&self.path, &path, &drives).map_err(|error| Error::system(path.display(), error))?;
        self.drives = drives;
        Ok(())
    }
}

/// The drives that the directory at `path` has used, which may be in use, or missing.
///
/// # Errors
/// `NewerVersion`, `System`.
pub(crate) fn look(path: &Path) -> Result<Vec<KnownDrive>> {
    read_drives(&path.join(DRIVES))
}

fn lock(directory: &Path) -> std::io::Result<Result<File>> {
    let path = directory.join(LOCK);
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(std::process::id().to_string().as_bytes())?;
            Ok(Ok(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            file.rewind()?;
            file.take(20).read_to_string(&mut owner)?;
            let who = owner.trim().parse::<u32>().map_or(String::new(), |process| format!(" (process {process})"));
            Ok(Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "the data directory {} is in use by another server{who}: stop that one, or give this one another \
                     directory with --data",
                    directory.display()
                ),
            )))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn read_drives(path: &Path) -> Result<Vec<KnownDrive>> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::system(shown, error)),
    };
    let damaged = |why: &dyn std::fmt::Display| {
        let what = "if all drives are there, it can be removed and is made again";
        Error::new(ErrorKind::System, format!("{shown} is damaged ({why}); {what}"))
    };
    let VersionOnly { version } = toml::from_str(&text).map_err(|error| damaged(&error.message()))?;
    if version > VERSION {
        return Err(Error::new(
            ErrorKind::NewerVersion,
            format!(
                "{shown} has version {version}, this version of Shingle reads up to {VERSION}: use a newer Shingle"
            ),
        ));
    }
    let file: DrivesFile = toml::from_str(&text).map_err(|error| damaged(&error.message()))?;
    let known = |entry: DriveEntry| {
        let store = entry.store.parse().map_err(|error| damaged(&error))?;
        Ok(KnownDrive { store, path: entry.path })
    };
    file.drive.into_iter().map(known).collect()
}

fn write_drives(directory: &Path, path: &Path, drives: &[KnownDrive]) -> std::io::Result<()> {
    let mut text =
        format!("# Written by the server: the drives this directory's objects lie on.\nversion = {VERSION}\n");
    for drive in drives {
        let path = quoted(&drive.path.to_string_lossy());
        text += &format!("\n[[drive]]\nstore = \"{}\"\npath = {path}\n", drive.store);
    }
    let unfinished = path.with_extension("toml.new");
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    File::open(directory)?.sync_all()
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials;
    use std::os::unix::fs::PermissionsExt;

    /// A directory of the test's own, removed when it is done.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-server-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// SV-SRV-1.
    #[test]
    fn a_data_directory_is_used_by_one_at_a_time() {
        let scratch = Scratch::new("lock");
        let first = DataDir::open(&scratch.0).unwrap();
        let refused = DataDir::open(&scratch.0).err().unwrap();
        assert_eq!(refused.kind, ErrorKind::InUse);
        assert!(refused.message.contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        assert!(DataDir::open(&scratch.0).is_ok());
    }

    #[test]
    fn drives_are_remembered_at_their_present_paths() {
        let scratch = Scratch::new("drives");
        let drive = |store, path: &str| KnownDrive { store: StoreId(store), path: PathBuf::from(path) };
        let mut directory = DataDir::open(&scratch.0).unwrap();
        directory.note_drives(&[drive(1, "a \"b\"\\c\n"), drive(2, "b")]).unwrap();
        drop(directory);
        let mut directory = DataDir::open(&scratch.0).unwrap();
        assert_eq!(directory.drives(), [drive(1, "a \"b\"\\c\n"), drive(2, "b")]);
        directory.note_drives(&[drive(2, "moved"), drive(3, "c")]).unwrap();
        drop(directory);
        let directory = DataDir::open(&scratch.0).unwrap();
        assert_eq!(directory.drives(), [drive(1, "a \"b\"\\c\n"), drive(2, "moved"), drive(3, "c")]);
    }

    #[test]
    fn a_newer_version_and_damage_are_refused() {
        let scratch = Scratch::new("versions");
        std::fs::create_dir_all(&scratch.0).unwrap();
        let cases = [
            ("version = 2\nwhatever = true", ErrorKind::NewerVersion),
            ("version = 1\ndrives = 7", ErrorKind::System),
            ("version = 1\n[[drive]]\nstore = \"short\"\npath = \"x\"", ErrorKind::System),
            ("\0", ErrorKind::System),
        ];
        for (text, kind) in cases {
            std::fs::write(scratch.0.join(DRIVES), text).unwrap();
            assert_eq!(DataDir::open(&scratch.0).err().unwrap().kind, kind, "{text}");
        }
    }

    /// SV-SRV-3.
    #[test]
    fn keys_are_made_once_and_only_their_owner_reads_them() {
        let scratch = Scratch::new("keys");
        let directory = DataDir::open(&scratch.0).unwrap();
        let made = credentials::load_or_create(directory.path()).unwrap();
        assert_eq!((made.access_key.len(), made.secret_key.len()), (20, 40));
        let path = scratch.0.join(credentials::FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = credentials::load_or_create(directory.path()).unwrap();
        assert_eq!((again.access_key, again.secret_key), (made.access_key.clone(), made.secret_key.clone()));
        assert!(!format!("{made:?}").contains(&made.secret_key));

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = credentials::load_or_create(directory.path()).unwrap_err();
        assert!(refused.kind == ErrorKind::Credentials && refused.message.contains("chmod 600"), "{refused}");

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "access_key = \"a\"\nsecret_key = hushhush").unwrap();
        let refused = credentials::load_or_create(directory.path()).unwrap_err();
        assert!(refused.kind == ErrorKind::Credentials && !refused.message.contains("hush"), "{refused}");
    }
}
