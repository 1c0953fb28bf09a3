//! SC-PARSE-1 and SC-PARSE-2: real bytes, mutated, make no parser panic and none take memory out of proportion.
//!
//! `make fuzz-parsers` gives each parser ten million. `SHINGLE_INPUTS` is how many, or which (`5000000..10000000`);
//! `SHINGLE_PARSER` is which parsers (with commas between), and `SHINGLE_INPUT` the number of the only input, to replay a
//! failure. One test, since memory is counted for the process.

mod blue;
mod nbd;
mod requests;
mod specimens;
mod traces;

use std::alloc::System;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use shingle_scenarios::mutate::{mutated, seal};
use shingle_scenarios::parsers::{ALL, Parser};
use shingle_sim::Random;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Inputs for each parser, unless told otherwise.
const INPUTS: u64 = 3000;

/// Inputs for one parser before it is the next one's turn.
const TURN: u64 = 100_000;

/// Allocations that parsing may make in all, for each byte of the input.
const BYTES_PER_BYTE: usize = 128;

/// And whatever the input: an index in memory, the state of a request.
const BYTES_AT_LEAST: usize = 4 << 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// The numbers of the inputs.
fn inputs() -> Range<u64> {
    let text = std::env::var("SHINGLE_INPUTS").unwrap_or_else(|_| INPUTS.to_string());
    let (first, end) = text.split_once("..").unwrap_or(("0", &text));
    let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("SHINGLE_INPUTS: {text} is no number"));
    parse(first)..parse(end)
}

/// Gives one parser its inputs; what it allocated at most for one.
fn run(parser: Parser, specimens: &[Vec<u8>], numbers: Range<u64>) -> usize {
    let (name, parse) = parser;
    let mut most = 0;
    for input in numbers {
        let random = &mut Random::new(input);
        let mut bytes = mutated(random, specimens);
        if random.chance(0.8) {
            seal(name, &mut bytes);
        }
        let region = Region::new(ALLOCATOR);
        let outcome = catch_unwind(AssertUnwindSafe(|| parse(&bytes)));
        let allocated = region.change().bytes_allocated;
        let context = || {
            let command = "cargo test --release -p shingle-scenarios --test mutated";
            let start = bytes[..bytes.len().min(2000)].escape_ascii().to_string();
            format!("replay: SHINGLE_PARSER={name} SHINGLE_INPUT={input} {command}; {} bytes: {start}", bytes.len())
        };
        assert!(outcome.is_ok(), "{name} panicked; {}", context());
        let limit = BYTES_AT_LEAST + bytes.len() * BYTES_PER_BYTE;
        assert!(allocated <= limit, "{name} allocated {allocated} bytes; {}", context());
        most = most.max(allocated);
    }
    most
}

#[test]
fn mutated_bytes_make_no_parser_panic_or_take_memory() {
    let written = specimens::all();
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let of_clients: [(Parser, Vec<Vec<u8>>); 6] = [
        (("s3_framing", shingle_s3_gateway::parse::framing), texts(&requests::FRAMED)),
        (("configuration", requests::configuration), texts(&requests::CONFIGURATIONS)),
        (("s3_request", requests::unsigned), texts(&requests::SPECIMENS)),
        (("s3_signed_request", requests::signed), texts(&requests::SPECIMENS)),
        (("nbd_handshake", shingle_nbd_server::parse::handshake), nbd::handshakes()),
        (("nbd_requests", shingle_nbd_server::parse::requests), nbd::requests()),
    ];
    let on_disk = ALL.map(|parser: Parser| {
        let whole: Vec<Vec<u8>> = written.iter().filter(|bytes| (parser.1)(bytes)).take(200).cloned().collect();
        (parser, whole)
    });
    let of_traces = shingle_lab::trace::parse::ALL.map(|parser: Parser| {
        let whole: Vec<Vec<u8>> = traces::specimens().into_iter().filter(|bytes| (parser.1)(bytes)).collect();
        (parser, whole)
    });
    let only = std::env::var("SHINGLE_PARSER").ok();
    let inputs = inputs();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only.split(',').any(|one| one == name));
    let parsers: Vec<_> =
        on_disk.into_iter().chain(of_clients).chain(of_traces).filter(|(parser, _)| wanted(parser.0)).collect();
    for ((name, parse), specimens) in &parsers {
        assert!(specimens.iter().any(|bytes| parse(bytes)), "{name}: nothing to mutate was taken for whole");
    }
    if let Some(input) = number("SHINGLE_INPUT") {
        for (parser, specimens) in &parsers {
            run(*parser, specimens, input..input + 1);
        }
        return;
    }
    // In turns, so that what is cut short has tried all of them.
    let mut most = vec![0; parsers.len()];
    for first in inputs.clone().step_by(TURN as usize) {
        let end = inputs.end.min(first + TURN);
        for ((parser, specimens), most) in parsers.iter().zip(&mut most) {
            *most = run(*parser, specimens, first..end).max(*most);
        }
        println!("inputs {} to {end} for each parser", inputs.start);
    }
    for (((name, _), specimens), most) in parsers.iter().zip(most) {
        println!("{name}: {} specimens, inputs {inputs:?}, at most {most} bytes for one", specimens.len());
    }
}
