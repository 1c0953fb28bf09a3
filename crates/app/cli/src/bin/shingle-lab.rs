//! The program that `shingle lab` hands over to.

/// The allocator of `shingle`, whose engines run here as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    shingle_cli::shingle_lab()
}
