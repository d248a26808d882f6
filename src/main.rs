//! The `xdelay` command.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use clap::Parser;

/// A message is many small allocations, made on one thread and freed on another, which is what
/// this allocator is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whoever reads us may have had enough, as `head` does: then there is nothing to complain about.
#[expect(clippy::disallowed_methods, reason = "nothing runs that could be stopped gracefully")]
fn end_quietly_without_a_reader() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        say(panic);
    }));
}

fn main() -> ExitCode {
    end_quietly_without_a_reader();
    let arguments = commands::Arguments::parse();
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xdelay: {error:#}");
            ExitCode::FAILURE
        }
    }
}
