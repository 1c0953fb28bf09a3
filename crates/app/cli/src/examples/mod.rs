//! Examples of every command, for `--help` and man pages.
//!
//! # Invariants
//! - CLI-EX-1: every subcommand has an example, and every example is a command that is understood.

mod drives;
mod example;
mod lab;
mod stores;

use clap::Command;

use self::example::Example;

fn all() -> impl Iterator<Item = &'static Example> {
    [drives::EXAMPLES, stores::EXAMPLES, lab::EXAMPLES].into_iter().flatten()
}

/// The examples of a subcommand, a line each, such as of `drive map`; empty where there are none.
pub(crate) fn of(path: &str) -> String {
    let known = all().find(|(of, _)| *of == path).map_or(&[][..], |(_, lines)| lines);
    let width = known.iter().map(|(call, _)| call.len()).max().unwrap_or(0);
    let line = |(call, what): &(&str, &str)| format!("{}\n", format!("{call:<width$}  {what}").trim_end());
    known.iter().map(line).collect()
}

/// The command, with examples behind the help of its subcommands.
pub(crate) fn add(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let lines = of(path);
    let command = if lines.is_empty() {
        command
    } else {
        let before = command.get_after_long_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
        command.after_long_help(format!("{before}Examples:{lines}"))
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        below(sub, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn leaves(command: &Command, path: &str, all: &mut Vec<String>) {
        let shown: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
        if shown.is_empty() {
            all.push(path.to_owned());
        }
        for sub in shown {
            leaves(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    /// CLI-EX-1.
    #[test]
    fn every_subcommand_has_an_example() {
        let mut all = Vec::new();
        leaves(&crate::Cli::command(), "", &mut all);
        let mut known: Vec<_> = super::all().map(|(path, _)| (*path).to_owned()).collect();
        all.sort();
        known.sort();
        assert_eq!(all, known);
    }

    /// CLI-EX-1.
    #[test]
    fn every_example_is_understood() {
        for (path, lines) in super::all() {
            for (call, _) in *lines {
                assert!(call.starts_with(&format!("shingle {path}")), "{call}");
                let words = call.split(' ');
                crate::Cli::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{call}: {error}"));
            }
        }
        let help = add(crate::Cli::command());
        let mut help = help.find_subcommand("drive").and_then(|drive| drive.find_subcommand("map")).cloned().unwrap();
        let help = help.render_long_help().to_string();
        assert!(help.contains("What it shows") && help.contains("--svg disk.svg"), "{help}");
    }
}
