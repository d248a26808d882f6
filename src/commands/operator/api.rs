//! Requests to a running xdelay, and its refusals in words.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Method, Request, Response};

use super::table::printable;

/// How long an answer may take: a bulk step works through a thousand messages.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One running xdelay.
pub(super) struct Api {
    agent: Agent,
    base: String,
    token: Option<String>,
}

impl Api {
    pub(super) fn new(base: String, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let token = match token_file.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => {
                let token = std::fs::read_to_string(path)
                    .with_context(|| format!("--token-file {} cannot be read", path.display()))?;
                Some(token.trim().to_owned())
            }
            None => None,
        };
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER_WITHIN))
            .http_status_as_error(false)
            // A proxy meant for the web must not see the token.
            .proxy(None)
            .build();
        Ok(Self { agent: config.into(), base: base.trim_end_matches('/').to_owned(), token })
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Some(body))
    }

    pub(super) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::DELETE, path, None)
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                body.to_string()
            }
            None => String::new(),
        };
        let request =
            request.body(body).context("--admin is not a URL such as http://127.0.0.1:7380")?;
        let response = self.agent.run(request).map_err(|error| {
            anyhow!("no xdelay answers at {}: {error}; name it with --admin", self.base)
        })?;
        read(response)
    }
}

/// The answer, or the problem in its own words.
fn read(mut response: Response<ureq::Body>) -> anyhow::Result<Value> {
    let text = response.body_mut().read_to_string().context("the answer broke off")?;
    let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if response.status().is_success() && json.is_object() {
        return Ok(json);
    }
    match json["detail"].as_str() {
        Some(detail) => bail!("{}", printable(detail)),
        None => bail!("this is no xdelay, or another version: it answered {}", response.status()),
    }
}

/// A query string; what is not given is left out.
pub(super) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Percent-encodes all but letters, digits and `-._~`.
pub(super) fn escape(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_url() {
        assert_eq!(escape("order/17 ü"), "order%2F17%20%C3%BC");
        let pairs = [("a", Some("1&2".to_owned())), ("b", None)];
        assert_eq!(query(&pairs), "?a=1%262");
        assert_eq!(query(&[("b", None)]), "");
    }
}
