//! Places where clients connect, and the addresses (URIs) that lead there.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use shingle_nbd_server::Listener;

use crate::error::{Error, ErrorKind, Result};

/// Characters that an address does not have as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A place where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Place {
    /// Listens there. A port 0 becomes one that is free.
    ///
    /// # Errors
    /// `InUse`, `System`.
    pub(super) async fn listen(&mut self) -> Result<Listener> {
        let listener = match self {
            Self::Tcp(address) => Listener::tcp(*address).await,
            Self::Unix(path) => Listener::unix(path).await,
        };
        let listener = listener.map_err(|error| self.refused(&error))?;
        if let (Self::Tcp(address), Some(bound)) = (&mut *self, listener.tcp_address()) {
            *address = bound;
        }
        Ok(listener)
    }

    /// Reason why nobody can listen there, found out by looking.
    pub(crate) fn trouble(&self) -> Option<String> {
        let error = match self {
            Self::Tcp(address) => std::net::TcpListener::bind(address).err()?,
            Self::Unix(path) => Self::socket_trouble(path).err()?,
        };
        Some(self.refused(&error).message)
    }

    fn socket_trouble(path: &Path) -> io::Result<()> {
        std::os::unix::net::SocketAddr::from_pathname(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::metadata(folder.unwrap_or(Path::new(".")))?;
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // A server that is gone has left it, and the next one replaces it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => Ok(()),
            _ => Err(io::ErrorKind::AddrInUse.into()),
        }
    }

    fn refused(&self, error: &io::Error) -> Error {
        match (self, error.kind()) {
            (Self::Tcp(address), io::ErrorKind::AddrInUse) => Error::new(
                ErrorKind::InUse,
                format!(
                    "the address {address} is in use by another program: stop that one, or name another (`--listen`)"
                ),
            ),
            (Self::Unix(path), io::ErrorKind::AddrInUse) => Error::new(
                ErrorKind::InUse,
                format!(
                    "{}: another program listens there, or it is no socket: name another file (`--socket`)",
                    path.display()
                ),
            ),
            (Self::Tcp(address), _) => Error::system(format_args!("the address {address}"), error),
            (Self::Unix(path), _) => Error::system(path.display(), error),
        }
    }

    /// The address of an export here, as clients take it.
    pub(super) fn uri(&self, name: &str, tls: bool) -> String {
        let mut uri = String::from(if tls { "nbds" } else { "nbd" });
        let name = percent_encode(name.as_bytes(), ESCAPED);
        // Writing to a string does not fail.
        let _ = match self {
            Self::Tcp(address) => write!(uri, "://{address}/{name}"),
            Self::Unix(path) => {
                // Slashes may stay, and a path with them is easier to read.
                let path = percent_encode(path.as_os_str().as_bytes(), &SLASHES);
                write!(uri, "+unix:///{name}?socket={path}")
            }
        };
        uri
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// The same for paths.
const SLASHES: AsciiSet = ESCAPED.remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_protocol() {
        let tcp = Place::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(tcp.uri("disk", false), "nbd://127.0.0.1:10809/disk");
        assert_eq!(tcp.uri("a b/c", true), "nbds://127.0.0.1:10809/a%20b%2Fc");
        let unix = Place::Unix("/run/a b/disk.sock".into());
        assert_eq!(unix.uri("disk", false), "nbd+unix:///disk?socket=/run/a%20b/disk.sock");
        let six = Place::Tcp("[::1]:1".parse().unwrap());
        assert_eq!(six.uri("", false), "nbd://[::1]:1/");
    }
}
