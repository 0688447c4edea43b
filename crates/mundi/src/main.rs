//! The `mundi` program.

mod cli;

#[global_allocator]
static ALLOCATOR: mundi_heap::Heap = mundi_heap::Heap;

fn main() -> std::process::ExitCode {
    cli::run()
}
