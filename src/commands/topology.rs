//! `xdelay topology`

use clap::ValueEnum;
use xdelay::broker::amqp::script;
use xdelay::config::Config;

/// How the topology is printed.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum Format {
    /// rabbitmqadmin and rabbitmqctl commands
    #[default]
    Commands,
    /// A definitions file for `rabbitmqctl import_definitions`, and commands for what it cannot hold
    Definitions,
}

pub(super) fn run(config: &Config, format: Format) {
    match format {
        Format::Commands => print!("{}", script::commands(config)),
        Format::Definitions => {
            println!("{}", script::definitions(config));
            let bindings = script::bindings(config);
            eprintln!("# A definitions file cannot hold these, run them as well:\n{bindings}");
        }
    }
}
