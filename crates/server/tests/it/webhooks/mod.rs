//! Outgoing webhooks, received by a real HTTP server.

mod deliver;
mod many;
mod named;
mod refuse;
mod resource;
mod secret;
mod switched;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use berth_server::config::AppConfig;
use berth_store::TxContext;
use berth_store::tables::delivery;
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::at_work::AtWork;
use super::history;
use super::world::{Account, Reply, World, call, get, post};

pub(crate) const WEBHOOKS: &str = "/api/v1/organizations/acme/webhooks";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server waits for a response from a receiver in these tests.
const RECEIVER_MAX: Duration = Duration::from_millis(500);

/// A request that the receiver got.
#[derive(Clone)]
struct Received {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Received {
    fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Verifies the signature with the Standard Webhooks reference implementation.
    fn is_signed_with(&self, secret: &str) -> bool {
        standardwebhooks::Webhook::new(secret).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}

/// Returns the response to a request, given its number (starting at 0).
type Behaviour = Arc<dyn Fn(usize) -> Answer + Send + Sync>;

enum Answer {
    Status(u16),
    With(u16, &'static str, String),
    Body(Body),
    /// Never responds.
    Hang,
    /// Responds with this status once it is notified.
    Later(u16, Arc<Notify>),
}

#[derive(Clone)]
struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    more: Arc<Notify>,
}

impl Receiver {
    async fn start(behaviour: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self { address, received: Arc::default(), more: Arc::default() };
        let behaviour: Behaviour = Arc::new(behaviour);
        let serving = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (serving, behaviour) = (serving.clone(), behaviour.clone());
                let service = service_fn(move |request| serving.clone().take(request, behaviour.clone()));
                let builder = hyper::server::conn::http1::Builder::new();
                // Ignores the error if the client closes the connection early.
                tokio::spawn(
                    async move { builder.serve_connection(TokioIo::new(stream), service).await.ok() },
                );
            }
        });
        receiver
    }

    async fn take(
        self,
        request: http::Request<hyper::body::Incoming>,
        behaviour: Behaviour,
    ) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let number = {
            let mut received = self.received.lock().unwrap();
            received.push(Received { headers: parts.headers, body });
            received.len() - 1
        };
        self.more.notify_waiters();
        Ok(match behaviour(number) {
            Answer::Status(status) => noted(status),
            Answer::Later(status, may) => {
                may.notified().await;
                // Passes the notification on, so that the next waiting response is sent too.
                may.notify_one();
                noted(status)
            }
            Answer::With(status, name, value) => {
                Response::builder().status(status).header(name, value).body(Body::empty()).unwrap()
            }
            Answer::Body(body) => Response::new(body),
            Answer::Hang => std::future::pending().await,
        })
    }

    fn url(&self) -> String {
        format!("http://{}/hook?key=hidden-from-viewers", self.address)
    }

    fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until this many requests have been received.
    async fn heard(&self, count: usize) -> Vec<Received> {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let more = self.more.notified();
                let all = self.all();
                if all.len() >= count {
                    return all;
                }
                more.await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{} of {count} arrived", self.all().len()))
    }
}

fn noted(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::from("noted")).unwrap()
}

/// A running server that allows webhooks to addresses on this machine.
struct Harbour {
    world: World,
    at_work: AtWork,
    ada: Account,
}

impl Harbour {
    async fn open() -> Self {
        Self::with(config()).await
    }

    async fn with(config: AppConfig) -> Self {
        let world = World::with(config).await;
        let (at_work, ada) = (AtWork::begin(&world.app), world.ada.clone());
        Self { world, at_work, ada }
    }

    async fn close(self) {
        self.at_work.end().await;
    }

    async fn post(&self, path: &str, body: &Value) -> Reply {
        self.world.send(post(&format!("{WEBHOOKS}{path}")).by(&self.ada).json(body)).await
    }

    async fn see(&self, path: &str) -> Value {
        let reply = self.world.send(get(&format!("{WEBHOOKS}{path}")).by(&self.ada)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body["data"].clone()
    }

    /// Creates a webhook and returns its secret.
    async fn webhook(&self, name: &str, url: &str, kinds: &[&str]) -> String {
        let made = self.post("", &json!({"name": name, "url": url, "kinds": kinds})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["secret"].as_str().unwrap().to_owned()
    }

    /// Causes two events: stops a pipeline and resumes it.
    async fn stop_and_resume(&self, slug: &str) {
        for verb in ["stop", "resume"] {
            let path = format!("/api/v1/organizations/acme/pipelines/{slug}/{verb}");
            let done = self.world.send(post(&path).by(&self.ada).json(&json!({"reason": "a test"}))).await;
            assert_eq!(done.status, 200, "{}", done.text);
        }
    }

    /// Polls the resource at this path until `wanted` is true for it.
    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let looked = tokio::time::timeout(PATIENCE, async {
            loop {
                let seen = self.see(path).await;
                if wanted(&seen) {
                    return seen;
                }
                tokio::time::sleep(crate::world::POLL_EVERY).await;
            }
        });
        match looked.await {
            Ok(seen) => seen,
            Err(_) => panic!("it stays {}", self.see(path).await),
        }
    }

    /// Makes pending retries due now.
    async fn hasten(&self, name: &str) {
        let id = self.see(&format!("/{name}")).await["id"].as_str().unwrap().parse().unwrap();
        let context = TxContext::system(Some(history::org(&self.world).await));
        self.world.app.store().transact(context, move |tx| delivery::make_pending_due(tx, id)).await.unwrap();
    }
}

fn config() -> AppConfig {
    AppConfig {
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        webhook_max: RECEIVER_MAX,
        public_url: None,
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    }
}

fn delete(path: &str) -> super::world::Call {
    call("DELETE", &format!("{WEBHOOKS}{path}"))
}

fn patch(path: &str) -> super::world::Call {
    call("PATCH", &format!("{WEBHOOKS}{path}"))
}
