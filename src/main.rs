//! The `xdelay` command.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use clap::Parser;

/// A message is many small allocations, made on one thread and freed on another, which is what
/// this allocator is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xdelay: {error:#}");
            ExitCode::FAILURE
        }
    }
}
