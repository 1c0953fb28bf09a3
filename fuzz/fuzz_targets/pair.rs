#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    shingle_scenarios::parsers::pair(bytes);
});
