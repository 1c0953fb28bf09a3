//! The server without the `shingle` command: `cargo run -p shingle-server --example serve -- [CONFIG.toml]`.

use std::path::PathBuf;
use std::process::ExitCode;

use shingle_server::{Config, run};

fn main() -> ExitCode {
    let config = match std::env::args_os().nth(1) {
        Some(path) => Config::load(&PathBuf::from(path)),
        None => Ok(Config::default()),
    };
    match config.and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
