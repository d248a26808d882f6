//! The sub-commands that talk to a running xdelay: look, and steer.
//!
//! They are the admin API in words. Tables for people, `--json` for scripts: what the API answered,
//! one document.

mod api;
mod bulk;
mod listing;
mod steps;
mod table;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::api::Api;

/// Where the running xdelay is, and what to show.
#[derive(Args)]
pub(super) struct Connection {
    /// Its admin API
    #[arg(
        long,
        value_name = "URL",
        global = true,
        env = "XDELAY_ADMIN_URL",
        default_value = "http://127.0.0.1:7380"
    )]
    admin: String,
    /// A file that holds the token, where one is needed
    #[arg(long, value_name = "FILE", global = true, env = "XDELAY_ADMIN__TOKEN_FILE")]
    token_file: Option<std::path::PathBuf>,
    /// What the API answers, for scripts
    #[arg(long, global = true)]
    json: bool,
}

/// One message, by its uid or by its producer's id.
#[derive(Args)]
pub(super) struct Message {
    /// The uid; with --destination the producer's own id
    id: String,
    #[command(flatten)]
    of: Of,
}

/// Which destination.
#[derive(Args)]
pub(super) struct Of {
    /// The exchange or topic
    #[arg(long, short)]
    destination: Option<String>,
    /// amqp or kafka, where both have a destination of that name
    #[arg(long)]
    broker: Option<String>,
}

/// Which messages; with --all instead of one name.
#[derive(Args)]
pub(super) struct Filter {
    /// parked, leased or dead [default: parked]
    #[arg(long)]
    state: Option<String>,
    /// What the producer's id begins with
    #[arg(long, value_name = "PREFIX")]
    id_prefix: Option<String>,
    /// The routing key or record key
    #[arg(long)]
    key: Option<String>,
    /// Due at this instant or later: RFC 3339 or Unix milliseconds
    #[arg(long, value_name = "INSTANT", value_parser = steps::instant)]
    due_from: Option<u64>,
    /// Due before this instant: RFC 3339 or Unix milliseconds
    #[arg(long, value_name = "INSTANT", value_parser = steps::instant)]
    due_to: Option<u64>,
}

impl Filter {
    fn is_given(&self) -> bool {
        let Self { state, id_prefix, key, due_from, due_to } = self;
        [state, id_prefix, key].iter().any(|it| it.is_some()) || due_from.or(*due_to).is_some()
    }
}

/// When they are due from now on.
#[derive(Args)]
pub(super) struct NewDue {
    /// From now, such as 90s or 2h
    #[arg(long = "in", value_name = "DURATION", value_parser = steps::duration)]
    after: Option<u64>,
    /// At this instant: RFC 3339 or Unix milliseconds
    #[arg(long, value_name = "INSTANT", conflicts_with = "after", value_parser = steps::instant)]
    at: Option<u64>,
}

/// One message, or all that match.
#[derive(Args)]
pub(super) struct Whom {
    /// The uid; with --destination the producer's own id
    #[arg(conflicts_with = "all")]
    id: Option<String>,
    #[command(flatten)]
    of: Of,
    /// All messages that match the filter
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// With --all: only count them
    #[arg(long, requires = "all")]
    dry_run: bool,
    /// With --all: do not ask
    #[arg(long, short, requires = "all")]
    yes: bool,
}

/// What to do.
#[derive(Subcommand)]
pub(super) enum Order {
    /// List messages, the soonest first
    Ls {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        filter: Filter,
        /// Most messages
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a message with all its facts
    Show(Message),
    /// Cancel: it is not delivered, unless a replica is just doing that
    Cancel(Whom),
    /// Give parked messages another due
    Reschedule {
        #[command(flatten)]
        whom: Whom,
        #[command(flatten)]
        due: NewDue,
    },
    /// Release parked messages now
    Release(Whom),
    /// Park dead messages again, with all their attempts before them; with no new due they keep theirs
    Revive {
        #[command(flatten)]
        whom: Whom,
        #[command(flatten)]
        due: NewDue,
    },
    /// Keep parked messages as dead
    Bury {
        #[command(flatten)]
        whom: Whom,
        /// Why, for whoever finds them
        #[arg(long)]
        reason: Option<String>,
    },
    /// Counts, rates, lateness and health
    Stats {
        /// Again every two seconds, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// The last released, cancelled and buried messages of this replica
    History {
        /// Of this exchange or topic
        #[arg(long, short)]
        destination: Option<String>,
        /// released, cancelled, buried, rescheduled or revived
        #[arg(long)]
        what: Option<String>,
        /// Most events
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Hold back what is due for a destination, on every replica
    Pause {
        /// The exchange or topic
        destination: String,
        /// amqp or kafka, where both have a destination of that name
        #[arg(long)]
        broker: Option<String>,
    },
    /// Let a paused destination go on
    Resume {
        /// The exchange or topic
        destination: String,
        /// amqp or kafka, where both have a destination of that name
        #[arg(long)]
        broker: Option<String>,
    },
}

/// Carries it out.
pub(super) fn run(connection: Connection, order: Order) -> anyhow::Result<ExitCode> {
    let json = connection.json;
    let api = Api::new(connection.admin, connection.token_file.as_deref())?;
    match order {
        Order::Ls { of, filter, limit } => listing::ls(&api, &of, &filter, limit as usize, json),
        Order::Show(message) => listing::show(&api, &message, json),
        Order::Stats { watch: false } => watch::stats(&api, json),
        Order::Stats { watch: true } => watch::stats_again_and_again(&api, json),
        Order::History { destination, what, limit } => {
            listing::history(&api, destination.as_deref(), what.as_deref(), limit, json)
        }
        Order::Pause { destination, broker } => {
            steps::stand(&api, &destination, broker.as_deref(), "pause", json)
        }
        Order::Resume { destination, broker } => {
            steps::stand(&api, &destination, broker.as_deref(), "resume", json)
        }
        step => {
            let (name, whom, body) = steps::of(step)?;
            if whom.id.is_some() && whom.filter.is_given() {
                anyhow::bail!(
                    "one message is named, and a filter given: leave one out, or use --all"
                );
            }
            match &whom.id {
                Some(id) => steps::one(&api, name, id, &whom.of, &body, json),
                None if whom.all => bulk::many(&api, name, &whom, body, json),
                None => anyhow::bail!(
                    "say which: a uid, or a producer's id with --destination; or --all with a filter"
                ),
            }
        }
    }
}
