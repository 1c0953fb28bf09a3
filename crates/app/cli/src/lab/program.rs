//! The program of the lab, which `shingle lab` becomes.
//!
//! **Owns** the place of `shingle-lab`: beside `shingle`, or in `libexec/shingle` beside the folder of `shingle`, as in a package.
//! **Knows nothing of** experiments.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::identity::BUILD;

/// File name of the program.
const NAME: &str = "shingle-lab";

/// Replaces this process by the lab's program, with the same arguments: returns only if that fails.
///
/// # Errors
/// The program is not there, or is of another version or build, or the system cannot start it.
pub(crate) fn hand_over() -> Outcome {
    let own = std::env::current_exe()?;
    let places = places(&own);
    let Some(program) = places.iter().find(|place| place.is_file()) else {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(Failure::new(format!(
            "the lab is a program of its own, and there is none at {}: `cargo build --release --bins` makes both",
            places.join(" or ")
        )));
    };
    let said = Command::new(program).arg("--version").output();
    let said = said.map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
    if let Some(other) = other_version(&said.stdout) {
        return Err(Failure::new(format!(
            "{} is of {other}, and this command of version {BUILD}: the two belong together. Install both from one \
             package; from source, `cargo build --release --bins` makes both",
            program.display()
        )));
    }
    let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
    Err(Failure::new(format!("{}: {error}", program.display())))
}

/// The version in a program's answer to `--version`, in words, if it is another one than this command's.
fn other_version(answer: &[u8]) -> Option<String> {
    let answer = String::from_utf8_lossy(answer);
    match answer.trim().strip_prefix("shingle ") {
        Some(BUILD) => None,
        Some(other) => Some(format!("version {}", shingle_base::printable(other.as_bytes()))),
        None => Some("a version that it does not tell".to_owned()),
    }
}

/// Places where the program may be, for a command at `own`.
fn places(own: &Path) -> Vec<PathBuf> {
    let folder = own.parent();
    let packaged = folder.and_then(Path::parent).map(|above| above.join("libexec/shingle").join(NAME));
    folder.map(|folder| folder.join(NAME)).into_iter().chain(packaged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_of_another_version_or_build_is_told_from_this_ones() {
        assert_eq!(other_version(format!("shingle {BUILD}\n").as_bytes()), None);
        let version = env!("CARGO_PKG_VERSION");
        let other = format!("{version} (build 0123456789abcdef)");
        assert_eq!(other_version(format!("shingle {other}\n").as_bytes()).unwrap(), format!("version {other}"));
        assert_eq!(other_version(format!("shingle {version}\n").as_bytes()).unwrap(), format!("version {version}"));
        assert_eq!(other_version(b"shingle 0.0.9\n").unwrap(), "version 0.0.9");
        for nothing in [&b""[..], b"\xff", b"error: unexpected argument"] {
            assert_eq!(other_version(nothing).unwrap(), "a version that it does not tell");
        }
    }

    #[test]
    fn the_program_is_beside_the_command_or_in_the_package() {
        let found = places(Path::new("/usr/bin/shingle"));
        assert_eq!(found, ["/usr/bin/shingle-lab", "/usr/libexec/shingle/shingle-lab"].map(PathBuf::from));
    }
}
