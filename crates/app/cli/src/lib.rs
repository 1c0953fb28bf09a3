//! The `shingle` command: arguments in, words and exit statuses out. Other crates do the work.
//!
//! Two programs are made of it. `shingle` is the command; `shingle-lab` does what is asked of `shingle lab` and `shingle skylight`, so that a server's program
//! has no library for plots, no fonts and no recordings in it.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod array;
mod bench;
mod blue;
mod chunk;
mod confirm;
mod device;
mod drive;
mod examples;
mod failure;
mod files;
mod findings;
mod generate;
mod identity;
mod kernel;
mod lab;
mod named;
mod object;
mod scratch;
mod serve;
mod skylight;
mod status;
mod transfer;
#[cfg(test)]
mod usage_tests;
mod volume;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::{Failure, Outcome};
use crate::identity::BUILD;

/// Storage on shingled drives: chunks, objects and S3, straight on zones.
#[derive(Parser)]
#[command(name = "shingle", version, long_version = BUILD, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the S3 server.
    Serve(serve::Serve),
    /// Show the state of a running server.
    Status(status::Status),
    /// Make and look after drives.
    #[command(subcommand)]
    Drive(drive::Drive),
    /// Work with the chunk store on a drive.
    #[command(subcommand)]
    Chunk(chunk::Chunk),
    /// Keep objects on many drives, so that a lost one costs none of them.
    #[command(subcommand, long_about = array::ABOUT)]
    Array(array::Array),
    /// Work with the objects of a server, also while it is stopped.
    #[command(subcommand)]
    Object(object::Object),
    /// Make disks of zoned drives, for any file system, and serve them over NBD.
    #[command(subcommand, long_about = volume::ABOUT)]
    Volume(volume::Volume),
    /// Keep the files of databases on zoned drives.
    #[command(subcommand, long_about = files::ABOUT)]
    Files(files::Files),
    /// Keep objects on one zoned drive, with transactions below.
    #[command(subcommand, long_about = blue::ABOUT)]
    Blue(blue::Blue),
    /// Run the papers' experiments on modelled drives.
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Tell what a drive is inside, from the times of its commands.
    Skylight(skylight::Skylight),
    /// Measure this machine: figures, each beside its limit.
    Bench(bench::Bench),
    /// Make man pages and completions, for packages.
    #[command(hide = true)]
    Generate(generate::Generate),
}

fn parsed() -> Command {
    let matches = examples::add(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command
}

/// The program `shingle`.
pub fn shingle() -> ExitCode {
    ended(match parsed() {
        Command::Serve(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Drive(command) => command.run(),
        Command::Chunk(command) => command.run(),
        Command::Array(command) => command.run(),
        Command::Object(command) => command.run(),
        Command::Volume(command) => command.run(),
        Command::Files(command) => command.run(),
        Command::Blue(command) => command.run(),
        Command::Lab(_) | Command::Skylight(_) => lab::program::hand_over(),
        Command::Bench(command) => command.run(),
        Command::Generate(command) => command.run(Cli::command()),
    })
}

/// The program `shingle-lab`: `shingle lab` and `shingle skylight`, called as these, and nothing else.
pub fn shingle_lab() -> ExitCode {
    ended(match parsed() {
        Command::Lab(command) => command.run(),
        Command::Skylight(command) => command.run(),
        _ => Err(Failure::new("this program is a part of `shingle`: call `shingle lab` or `shingle skylight`")),
    })
}

fn ended(result: Outcome) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, status }) => {
            if !message.is_empty() {
                note!("shingle: {message}");
            }
            ExitCode::from(status)
        }
    }
}
