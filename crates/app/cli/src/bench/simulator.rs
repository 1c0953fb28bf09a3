//! Device commands a second through the simulator, on one core, 32 outstanding: executor, device, medium that keeps no
//! payload, and drive model. The limit is the drive model alone, called in a plain loop.

use std::cell::Cell;
use std::rc::Rc;

use shingle_lab::load::commands::{Commands, Ready};

use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::failure::Outcome;

const COMMANDS: u64 = 2_000_000;
const ROUNDS: usize = 3;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let names = ["sequential_write_512kib", "random_read_4kib", "mix"];
    let mut figures = Vec::new();
    for (id, commands) in names.into_iter().zip(Commands::ALL) {
        let (mut rates, mut limits) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let ready = Ready::new(commands, COMMANDS, round as u64 + 1)?;
            let began = Rc::new(Cell::new(limit::now()));
            let started = began.clone();
            ready.run(move || started.set(limit::now()))?;
            rates.push(COMMANDS as f64 / began.get().elapsed().as_secs_f64());
            ready.run_model(|| began.set(limit::now()));
            limits.push(COMMANDS as f64 / began.get().elapsed().as_secs_f64());
        }
        figures.push(Figure { id, unit: "commands/s", value: median(rates), limit: median(limits) });
    }
    Ok(figures)
}
