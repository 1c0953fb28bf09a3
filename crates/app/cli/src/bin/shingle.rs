//! The command.

/// It returns memory to the operating system after a peak: 600 slow readers once made a server large for good.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    shingle_cli::shingle()
}
