//! `xdelay topology`

use clap::ValueEnum;
use xdelay::broker::amqp::script;
use xdelay::broker::kafka;
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
    let kafka = kafka::commands(config);
    match format {
        // A definitions file is RabbitMQ's alone.
        _ if config.amqp.exchanges.is_empty() => print!("{kafka}"),
        Format::Commands => print!("{}{kafka}", script::commands(config)),
        Format::Definitions => {
            eprint!("{kafka}");
            println!("{}", script::definitions(config));
            let bindings = script::bindings(config);
            eprintln!("# A definitions file cannot hold these, run them as well:\n{bindings}");
        }
    }
}
