//! The `shingle` command.
fn main() {}
