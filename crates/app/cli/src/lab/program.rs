//! The program of the lab, which `shingle lab` becomes.
//!
//! **Owns** the place of `shingle-lab`: beside `shingle`, or in `libexec/shingle` beside the folder of `shingle`, as in a package.
//! **Knows nothing of** experiments.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// File name of the program.
const NAME: &str = "shingle-lab";

/// Replaces this process by the lab's program, with the same arguments: returns only if that fails.
///
/// # Errors
/// The program is not there, or the system cannot start it.
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
    let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
    Err(Failure::new(format!("{}: {error}", program.display())))
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
    fn the_program_is_beside_the_command_or_in_the_package() {
        let found = places(Path::new("/usr/bin/shingle"));
        assert_eq!(found, ["/usr/bin/shingle-lab", "/usr/libexec/shingle/shingle-lab"].map(PathBuf::from));
    }
}
