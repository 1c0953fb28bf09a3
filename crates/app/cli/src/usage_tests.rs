//! Rules for the help of arguments, held for every command.
//!
//! # Invariants
//! - CLI-USE-1: one thing has one name in all usage lines: that of a fixed list, never what the code calls it.
//! - CLI-USE-2: each argument is described, and each optional one names its default.

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::Cli;

/// Names of values, and their meaning.
const VALUES: &[(&str, &str)] = &[
    ("DRIVE", "a zoned drive: a node, the file of an emulated one, or a name such as serial:ZL2XXXXX"),
    ("FILE", "a file"),
    ("DIR", "a directory"),
    ("CHUNK", "a chunk's identity"),
    ("BUCKET/KEY", "an object of a server or drive; where a bucket can stand for it, alone or with a slash"),
    ("NAME", "an object of an array, an export, or an experiment or benchmark"),
    ("PARTITION", "a partition of a drive: DRIVE#NAME"),
    ("NAME=SIZE", "a partition to be made"),
    ("NODE", "the node of a disk that a volume or drive is made to"),
    ("WAY", "a way to such a disk"),
    ("LAYER", "a volume's cleaner: builtin, tl1 or tl2, with a policy behind a colon"),
    ("PATH", "a file or directory on a drive with files"),
    ("LEVEL", "a level of the log"),
    ("PREFIX", "the beginning of keys or names"),
    ("ZONE", "a zone's number, or a range of them"),
    ("SIZE", "bytes, with a unit"),
    ("BYTES", "bytes, without one"),
    ("FIRST-LAST", "a range of bytes"),
    ("COUNT", "a number of things"),
    ("COLUMNS", "a width"),
    ("ADDRESS:PORT", "an address to listen on"),
    ("DATA+PARITY", "a code"),
    ("TYPE", "a media type"),
    ("KIND", "a kind of drive"),
    ("STREAM", "a stream of chunks"),
    ("SCALE", "the size of an experiment"),
    ("SEED", "the seed of everything random"),
    ("TARGET", "a drive, file or modelled drive to examine"),
    ("FORMAT", "a format of traces"),
    ("VOLUME", "a volume of a trace"),
    ("PACE", "the pace of a replay"),
    ("STEP", "a step of an examination"),
    ("PLACE", "a place of metadata"),
    ("WHAT", "a kind of files to generate"),
];

fn each_argument(command: &Command, path: &str, check: &mut impl FnMut(&str, &Arg)) {
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        check(path, argument);
    }
    for sub in command.get_subcommands() {
        each_argument(sub, &format!("{path} {}", sub.get_name()), check);
    }
}

fn takes_values(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

fn help_of(argument: &Arg) -> String {
    argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// Arguments that break a rule, of all commands.
fn wrong(rule: impl Fn(&Arg) -> bool) -> Vec<String> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut wrong = Vec::new();
    each_argument(&command, "shingle", &mut |path, argument| {
        if !rule(argument) {
            wrong.push(format!("{path}: {argument}"));
        }
    });
    wrong
}

/// CLI-USE-1
#[test]
fn values_have_the_names_of_a_fixed_list() {
    let known = |name: &str| VALUES.iter().any(|(value, _)| *value == name);
    let named = |argument: &Arg| argument.get_value_names().unwrap_or_default().iter().all(|name| known(name));
    assert_eq!(wrong(|argument| !takes_values(argument) || named(argument)), Vec::<String>::new());
}

/// CLI-USE-2
#[test]
fn every_argument_is_described() {
    assert_eq!(wrong(|argument| !help_of(argument).is_empty()), Vec::<String>::new());
}

/// CLI-USE-2
#[test]
fn every_optional_argument_names_its_default() {
    let said = |argument: &Arg| {
        let shown = !argument.get_default_values().is_empty() && !argument.is_hide_default_value_set();
        shown || help_of(argument).contains("[default: ")
    };
    let required = |argument: &Arg| argument.is_required_set() || argument.to_string().starts_with('<');
    assert_eq!(wrong(|argument| !takes_values(argument) || required(argument) || said(argument)), Vec::<String>::new());
}

/// The addresses and the directory that `shingle serve --help` names are those that are taken.
#[test]
fn the_defaults_of_the_server_are_those_that_its_help_names() {
    let config = shingle_server::Config::default();
    let serve = Cli::command().find_subcommand("serve").cloned().unwrap();
    let help = |id: &str| help_of(serve.get_arguments().find(|argument| argument.get_id() == id).unwrap());
    assert!(help("listen").contains(&config.listen.to_string()), "{}", help("listen"));
    assert!(help("data").contains(&format!("./{}", config.data.display())), "{}", help("data"));
    assert!(config.admin.is_none() && help("admin").contains("or none"), "{}", help("admin"));
}
