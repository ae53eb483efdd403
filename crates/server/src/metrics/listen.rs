//! The Prometheus endpoint: plain HTTP, a single path, few connections.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::ServerMetrics;
use super::scrape::scrape;
use crate::limits::{HEADER_BYTES_MAX, HEADER_READ_MAX, HEADERS_MAX};

/// Maximum number of connections. A scraper needs only a few.
const CONNECTIONS_MAX: usize = 16;
/// Maximum lifetime of a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `GET /metrics` until the server stops.
pub async fn serve(metrics: ServerMetrics, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(accepted) = metrics.jobs.services.shutdown.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let asked = metrics.clone();
            let service = service_fn(move |request| handle_request(asked.clone(), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_READ_MAX)
                .max_headers(HEADERS_MAX)
                .max_header_size(HEADER_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            let limited = tokio::time::timeout(CONNECTION_MAX, connection);
            let _ = metrics.jobs.services.shutdown.run_until_cancelled(limited).await;
            drop(place);
        });
    }
}

async fn handle_request(
    metrics: ServerMetrics,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match scrape(&metrics.jobs, &metrics.requests).await {
            Ok(body) => (StatusCode::OK, body),
            Err(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode the metrics: {error}\n"))
            }
        },
        _ => (StatusCode::NOT_FOUND, "only GET /metrics is served here\n".to_owned()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}
