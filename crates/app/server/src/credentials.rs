//! The keys that requests are signed with: made at the first start, kept in a file only its owner reads.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use shingle_s3_gateway::Credentials;

use crate::error::{Error, ErrorKind, Result};

/// The file's name in the data directory.
pub(crate) const FILE: &str = "credentials.toml";

/// The letters of keys: 32, so that five bits of randomness are one letter. None look alike.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const ACCESS_LETTERS: usize = 20;
/// 200 bits.
const SECRET_LETTERS: usize = 40;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    access_key: String,
    secret_key: String,
}

/// The keys in `directory`, which are made if there are none. The directory must be locked.
///
/// # Errors
/// `Credentials` if others may read the file, or it makes no sense; `System`.
pub(crate) fn load_or_create(directory: &Path) -> Result<Credentials> {
    let path = directory.join(FILE);
    match File::open(&path) {
        Ok(file) => load(file, &path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(directory, &path),
        Err(error) => Err(Error::system(path.display(), error)),
    }
}

/// Looks whether the keys in `directory` can be used, if there are any yet.
///
/// # Errors
/// As [`load_or_create`].
pub(crate) fn look(directory: &Path) -> Result<()> {
    let path = directory.join(FILE);
    match File::open(&path) {
        Ok(file) => load(file, &path).map(drop),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::system(path.display(), error)),
    }
}

fn load(mut file: File, path: &Path) -> Result<Credentials> {
    let failed = |error| Error::system(path.display(), error);
    let wrong = |text: String| Error::new(ErrorKind::Credentials, text);
    let shown = path.display();
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(format!(
            "{shown} holds the secret key, but others may read or write it (mode {:03o}): run `chmod 600 {shown}`, and if \
             anybody may have read it, remove it instead; new keys are made at the next start",
            mode & 0o777
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    // The parser's own words would show the line, and with it the secret.
    let pair: Pair = toml::from_str(&text).map_err(|_| {
        wrong(format!(
            "{shown} must hold access_key = \"...\" and secret_key = \"...\": mend it, or remove it for new keys"
        ))
    })?;
    if pair.access_key.is_empty() || pair.secret_key.len() < 8 {
        return Err(wrong(format!("{shown}: an access key, and a secret key of at least 8 letters, are needed")));
    }
    Ok(Credentials { access_key: pair.access_key, secret_key: pair.secret_key })
}

fn create(directory: &Path, path: &Path) -> Result<Credentials> {
    let mut random = [0; ACCESS_LETTERS + SECRET_LETTERS];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(|error| Error::system("no random numbers from /dev/urandom", error))?;
    let mut letters = random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    let access_key: String = letters.by_ref().take(ACCESS_LETTERS).collect();
    let secret_key: String = letters.collect();
    let text = format!("access_key = \"{access_key}\"\nsecret_key = \"{secret_key}\"\n");

    let write = || {
        let unfinished = directory.join("credentials.toml.new");
        // One that a start left which was cut short; the directory is ours alone.
        if let Err(error) = std::fs::remove_file(&unfinished)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // A link fails where the name exists, a rename would replace it.
        std::fs::hard_link(&unfinished, path)?;
        std::fs::remove_file(&unfinished)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| Error::system(format_args!("{} could not be written", path.display()), error))?;
    Ok(Credentials { access_key, secret_key })
}
