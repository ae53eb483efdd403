//! The accept loop. Limits the number of connections, header sizes and durations, and shuts down within
//! [`SHUTDOWN_MAX`].

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

use crate::app::App;
use crate::http::HttpService;
use crate::jobs;
use crate::keep_alive::{KeepAliveStream, RequestPhase};
use crate::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PER_IP_MAX, HEADER_BYTES_MAX, HEADER_READ_MAX, HEADERS_MAX, SHUTDOWN_MAX,
    WRITE_IDLE_MAX,
};

/// Pause after a failed accept, for example when no file descriptors are free, to avoid a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves requests until the shutdown token is cancelled, then gives open requests [`SHUTDOWN_MAX`] to finish.
pub async fn serve(app: Arc<App>, listener: TcpListener) {
    match jobs::renew_leases(&app.services).await {
        Ok(0) => {}
        Ok(sessions) => tracing::info!(sessions, "leases renewed after start"),
        Err(error) => tracing::error!(?error, "cannot renew leases after start"),
    }
    let edge = Arc::new(HttpService::new(app.clone()));
    let work = tokio::spawn(jobs::run(app.jobs.clone()));
    let connections = Arc::new(ConnectionLimits::new(app.config().trusted_proxies.clone()));
    let graceful = GracefulShutdown::new();
    while let Some(accepted) =
        app.services.shutdown.run_until_cancelled(accept(&listener, &connections)).await
    {
        let Some((stream, peer, place)) = accepted else { continue };
        let (edge, tls) = (edge.clone(), app.tls().cloned());
        let keep_alive = app.config().keep_alive;
        let phase = RequestPhase::default();
        let reads = phase.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (edge, guard) = (edge.clone(), phase.begin());
            async move {
                let response = edge.handle_request(request.map(Body::new), peer.ip()).await;
                Ok::<_, std::convert::Infallible>(response.map(|body| guard.end_with(body)))
            }
        });
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            let ended = match tls {
                None => {
                    let stream = limit_stream(stream, keep_alive, reads);
                    watcher.watch(builder(keep_alive).serve_connection(stream, service)).await
                }
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => {
                        let stream = limit_stream(stream, keep_alive, reads);
                        watcher.watch(builder(keep_alive).serve_connection(stream, service)).await
                    }
                    Err(error) => {
                        tracing::debug!(%error, %peer, "TLS handshake failed");
                        Ok(())
                    }
                },
            };
            if let Err(error) = ended {
                tracing::debug!(%error, %peer, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("shutdown timeout reached; closing remaining connections");
    }
    let _ = work.await;
}

type LimitedStream<S> = TokioIo<KeepAliveStream<Pin<Box<TimeoutStream<S>>>>>;

/// Wraps a connection with timeouts for clients that do not read, do not send, or send headers too slowly.
fn limit_stream<S: AsyncRead + AsyncWrite>(
    stream: S,
    keep_alive: Duration,
    phase: RequestPhase,
) -> LimitedStream<S> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_IDLE_MAX));
    TokioIo::new(KeepAliveStream::new(Box::pin(stream), keep_alive, phase))
}

fn builder(keep_alive: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // This timeout matters only if part of a header block arrived together with the previous request. Otherwise the
        // deadline of `KeepAliveStream` is earlier.
        .header_read_timeout(keep_alive + HEADER_READ_MAX)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .half_close(false)
        .keep_alive(true);
    builder
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<ConnectionLimits>,
) -> Option<(TcpStream, SocketAddr, ConnectionSlot)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let place = connections.take(peer.ip())?;
            let _ = stream.set_nodelay(true);
            Some((stream, peer, place))
        }
        Err(error) => {
            tracing::warn!(%error, "accept failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Counts open connections, in total and by IP address.
struct ConnectionLimits {
    all: Arc<Semaphore>,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// Trusted proxies. They are exempt from the limit per address, because many clients share them.
    proxies: Vec<IpAddr>,
}

impl ConnectionLimits {
    fn new(proxies: Vec<IpAddr>) -> Self {
        Self { all: Arc::new(Semaphore::new(CONNECTIONS_MAX)), by_address: Mutex::default(), proxies }
    }

    /// Counts a new connection. `None` if a limit is reached, in which case the connection is closed at once.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let permit = self.all.clone().try_acquire_owned().ok()?;
        let mut by_address = self.by_address.lock();
        let open = by_address.entry(address).or_default();
        let exempt = address.is_loopback() || self.proxies.contains(&address.to_canonical());
        if *open >= CONNECTIONS_PER_IP_MAX && !exempt {
            return None;
        }
        *open += 1;
        drop(by_address);
        Some(ConnectionSlot { connections: self.clone(), address, _permit: permit })
    }
}

/// One open connection; dropping it frees the slot.
struct ConnectionSlot {
    connections: Arc<ConnectionLimits>,
    address: IpAddr,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut by_address = self.connections.by_address.lock();
        if let Some(open) = by_address.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_above_limit_per_address_are_refused() {
        let connections = Arc::new(ConnectionLimits::new(vec!["192.0.2.9".parse().unwrap()]));
        let far: IpAddr = "192.0.2.1".parse().unwrap();
        let mut places: Vec<_> =
            (0..CONNECTIONS_PER_IP_MAX).map(|_| connections.take(far).unwrap()).collect();
        assert!(connections.take(far).is_none());
        assert!(connections.take("192.0.2.2".parse().unwrap()).is_some());
        places.pop();
        assert!(connections.take(far).is_some());
        drop(places);
        assert!(connections.by_address.lock().is_empty());

        let proxy: IpAddr = "::ffff:192.0.2.9".parse().unwrap();
        let near: IpAddr = "127.0.0.1".parse().unwrap();
        let shared: Vec<_> = (0..CONNECTIONS_PER_IP_MAX + 10).map(|_| connections.take(proxy)).collect();
        assert!(shared.iter().all(Option::is_some));
        let many: Vec<_> = (0..CONNECTIONS_PER_IP_MAX + 10).map(|_| connections.take(near)).collect();
        assert!(many.iter().all(Option::is_some));
    }
}
