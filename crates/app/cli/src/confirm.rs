//! Consent before data is lost: on a terminal by a question, in a script by `--yes`.

use std::io::{BufRead, IsTerminal, Write};

use crate::failure::{Failure, Outcome};

/// Returns if `yes` was given, or the person at the terminal types "yes" after reading `what`.
///
/// # Errors
/// There is no terminal, or the answer was another one. Nothing was done.
pub(crate) fn confirm(yes: bool, what: &str) -> Outcome {
    if yes {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::new(format!("{what}\nNothing was done: add --yes to do it without being asked")));
    }
    let mut error = std::io::stderr().lock();
    write!(error, "{what}\nType \"yes\" to go on: ")?;
    error.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    if answer.trim().eq_ignore_ascii_case("yes") { Ok(()) } else { Err(Failure::new("nothing was done")) }
}
