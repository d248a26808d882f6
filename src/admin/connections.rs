//! The connections of the admin API: how many there may be, and how long they may keep it waiting.
//!
//! Whoever reaches the port can open connections and say nothing, or say it a byte at a time. Such
//! callers must cost neither memory without bound nor the turns of those who have something to ask.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{ConnectInfo, Request, State as Extract};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::problem::Problem;
use super::{BODY_BYTES_MAX, State};
use crate::shutdown::Shutdown;

/// Connections that are open at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take, from when the connection is free for it.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long its body may take after that.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// How long what is being answered may take when xdelay stops.
const FINISH_WITHIN: Duration = Duration::from_millis(500);

/// Serves until shutdown.
pub(super) async fn serve(listener: TcpListener, routes: Router, mut shutdown: Shutdown) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = shutdown.requested() => break,
        };
        let Some((client, peer, place)) = accepted else { continue };
        let routes = routes.clone().layer(Extension(ConnectInfo(peer)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .serve_connection(TokioIo::new(client), TowerToHyperService::new(routes));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%peer, %error, "admin API: a connection ended");
            }
            drop(place);
        });
    }
    let _ = timeout(FINISH_WITHIN, open.shutdown()).await;
}

/// The next connection, and its place among those that may be open.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    if places.available_permits() == 0 {
        tracing::warn!(
            "the admin API has {CONNECTIONS_MAX} connections open: others wait until one ends"
        );
    }
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((client, peer)) => Some((client, peer, place)),
        Err(error) => {
            // Too many open files, most likely: the next moment may be better.
            tracing::warn!(%error, "admin API: a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Reads the whole body before anything is begun for it, so that a slow one holds up nobody else:
/// not those who wait for a turn, and few of those who send bodies.
pub(super) async fn take_body(
    Extract(state): Extract<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let reading = async {
        let _place = state.bodies.acquire().await;
        to_bytes(body, BODY_BYTES_MAX).await
    };
    match pin!(timeout(BODY_WITHIN, reading)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => {
            let why = format!("the body was cut short, or is beyond {BODY_BYTES_MAX} bytes");
            Problem::invalid(why).into_response()
        }
        Err(_) => {
            let why = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", why).into_response()
        }
    }
}
