//! Who may see what.

use axum::http::{HeaderMap, header::AUTHORIZATION};
use subtle::ConstantTimeEq;

use super::State;

/// Whether a request carries the token, or needs none. Takes the same time for every wrong one.
pub(super) fn is_allowed(state: &State, headers: &HeaderMap) -> bool {
    let Some(token) = &state.token else {
        return true;
    };
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    given.ct_eq(token.expose().as_bytes()).into()
}
