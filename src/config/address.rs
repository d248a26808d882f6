//! What makes an address one of Redis or of RabbitMQ. Errors say what to write and repeat nothing
//! of the address.

use super::{Url, tls, unknown};

const REDIS_SCHEMES: [&str; 8] = [
    "redis",
    "rediss",
    "unix",
    "redis+unix",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];
const AMQP_SCHEMES: [&str; 2] = ["amqp", "amqps"];

/// One server of Redis, sentinels with the name of a master, or nodes of a cluster.
pub(super) fn redis(text: &str) -> Result<Url, String> {
    check_scheme(text, &REDIS_SCHEMES)?;
    let url = Url::parse(text)?;
    redis_path(&url)?;
    tls::check(&url, "rediss")?;
    Ok(url)
}

/// One node of RabbitMQ.
pub(super) fn amqp(text: &str) -> Result<Url, String> {
    check_scheme(text, &AMQP_SCHEMES)?;
    let url = Url::parse(text)?;
    amqp_path(&url)?;
    tls::check(&url, "amqps")?;
    Ok(url)
}

/// Splits `amqp://a,amqp://b`, which is how a variable names several nodes.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let starts =
            part.trim_start().starts_with("amqp://") || part.trim_start().starts_with("amqps://");
        match nodes.last_mut() {
            Some(node) if !starts => node.push_str(&format!(",{part}")),
            _ => nodes.push(part.to_owned()),
        }
    }
    nodes
}

fn check_scheme(text: &str, known: &[&str]) -> Result<(), String> {
    let likely = known.first().copied().unwrap_or_default();
    let Some((scheme, _)) = text.trim().split_once("://") else {
        return Err(format!("is not a URL; write {likely}://127.0.0.1"));
    };
    let scheme = scheme.to_ascii_lowercase();
    if known.contains(&scheme.as_str()) {
        return Ok(());
    }
    let near = unknown::nearest(&scheme, known.iter().copied()).unwrap_or(likely);
    let known: Vec<_> = known.iter().map(|scheme| format!("{scheme}://")).collect();
    Err(format!("must begin with {}; write {near}://", known.join(" or ")))
}

fn redis_path(url: &Url) -> Result<(), &'static str> {
    if url.scheme().contains("unix") {
        let is_path = url.host().is_empty() && url.path().len() > 1;
        return is_path.then_some(()).ok_or("names no socket; write unix:///run/redis.sock");
    }
    let mut database = url.path().trim_start_matches('/');
    if !url.names_every_host() {
        return Err("names no host; write redis://127.0.0.1:6379");
    }
    if url.scheme().ends_with("-cluster") {
        let is_first = database.is_empty() || database == "0";
        return is_first.then_some(()).ok_or(
            "names a database, and a cluster has one alone; write redis-cluster://host1,host2",
        );
    }
    if url.scheme().ends_with("-sentinel") {
        let (master, behind) = database.split_once('/').unwrap_or((database, ""));
        if master.is_empty() {
            return Err("names no master; write redis-sentinel://host1,host2/mymaster");
        }
        database = behind;
    }
    if !database.is_empty() && database.parse::<u16>().is_err() {
        return Err("has a path that is no database number; write /0");
    }
    Ok(())
}

fn amqp_path(url: &Url) -> Result<(), &'static str> {
    if url.host().is_empty() {
        return Err("names no host; write amqp://user@127.0.0.1:5672/%2f");
    }
    if url.host().starts_with('[') {
        // The AMQP library takes no such address and would connect to localhost without a word.
        return Err("names an IPv6 address, which cannot be used here; write a host name");
    }
    if url.path() == "/" {
        return Err("names the empty vhost; write /%2f for the vhost `/`");
    }
    Ok(())
}
