//! Failure of a command: words for a person, a status for a program.

use std::error::Error;

/// Exit statuses of checks, like fsck's.
pub(crate) mod status {
    /// Any other failure.
    pub(crate) const FAILED: u8 = 1;
    /// Damage is left.
    pub(crate) const DAMAGED: u8 = 4;
    /// A check could not run; a command found no drive, store or array to work with.
    pub(crate) const NOT_RUN: u8 = 8;
    /// A server serves, but is degraded.
    pub(crate) const DEGRADED: u8 = 2;
    /// No server runs: what `systemctl status` reports for that.
    pub(crate) const NOT_RUNNING: u8 = 3;
    /// A server runs, and a part of it does not serve.
    pub(crate) const NOT_SERVING: u8 = 4;
    /// The configuration is wrong: sysexits' `EX_CONFIG`. The service manager does not restart the service then.
    pub(crate) const CONFIG: u8 = 78;
    /// The reader of standard output is gone: the status that shells report for a program that SIGPIPE ends.
    pub(crate) const NOBODY_READS: u8 = 141;
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) status: u8,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: without_number(message.into()), status: status::FAILED }
    }

    /// Ends with a status; all messages have been printed.
    pub(crate) fn silent(status: u8) -> Self {
        Self { message: String::new(), status }
    }

    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The same for a command that could not begin: no drive, no store, no array.
    pub(crate) fn not_run(self) -> Self {
        self.with_status(status::NOT_RUN)
    }
}

/// A message without the operating system's number behind its words: `(os error 2)`.
fn without_number(mut message: String) -> String {
    const BEFORE: &str = " (os error ";
    while let Some(at) = message.find(BEFORE) {
        let number = &message[at + BEFORE.len()..];
        let Some(end) = number.find(')').filter(|end| number[..*end].bytes().all(|byte| byte.is_ascii_digit())) else {
            break;
        };
        message.replace_range(at..at + BEFORE.len() + end + 1, "");
    }
    message
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_speaks_in_words() {
        let missing = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            Failure::new(format!("a: {missing}, b: {missing}")).message,
            "a: No such file or directory, b: No such file or directory"
        );
        assert_eq!(Failure::new("x (os error y)").message, "x (os error y)");
    }
}
