//! Says in the log who changed what.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::message::{Destination, ProducerId, Uid};
use crate::store::Error;

/// Where a request came from.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    peer: Option<SocketAddr>,
}

/// One kind of change by one caller.
pub(super) struct Audit<'a> {
    pub caller: &'a Caller,
    pub step: &'static str,
}

impl Audit<'_> {
    pub(super) fn message(&self, destination: &Destination, uid: &Uid, id: Option<&ProducerId>) {
        let (peer, step) = (self.peer(), self.step);
        let id = id.map(ToString::to_string).unwrap_or_default();
        tracing::info!(audit = true, peer, step, %destination, %uid, id, "an operator's step");
    }

    pub(super) fn uncertain(&self, destination: &Destination, error: &Error) {
        let (peer, step) = (self.peer(), self.step);
        tracing::warn!(audit = true, peer, step, %destination, %error, "an operator's step may have happened");
    }

    pub(super) fn destination(&self, destination: &Destination) {
        let (peer, step) = (self.peer(), self.step);
        tracing::info!(audit = true, peer, step, %destination, "an operator's step");
    }

    fn peer(&self) -> String {
        self.caller.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }
}

/// Makes the caller known to the routes.
pub(super) async fn know_caller(mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    request.extensions_mut().insert(Caller { peer });
    next.run(request).await
}
