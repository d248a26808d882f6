//! Addresses of Redis and RabbitMQ, which carry passwords and yet belong in every log line.

use std::fmt;

use serde::{Serialize, Serializer};

use super::secret::REDACTED;

/// Query parameters that are shown; the value of any other might be a password.
const SHOWN: [&str; 10] = [
    "auth_mechanism",
    "cacertfile",
    "certfile",
    "channel_max",
    "connection_timeout",
    "db",
    "frame_max",
    "heartbeat",
    "keyfile",
    "protocol",
];

/// A checked address. Printed without user, password and any query value that could be one;
/// [`expose`](Url::expose) gives the whole. All parts are kept percent-encoded, as written.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    user: String,
    password: Option<String>,
    /// With their ports. Sentinels and nodes of a cluster may be several.
    hosts: Vec<(String, Option<u16>)>,
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

impl Url {
    /// Takes an address apart. The error says what to write and never repeats the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("holds blanks; write them percent-encoded, %20".to_owned());
        }
        let (scheme, rest) = text.split_once("://").ok_or("is not a URL: it has no ://")?;
        let (rest, fragment) = cut(rest, '#');
        let (rest, query) = cut(rest, '?');
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let behind = [path, query.unwrap_or(""), fragment.unwrap_or("")];
        // Otherwise the tail of a password such as `a/b@c` would pass for a path, and be printed.
        if !is_socket(scheme) && behind.iter().any(|part| part.contains('@')) {
            return Err("has an @ behind the host: in a user name or password write @ / ? # \
                        as %40 %2F %3F %23"
                .to_owned());
        }
        let (credentials, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = cut(credentials, ':');
        let mut places = vec![place];
        if names_several(scheme) {
            places = place.split(',').collect();
        }
        let places = places.into_iter().map(split_port).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: user.to_owned(),
            password: password.map(str::to_owned),
            hosts: places.into_iter().map(|(host, port)| (host.to_owned(), port)).collect(),
            path: path.to_owned(),
            query: query.map(str::to_owned),
            fragment: fragment.map(str::to_owned),
        })
    }

    /// The scheme in lower case, without `://`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The whole address with its password, for connecting. Never pass it to a log or an error.
    #[must_use]
    pub fn expose(&self) -> String {
        let password = self.password.as_ref().map(|text| format!(":{text}")).unwrap_or_default();
        let at = if self.user.is_empty() && password.is_empty() { "" } else { "@" };
        let credentials = format!("{}{password}{at}", self.user);
        self.write(&credentials, self.query.as_deref(), self.fragment.as_deref())
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn host(&self) -> &str {
        self.hosts.first().map_or("", |(host, _)| host)
    }

    /// Whether each of its hosts has a name.
    pub(super) fn names_every_host(&self) -> bool {
        self.hosts.iter().all(|(host, _)| !host.is_empty())
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Puts the content of a password file in place of any password that was written.
    pub(super) fn with_password(mut self, password: &str) -> Self {
        let encoded = percent_encode(password);
        if is_socket(&self.scheme) {
            let others = self.query.iter().flat_map(|query| query.split('&'));
            let others = others.filter(|pair| !pair.starts_with("pass=") && !pair.is_empty());
            let own = format!("pass={encoded}");
            self.query = Some(others.chain([own.as_str()]).collect::<Vec<_>>().join("&"));
        } else {
            self.password = Some(encoded);
        }
        self
    }

    fn write(&self, credentials: &str, query: Option<&str>, fragment: Option<&str>) -> String {
        let hosts = self.hosts.iter().map(|(host, port)| match port {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let mut text = format!("{}://{credentials}{hosts}", self.scheme);
        text.push_str(&self.path);
        for (mark, part) in [('?', query), ('#', fragment)] {
            if let Some(part) = part {
                text.push(mark);
                text.push_str(part);
            }
        }
        text
    }
}

/// Whether the address may name several servers: those of a cluster, or sentinels.
fn names_several(scheme: &str) -> bool {
    let kind = scheme.split_once('-').map(|(_, kind)| kind.to_ascii_lowercase());
    matches!(kind.as_deref(), Some("cluster" | "sentinel"))
}

/// Whether the address is a file: then user and password, if any, stand in the query.
fn is_socket(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("unix") || scheme.eq_ignore_ascii_case("redis+unix")
}

fn cut(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn split_port(place: &str) -> Result<(&str, Option<u16>), String> {
    let bracket = place.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match place[bracket..].rfind(':') {
        Some(at) => (&place[..bracket + at], Some(&place[bracket + at + 1..])),
        None => (place, None),
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.contains(',') {
        return Err("names several hosts; a URL takes one".to_owned());
    }
    if !address
        .map_or_else(|| host.chars().all(known), |v6| v6.parse::<std::net::Ipv6Addr>().is_ok())
    {
        return Err("has no valid host name".to_owned());
    }
    let port = port.map(str::parse::<u16>).transpose().ok().filter(|port| *port != Some(0));
    Ok((host, port.ok_or("has a port that is not a number from 1 to 65535")?))
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// What stands for each `%` and its two digits; a `%` without them stays.
pub(super) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redact = |pair: &str| match cut(pair, '=') {
            (name, _) if SHOWN.contains(&name) => pair.to_owned(),
            (name, Some(_)) => format!("{name}={REDACTED}"),
            (_, None) => REDACTED.to_owned(),
        };
        let query = self.query.as_ref();
        let query = query.map(|query| query.split('&').map(redact).collect::<Vec<_>>().join("&"));
        let fragment = self.fragment.as_deref();
        let fragment = fragment.map(|text| if text == "insecure" { text } else { REDACTED });
        f.write_str(&self.write("", query.as_deref(), fragment))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
