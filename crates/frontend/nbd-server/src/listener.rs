//! Places to listen at: TCP addresses and Unix sockets.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use futures_util::future::select_all;
use tokio::net::{TcpListener, ToSocketAddrs, UnixListener, UnixStream};

use crate::stream::{Stream, prepare};

/// A place to listen at.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket, removed when it is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number: another server's file of the same name stays.
    id: Option<(u64, u64)>,
}

/// A client that was accepted.
pub(crate) struct Newcomer {
    pub(crate) socket: Box<dyn Stream>,
    pub(crate) over_tcp: bool,
    pub(crate) peer: Peer,
}

/// A client's address, for logs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    Tcp(std::net::SocketAddr),
    Unix,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("a Unix socket"),
        }
    }
}

impl Listener {
    /// Listens at a TCP address. The port of NBD is 10809.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self(Kind::Tcp(TcpListener::bind(address).await?)))
    }

    /// Listens at a Unix socket, for this user and root alone. A file that an earlier server left there, and nobody listens at, is replaced.
    ///
    /// # Errors
    /// Those of the operating system; `AddrInUse` if there is a server, or a file that is no socket.
    pub async fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path).await => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        let file = SocketFile { id: id_of(path), path: path.to_owned() };
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(Self(Kind::Unix { listener, _file: file }))
    }

    /// The TCP address that it listens at.
    pub fn tcp_address(&self) -> Option<std::net::SocketAddr> {
        match &self.0 {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix { .. } => None,
        }
    }

    async fn accept(&self) -> io::Result<Newcomer> {
        match &self.0 {
            Kind::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                // One that is gone already gets no answer.
                let _ = prepare(&socket);
                Ok(Newcomer { socket: Box::new(socket), over_tcp: true, peer: Peer::Tcp(address) })
            }
            Kind::Unix { listener, .. } => {
                let (socket, _) = listener.accept().await?;
                Ok(Newcomer { socket: Box::new(socket), over_tcp: false, peer: Peer::Unix })
            }
        }
    }
}

/// The next client of any listener; none if there is no listener.
pub(crate) async fn accept_any(listeners: &[Listener]) -> io::Result<Newcomer> {
    if listeners.is_empty() {
        return std::future::pending().await;
    }
    select_all(listeners.iter().map(|listener| Box::pin(listener.accept()))).await.0
}

/// True for a socket that nobody listens at.
async fn is_left_over(path: &Path) -> bool {
    UnixStream::connect(path).await.is_err_and(|error| {
        // A plain file refuses, too.
        let is_socket = || {
            use std::os::unix::fs::FileTypeExt;
            std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        };
        error.kind() == io::ErrorKind::ConnectionRefused && is_socket()
    })
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.id.is_some() && id_of(&self.path) == self.id {
            // The next server replaces it as well.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
