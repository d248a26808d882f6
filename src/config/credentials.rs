//! Addresses and what is secret about them: URLs, password files, the token.
//!
//! Files are read once, here. A path is relative to the working directory, and a file that others
//! may read is accepted: that is how Kubernetes mounts secrets. No problem repeats any content.

use super::check::Check;
use super::schema::{self, Nodes};
use super::{Secret, Url, address};

/// The one address of Redis, with its password.
pub(super) fn redis(check: &mut Check, raw: &schema::Redis) -> Option<Url> {
    let keys = ["redis.url", "redis.url_file", "redis.password_file"];
    let password = optional(&raw.password_file).map(|path| secret(check, keys[2], path));
    let is_named = !raw.url.is_empty();
    let (key, lines) = lines(check, [keys[0], keys[1]], is_named, &raw.url_file, || {
        optional(&raw.url).map(|url| vec![url.to_owned()]).unwrap_or_default()
    })?;
    let [line] = lines.as_slice() else {
        let says = match lines.len() {
            0 if key == keys[0] => {
                "must be named; write \"redis://127.0.0.1:6379\", or the path of a file that \
                 holds it as redis.url_file, or a directory as store.path to do without Redis"
            }
            0 => "holds no URL",
            _ => "holds several URLs; one Redis is used",
        };
        check.refuse(key, says);
        return None;
    };
    let url = address::redis(line).map_err(|says| check.refuse(key, says)).ok()?;
    match password {
        Some(password) => Some(url.with_password(&password?)),
        None => Some(url),
    }
}

/// The addresses of RabbitMQ, with their password, in the order given.
pub(super) fn amqp(check: &mut Check, raw: &schema::Amqp) -> Option<Vec<Url>> {
    let keys = ["amqp.url", "amqp.url_file", "amqp.password_file"];
    let password = optional(&raw.password_file).map(|path| secret(check, keys[2], path));
    // The default has to give way to a file without being emptied by hand.
    let is_default = raw.url == schema::Amqp::default().url;
    let is_named = !is_default && raw.url != Nodes::One(String::new());
    let (key, lines) =
        lines(check, [keys[0], keys[1]], is_named, &raw.url_file, || match &raw.url {
            Nodes::One(text) => address::split(text),
            Nodes::Many(nodes) => nodes.clone(),
        })?;
    if lines.is_empty() {
        check.refuse(key, "names no node; write \"amqp://user@127.0.0.1:5672/%2f\"");
        return None;
    }
    let parse = |(at, line): (usize, &String)| {
        // The value is not shown, so the number has to tell which one is meant.
        let which = if lines.len() > 1 { format!("URL {} ", at + 1) } else { String::new() };
        let refuse = |says| check.refuse(key, format!("{which}{says}"));
        address::amqp(line).map_err(refuse).ok()
    };
    let urls: Vec<Option<Url>> = lines.iter().enumerate().map(parse).collect();
    let urls = urls.into_iter().collect::<Option<Vec<_>>>()?;
    let Some(password) = password else {
        return Some(urls);
    };
    if urls.iter().any(|url| url.user().is_empty()) {
        let says =
            "needs a user in every URL of amqp.url; write \"amqp://user@127.0.0.1:5672/%2f\"";
        check.refuse(keys[2], says);
        return None;
    }
    let password = password?;
    Some(urls.into_iter().map(|url| url.with_password(&password)).collect())
}

/// A token: one line of visible ASCII, because it travels in an HTTP header.
pub(super) fn token(check: &mut Check, key: &str, path: &str) -> Option<Secret> {
    let text = secret(check, key, path)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        check.refuse(key, "must hold one line of visible ASCII without blanks");
        return None;
    }
    Some(Secret::new(text))
}

/// The content of a file without the line end that every editor adds.
pub(super) fn secret(check: &mut Check, key: &str, path: &str) -> Option<String> {
    let text = read(check, key, path)?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        check.refuse(key, "names an empty file");
        return None;
    }
    Some(text.to_owned())
}

fn read(check: &mut Check, key: &str, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| check.refuse(key, format!("cannot be read: {error}"))).ok()
}

/// The URLs that are in force, and the key they were given under.
fn lines(
    check: &mut Check,
    keys: [&'static str; 2],
    is_named: bool,
    file: &str,
    named: impl FnOnce() -> Vec<String>,
) -> Option<(&'static str, Vec<String>)> {
    let [url, url_file] = keys;
    if check.is_broken(url) || check.is_broken(url_file) {
        return None;
    }
    let Some(path) = optional(file) else {
        return Some((url, named()));
    };
    if is_named {
        check.refuse(url_file, format!("{url} is given too; remove one of the two"));
        return None;
    }
    let text = read(check, url_file, path)?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Some((url_file, lines.map(str::to_owned).collect()))
}

fn optional(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
