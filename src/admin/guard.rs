//! Keeps other web sites out, also on loopback, and tells browsers to be strict.
//!
//! A page of another site can send requests to `127.0.0.1` from its visitor's browser, and with DNS
//! rebinding it can even read the answers. So on loopback the `Host` must be a loopback name, and
//! what changes something must come from our own page or from no page at all.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State as Extract};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::State;
use super::problem::Problem;

/// Nothing but our own files, no frames, no forms elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const STRICT: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

pub(super) async fn keep_strangers_out(
    Extract(state): Extract<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match stranger(&state, &request) {
        Some(why) => Problem::new(StatusCode::FORBIDDEN, "origin", why).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in STRICT {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is refused.
fn stranger(state: &State, request: &Request) -> Option<&'static str> {
    let host = host(request.headers(), request.uri());
    // Every browser names one; who does not is no browser.
    if state.loopback && host.is_some_and(|host| !is_loopback(host)) {
        return Some("here the Host is localhost or a loopback address");
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let headers = request.headers();
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return Some("another web site may not change anything here");
    }
    let origin = headers.get(ORIGIN)?;
    let ours = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .is_some_and(|(_, from)| Some(from) == host);
    (!ours).then_some("another web site may not change anything here")
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| uri.authority().map(|authority| authority.as_str()))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_all_its_names() {
        for host in
            ["localhost", "LocalHost:7380", "127.0.0.1", "127.9.9.9:1", "[::1]:7380", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
