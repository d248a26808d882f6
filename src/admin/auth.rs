//! Who may do what: without a token everything on loopback, else by the token a request carries.

use std::sync::Arc;

use axum::extract::{Request, State as Extract};
use axum::http::{HeaderMap, Method, StatusCode, header::AUTHORIZATION};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::State;
use super::problem::Problem;
use crate::config::Secret;

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Look.
    Read,
    /// Look and change.
    Write,
}

/// The role of a request; `None` when it carries no token of ours and needs one.
pub(super) fn role(state: &State, headers: &HeaderMap) -> Option<Role> {
    let Some(token) = &state.token else {
        return Some(Role::Write);
    };
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    // Both are looked at every time, so that time tells nothing.
    let writes = is(token, given);
    let reads = state.read_token.as_ref().is_some_and(|token| is(token, given));
    match (writes, reads) {
        (true, _) => Some(Role::Write),
        (false, true) => Some(Role::Read),
        (false, false) => None,
    }
}

fn is(token: &Secret, given: &[u8]) -> bool {
    given.ct_eq(token.expose().as_bytes()).into()
}

/// Says nothing of messages before the store is open: what is not known yet would seem not to be.
pub(super) async fn require_store(
    Extract(state): Extract<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    if request.uri().path().starts_with("/v1/") && !state.health.is_open() {
        let why = "xdelay is starting; GET /ready says what it waits for";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", why).into_response();
    }
    // Whoever looks must not hold up those who release.
    let _turn = state.turns.acquire().await;
    next.run(request).await
}

/// Lets a request through when its role allows its method.
pub(super) async fn require_role(
    Extract(state): Extract<Arc<State>>,
    mut request: Request,
    next: Next,
) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    match role(&state, request.headers()) {
        None => {
            let how = "send the token of admin.token_file: Authorization: Bearer ...";
            Problem::new(StatusCode::UNAUTHORIZED, "token", how).into_response()
        }
        Some(Role::Read) if changes => {
            let why = "this token may only read; use that of admin.token_file";
            Problem::new(StatusCode::FORBIDDEN, "read-only", why).into_response()
        }
        Some(role) => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
    }
}
