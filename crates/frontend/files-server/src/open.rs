//! Opening the files of a drive: as its owner, or through the process that owns it.

#![expect(clippy::disallowed_methods, reason = "a front end waits on the real clock, outside simulations")]

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use shingle_zone_files::{FilesError, FilesErrorKind, Options};

use crate::address::Named;
use crate::cache::Caching;
use crate::client::Tailing;
use crate::files::Files;
use crate::opener::Opener;
use crate::owner::{Opening, Owner};
use crate::remote::Remote;

/// Time in which another process opens or closes the drive, after which an opening gives up.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Parameters of an opening.
#[derive(Clone, Debug)]
pub struct OpenFiles<'a> {
    /// The node or file of the drive.
    pub holder: &'a Path,
    /// Its partition.
    pub partition: Option<&'a str>,
    /// Parameters of the files' opening, if this process becomes their owner.
    pub options: Options,
    /// Memory for tables.
    pub caching: Caching,
}

/// Opens the files of a drive. The process that opens them first owns the drive; others reach them through it, as long as it has them.
///
/// # Errors
/// As `ZoneFiles::open`; `Unavailable` if another process has the drive and does not share it.
pub fn open_files(parameters: &OpenFiles<'_>, opener: Opener) -> Result<Files, FilesError> {
    let OpenFiles { holder, partition, options, caching } = *parameters;
    let named = Named { holder, partition };
    let opening = Opening { opener, options, holder: holder.to_owned(), partition: partition.map(str::to_owned) };
    let until = Instant::now() + PATIENCE;
    loop {
        let error = match Owner::start(opening.clone()) {
            Ok((owner, tails)) => return Ok(Files::new(owner, caching, Tailing::Here(tails))),
            Err(error) => error,
        };
        if !error.in_use {
            return Err(error.error);
        }
        // Its owner may be opening or closing it right now.
        match named.address().and_then(|address| Remote::connect(&address, holder)) {
            Ok(remote) => return Ok(Files::new(remote, caching, Tailing::Elsewhere)),
            Err(refused) if refused.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(FilesError::new(FilesErrorKind::Unavailable, refused.to_string()));
            }
            Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(_) => return Err(error.error),
        }
    }
}

/// Files that are served at the other end of a socket ([`serve_socket`](crate::serve_socket)).
///
/// # Errors
/// `Unavailable` if nobody serves them there, or one of another version.
pub fn files_of_socket(stream: UnixStream, caching: Caching) -> Result<Files, FilesError> {
    let remote =
        Remote::over(stream).map_err(|error| FilesError::new(FilesErrorKind::Unavailable, error.to_string()))?;
    Ok(Files::new(remote, caching, Tailing::Elsewhere))
}
