//! Values that have the right type and yet cannot work, alone or together.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use super::check::Check;
use super::error::Problem;
use super::origin::Layers;
use super::read::Broken;
use super::schema::{self, Raw};
use super::{
    Admin, Amqp, Config, Delay, Durability, Front, Intake, OnInvalid, OnUnroutable, Redis, Release,
    Retry, Secret, Store, credentials, duration, exchanges, kafka, proxy,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A hundred years: beyond it a due in milliseconds is more likely a slip than a plan.
const MAX_DELAY: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
/// A release must end within half a lease, and a broker may need a second to confirm.
const MIN_LEASE: Duration = Duration::from_secs(2);
/// Smaller, and one ordinary message would fill it.
const MIN_MEMORY: u64 = 1 << 20;
/// Bound of one claim script: Redis serves nobody else while it runs.
const MAX_BATCH: i64 = 500;
const MAX_BUCKETS: i64 = 1024;
/// Where counts end that have no bound of their own.
const MANY: i64 = 1_000_000;

/// Checks everything. `None` if a value was refused; then `problems` says which.
pub(super) fn resolve(
    raw: Raw,
    layers: &Layers,
    broken: Broken,
    problems: &mut Vec<Problem>,
) -> Option<Config> {
    let mut check = Check { layers, broken, problems };
    let store = store(&mut check, &raw);
    let delay = delay(&mut check, &raw.delay);
    let intake = intake(&mut check, &raw.intake);
    let release = release(&mut check, &raw.release);
    let amqp = amqp(&mut check, &raw);
    let proxy = proxy::check(&mut check, &raw.proxy);
    let kafka = kafka::check(&mut check, &raw.kafka);
    let admin = admin(&mut check, &raw.admin);
    Some(Config {
        store: store?,
        delay: delay?,
        intake: intake?,
        release: release?,
        amqp: amqp?,
        proxy: proxy?,
        kafka: kafka?,
        admin: admin?,
    })
}

/// One of the two, never both: nobody could tell where a message lies.
fn store(check: &mut Check, raw: &Raw) -> Option<Store> {
    let path = check.holds("store.path", &raw.store.path, true, "")?;
    if path.is_empty() {
        return redis(check, &raw.redis).map(Store::Redis);
    }
    let named = [("redis.url", &raw.redis.url), ("redis.url_file", &raw.redis.url_file)];
    if let Some((other, _)) = named.into_iter().find(|(_, value)| !value.is_empty()) {
        check.refuse("store.path", format!("{other} is given too; remove one of the two"));
        return None;
    }
    Some(Store::Embedded(path.into()))
}

fn redis(check: &mut Check, raw: &schema::Redis) -> Option<Redis> {
    let words = [
        ("local", Durability::Local),
        ("replicas", Durability::Replicas),
        ("none", Durability::None),
    ];
    let url = credentials::redis(check, raw);
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let named = !raw.namespace.is_empty() && raw.namespace.chars().all(known);
    let says = "must be one or more of A-Z a-z 0-9 . _ -; write \"xdelay\"";
    let namespace = check.holds("redis.namespace", raw.namespace.clone(), named, says);
    let buckets = check.number("redis.buckets", raw.buckets, 1..=MAX_BUCKETS);
    let durability = check.word("redis.durability", &raw.durability, &words);
    let least = i64::from(durability == Some(Durability::Replicas));
    let min_replicas = check.number("redis.min_replicas", raw.min_replicas, least..=MANY);
    Some(Redis {
        url: url?,
        namespace: namespace?,
        buckets: buckets?,
        durability: durability?,
        min_replicas: min_replicas?,
    })
}

fn delay(check: &mut Check, raw: &schema::Delay) -> Option<Delay> {
    let words = [("bury", OnInvalid::Bury), ("forward", OnInvalid::Forward)];
    let max = raw.max.0;
    let possible = max > Duration::ZERO && max <= MAX_DELAY;
    let days = if max > MAX_DELAY { MAX_DELAY } else { 3650 * DAY };
    let says = format!("must be above 0 and at most 36500d; write \"{}\"", duration::Human(days));
    let max = check.holds("delay.max", max, possible, &says);
    let on_invalid = check.word("delay.on_invalid", &raw.on_invalid, &words);
    Some(Delay { max: max?, on_invalid: on_invalid? })
}

fn intake(check: &mut Check, raw: &schema::Intake) -> Option<Intake> {
    let prefetch = check.number("intake.prefetch", raw.prefetch, 1..=i64::from(u16::MAX));
    let bytes = raw.memory.0;
    let says = "must be at least 1MiB; write \"1MiB\"";
    let memory = check.holds("intake.memory", bytes, bytes >= MIN_MEMORY, says);
    Some(Intake { prefetch: prefetch?, memory: memory? })
}

fn release(check: &mut Check, raw: &schema::Release) -> Option<Release> {
    let words = [("retry", OnUnroutable::Retry), ("drop", OnUnroutable::Drop)];
    let batch: Option<usize> = check.number("release.batch", raw.batch, 1..=MAX_BATCH);
    let lease = raw.lease.0;
    let says = "must be at least 2s; write \"2s\"";
    let lease = check.holds("release.lease", lease, lease >= MIN_LEASE, says);
    let max_in_flight: Option<usize> = match batch {
        // With a refused batch there is nothing to compare it with.
        None => check.number("release.max_in_flight", raw.max_in_flight, 1..=MANY),
        Some(_) if raw.max_in_flight < raw.batch => {
            let says = format!("must be at least release.batch; write {}", raw.batch);
            check.holds("release.max_in_flight", 0, false, &says)
        }
        Some(_) => check.number("release.max_in_flight", raw.max_in_flight, raw.batch..=MANY),
    };
    let rate_limit = check.number("release.rate_limit", raw.rate_limit, 0..=MANY);
    let on_unroutable = check.word("release.on_unroutable", &raw.on_unroutable, &words);
    let dead_max = check.number("release.dead_max", raw.dead_max, 0..=MANY);
    let retry = retry(check, &raw.retry);
    Some(Release {
        batch: batch?,
        lease: lease?,
        max_in_flight: max_in_flight?,
        rate_limit: NonZeroU32::new(rate_limit?),
        on_unroutable: on_unroutable?,
        dead_max: NonZeroU32::new(dead_max?),
        retry: retry?,
    })
}

fn retry(check: &mut Check, raw: &schema::Retry) -> Option<Retry> {
    let (first, max) = (raw.first.0, raw.max.0);
    let says = "must be above 0; write \"1s\"";
    let first = check.holds("release.retry.first", first, first > Duration::ZERO, says);
    let ordered = first.is_none_or(|first| first <= max) || check.is_broken("release.retry.max");
    let says = format!("must be at most release.retry.max; write \"{}\"", raw.max);
    let first = first.and_then(|first| check.holds("release.retry.first", first, ordered, &says));
    let max = check.holds("release.retry.max", max, true, "");
    let attempts = check.number("release.retry.attempts", raw.attempts, 1..=MANY);
    Some(Retry { first: first?, max: max?, attempts: attempts? })
}

fn amqp(check: &mut Check, all: &Raw) -> Option<Amqp> {
    let words = [("headers", Front::Headers), ("topic", Front::Topic)];
    let raw = &all.amqp;
    let nodes = credentials::amqp(check, raw);
    // The proxy finds out by itself what is to be captured.
    let served = !all.kafka.topics.is_empty() || !all.proxy.listen.is_empty();
    let needed = !served && !check.is_broken("kafka.topics");
    let exchanges = exchanges::check(check, &raw.exchanges, needed);
    let declare = check.holds("amqp.declare", raw.declare, true, "");
    let front = check.word("amqp.front", &raw.front, &words);
    Some(Amqp { nodes: nodes?, exchanges: exchanges?, declare: declare?, front: front? })
}

fn admin(check: &mut Check, raw: &schema::Admin) -> Option<Admin> {
    let listen = raw.listen.parse::<SocketAddr>();
    if listen.is_err() {
        let local = raw.listen.strip_prefix("localhost").unwrap_or(&raw.listen);
        let near = format!("127.0.0.1{local}");
        let near = near.parse::<SocketAddr>().map_or("127.0.0.1:7380".to_owned(), |_| near);
        check.refuse("admin.listen", format!("must be an IP address and a port; write \"{near}\""));
    }
    let given = !raw.token_file.is_empty() || check.is_broken("admin.token_file");
    let token = (!raw.token_file.is_empty())
        .then(|| credentials::token(check, "admin.token_file", &raw.token_file));
    let open = listen.as_ref().is_ok_and(|listen| !listen.ip().to_canonical().is_loopback());
    if open && !given {
        let says = "can be reached by others and needs admin.token_file; write \
                    admin.token_file = \"<path>\" or listen on \"127.0.0.1:7380\"";
        check.refuse("admin.listen", says);
    }
    let token: Option<Secret> = match token {
        Some(token) => Some(token?),
        None => None,
    };
    let read_token = match raw.read_token_file.is_empty() {
        true => None,
        false if token.is_none() && !given => {
            let says = "is of use only beside admin.token_file, without which everybody may write";
            check.refuse("admin.read_token_file", says);
            return None;
        }
        false => Some(credentials::token(check, "admin.read_token_file", &raw.read_token_file)?),
    };
    let previews = check.holds("admin.previews", raw.previews, true, "")?;
    Some(Admin { listen: listen.ok()?, token, read_token, previews })
}
