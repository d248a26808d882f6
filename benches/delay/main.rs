//! Measures what delaying costs: `cargo bench --bench delay -- --help`, or `make bench`, which
//! starts a fresh Redis and a fresh broker for it. `docs/benchmarks.md` says what the rows mean and how
//! they could mislead.
//!
//! Nothing that is measured shares a process with what measures it. This program starts itself
//! again as `load` (publishes and records) and as `relay` (the yardstick), and it starts xdelay as
//! the binary that users run. They do share the machine, though: with few cores every figure is
//! one of the whole set, brokers and load generator included.
//!
//! | module | holds |
//! | --- | --- |
//! | [`scenarios`], [`backlog`], [`steering`] | what is run in which order |
//! | [`side`], [`stage`] | who stands between producer and consumer; one round |
//! | [`load`], [`plan`], [`recorder`] | the process that publishes, and records what arrives |
//! | [`relay`] | the process that forwards and does nothing else |
//! | [`amqp`], [`kafka`] | each broker's publisher, consumer and relay, and what stands in it |
//! | [`fleet`], [`sidecar`], [`watch`] | the processes of xdelay; when they have parked everything |
//! | [`role`], [`job`] | how these processes are started, and what they are told |
//! | [`machine`], [`clock`], [`figure`] | what is measured on; the time; how figures are written |
//! | [`report`], [`table`], [`plot`], [`document`] | the result, as data, as tables, as pictures, in the docs |

#![allow(clippy::print_stdout, reason = "its output is what it is run for")]

mod amqp;
mod backlog;
mod clock;
mod document;
mod figure;
mod fleet;
mod job;
mod kafka;
mod load;
mod machine;
mod options;
mod plan;
mod plot;
mod recorder;
mod relay;
mod report;
mod role;
mod scenarios;
mod side;
mod sidecar;
mod stage;
mod steering;
mod table;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use options::Options;

fn main() -> anyhow::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some(load::ROLE) => load::main(),
        Some(relay::ROLE) => relay::main(),
        Some(amqp::idlers::ROLE) => amqp::idlers::main(),
        _ => measure(&Options::parse().settled()?),
    }
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    if !options.bench {
        println!("measures only under `cargo bench`, not as a test");
        return Ok(ExitCode::SUCCESS);
    }
    let report = scenarios::run(options)?;
    let tables = table::tables(&report);
    println!("\n{tables}");
    println!("as JSON: {}", report.save()?);
    let flaws = report.flaws();
    if !flaws.is_empty() {
        for flaw in &flaws {
            eprintln!("NOT RIGHT: {flaw}");
        }
        return Ok(ExitCode::FAILURE);
    }
    let below: Vec<String> = report.below_floor().into_iter().chain(report.too_slow()).collect();
    if !below.is_empty() {
        for below in &below {
            eprintln!("TOO SLOW: {below}");
        }
        return Ok(ExitCode::FAILURE);
    }
    if let Some(name) = &options.write {
        let written = document::write(name, &tables, &plot::plots(&report)?, &report.json()?)?;
        println!("written: {}", written.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
