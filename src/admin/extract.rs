//! What a request says, read as the framework does it, but refused in the shape of a [`Problem`].

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The query string.
#[derive(Debug, Default)]
pub(super) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(read)) => Ok(Self(read)),
            Err(refused) => Err(Problem::invalid(QueryRejection::body_text(&refused))),
        }
    }
}

/// The parts of the path.
#[derive(Debug, Default)]
pub(super) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(read)) => Ok(Self(read)),
            Err(refused) => Err(Problem::invalid(PathRejection::body_text(&refused))),
        }
    }
}

/// A body of JSON.
#[derive(Debug, Default)]
pub(super) struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match <axum::Json<T> as FromRequest<S>>::from_request(request, state).await {
            Ok(axum::Json(read)) => Ok(Self(read)),
            Err(refused) => Err(Problem::invalid(JsonRejection::body_text(&refused))),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        match <axum::Json<Option<T>> as OptionalFromRequest<S>>::from_request(request, state).await
        {
            // Where nothing need be said, `null` says nothing.
            Ok(read) => Ok(read.and_then(|axum::Json(read)| read.map(Self))),
            Err(refused) => Err(Problem::invalid(JsonRejection::body_text(&refused))),
        }
    }
}
