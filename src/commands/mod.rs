//! The sub-commands, one file each.

mod check;
mod convert_definitions;
mod manual;
mod operator;
mod rebucket;
mod run;
mod topology;
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xdelay::config::{self, Config, Sources};

/// Delayed messages for the RabbitMQ or Kafka you have: publish with the header x-delay, and xdelay
/// holds the message back and releases it to its exchange or topic when it is due.
#[derive(Parser)]
#[command(name = "xdelay", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: operator::Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run until SIGTERM or Ctrl-C, which stop it gracefully
    Run {
        #[command(flatten)]
        settings: Settings,
        /// Where to read Kafka on when the store has lost how far it was read: all that the topics
        /// still have (may deliver twice), or where the group is (what was parked is lost)
        #[arg(long, value_enum)]
        from: Option<From>,
    },
    /// Look at configuration, connections, rights, topology and durability; fails when one is bad
    Check(Settings),
    /// Print what must stand in RabbitMQ or Kafka, for those who declare it themselves
    Topology {
        #[command(flatten)]
        settings: Settings,
        /// As commands for rabbitmqadmin, or as a definitions file to import
        #[arg(long, value_enum, default_value_t)]
        format: topology::Format,
    },
    #[command(flatten)]
    Order(operator::Order),
    /// Write all that is parked or dead to stdout, to move it; stop xdelay before
    Export(Settings),
    /// Park what an export wrote, from stdin
    Import(Settings),
    /// Spread what is parked over as many buckets as redis.buckets says; stop every xdelay before
    Rebucket(Settings),
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Make an export of a RabbitMQ with the delayed-message plugin importable into one without it
    ConvertDefinitions {
        /// What `rabbitmqctl export_definitions` wrote; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where to write what to import [default: standard output]; what was changed is reported
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// `--from`
#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// All that the topics still have
    Topic,
    /// Where the group is
    Group,
}

impl From {
    fn meant(self) -> config::From {
        match self {
            Self::Topic => config::From::Topic,
            Self::Group => config::From::Group,
        }
    }
}

/// Where the configuration comes from, besides the environment (XDELAY_<SECTION>__<KEY>).
#[derive(Args)]
struct Settings {
    /// The configuration file [default: config/xdelay.toml, where present]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, such as --set release.lease=30s; wins over file and environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = config::assignment)]
    set: Vec<(String, String)>,
}

impl Settings {
    fn load(self) -> anyhow::Result<Config> {
        Ok(Config::load(Sources::with_process_env(self.config, self.set))?)
    }
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run { settings, from } => {
                let mut config = settings.load()?;
                config.kafka.from = from.map(From::meant);
                run::run(config)
            }
            Command::Check(settings) => check::run(settings.load()?),
            Command::Order(order) => operator::run(self.connection, order),
            Command::Export(settings) => transfer::export(&settings.load()?),
            Command::Import(settings) => transfer::import(&settings.load()?),
            Command::Rebucket(settings) => rebucket::run(&settings.load()?),
            Command::Completions { shell } => {
                manual::completions(shell);
                Ok(ExitCode::SUCCESS)
            }
            Command::Man => manual::page(),
            Command::ConvertDefinitions { file, output } => convert_definitions::run(&file, output),
            Command::Topology { settings, format } => {
                topology::run(&settings.load()?, format);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
