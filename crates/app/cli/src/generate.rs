//! `shingle generate`: man pages and completions out of the command's own description, for those who make packages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::examples;
use crate::failure::{Failure, Outcome};

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// A man page for the command and one for each of its subcommands.
    Man,
    /// Completions for bash, zsh and fish.
    Completions,
}

/// Makes files in a directory, which has to be there.
#[derive(Args)]
pub(crate) struct Generate {
    /// Kind of files to make.
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
    /// Directory for the files.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Sections that a reader looks for next, behind those of clap.
const FILES: &str = r".SH FILES
.TP
.I /etc/shingle/config.toml
The configuration of the service, see
.BR shingle.toml (5).
.TP
.I /var/lib/shingle
The service's data directory: index, keys
.RI ( credentials.toml ),
what is known of drives, emulated drives, and the socket of
.B shingle status
.RI ( status.sock ).
.SH SEE ALSO
.BR shingle.toml (5),
.BR shingle-array.toml (5),
.BR blkzone (8),
.BR systemctl (1)
";

impl Generate {
    pub(crate) fn run(self, mut command: Command) -> Outcome {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.directory.display()));
        match self.what {
            What::Man => {
                command = command.disable_help_subcommand(true);
                command.build();
                man_pages(&command, "", &self.directory).map_err(failed)
            }
            What::Completions => {
                for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                    clap_complete::generate_to(shell, &mut command, "shingle", &self.directory).map_err(failed)?;
                }
                Ok(())
            }
        }
    }
}

fn man_pages(command: &Command, path: &str, directory: &Path) -> std::io::Result<()> {
    // `shingle-drive-report`, once the command is built.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    let source = concat!("shingle ", env!("CARGO_PKG_VERSION"));
    let mut described = command.clone();
    if let Some(about) = command.get_about() {
        described = described.about(without_example(&about.to_string()));
    }
    if let Some(about) = command.get_long_about() {
        described = described.long_about(without_example(&about.to_string()));
    }
    Man::new(described).source(source).manual("Shingle").render(&mut page)?;
    // Sections behind the options in `--help`.
    let mut page = String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH NOTES\n");
    // A page without a date has to declare that, or the source is taken for one.
    page = page.replacen(&format!(" 1  \"{source}\""), &format!(" 1 \"\" \"{source}\""), 1);
    let examples = examples::of(path);
    if !examples.is_empty() {
        // Hyphens that can be copied, and no line that begins like a request.
        let _ = write!(page, ".SH EXAMPLES\n.EX\n{}.EE\n", examples.replace('-', "\\-"));
    }
    if path.is_empty() {
        page += FILES;
    }
    fs::write(directory.join(format!("{name}.1")), page)?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    for below in shown {
        man_pages(below, format!("{path} {}", below.get_name()).trim_start(), directory)?;
    }
    Ok(())
}

/// A description without the example that listings of subcommands show in it: a man page has it apart.
fn without_example(text: &str) -> String {
    match text.split_once(": `").and_then(|(before, rest)| Some((before, rest.split_once('`')?.1))) {
        Some((before, after)) => format!("{before}{after}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_example_is_taken_out_of_a_description() {
        assert_eq!(without_example("List zones: `shingle x`\n\nMore."), "List zones\n\nMore.");
        assert_eq!(without_example("One: `two"), "One: `two");
        assert_eq!(without_example("None."), "None.");
    }
}
