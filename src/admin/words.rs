//! The words that requests and answers choose from, and how a caller proves who it is, as the
//! OpenAPI file has them.

use serde::Deserialize;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, ToSchema};

/// The name of the scheme in the OpenAPI file.
pub(super) const TOKEN: &str = "token";

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BrokerWord {
    Amqp,
    Kafka,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StateWord {
    Parked,
    Leased,
    Dead,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventWord {
    Released,
    Cancelled,
    Buried,
    Rescheduled,
    Revived,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepWord {
    Cancel,
    Release,
    Reschedule,
    Revive,
    Bury,
}

/// Unix milliseconds, or RFC 3339.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the OpenAPI file")]
pub(super) enum Instant {
    Ms(i64),
    Text(String),
}

/// Adds the token to the OpenAPI file.
pub(super) struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut OpenApi) {
        let how = "The token of admin.token_file, or that of admin.read_token_file for what only \
                   looks. Not needed on loopback unless one is set.";
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(how));
        let components = api.components.get_or_insert_default();
        components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer.build()));
    }
}
