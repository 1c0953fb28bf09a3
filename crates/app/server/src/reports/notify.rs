//! Messages to the service manager: ready, status, alive, time to stop. (sd_notify(3))

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager, if there is one.
pub(crate) struct Manager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The manager that the environment names.
    pub(crate) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!("the service manager cannot be reached: {error}");
                None
            }
        });
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let meant = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|&time| meant && time > 0).map(Duration::from_micros);
        Self { socket, watchdog }
    }

    /// Time within which it has to hear that the server lives.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Requests are answered.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\n");
    }

    /// State of the server, in a line.
    pub(crate) fn status(&self, words: &str) {
        self.tell(&format!("STATUS={}\n", words.replace('\n', "; ")));
    }

    /// The server lives.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    /// The server stops, within `patience`.
    pub(crate) fn stopping(&self, patience: Duration) {
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\n", patience.as_micros()));
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(text.as_bytes())
        {
            tracing::debug!("the service manager does not listen: {error}");
        }
    }
}

fn connect(name: &OsStr) -> std::io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that is behind must not hold up the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}
