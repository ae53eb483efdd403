//! Outgoing webhooks, received by a real HTTP server.

mod concurrent_change;
mod deliver;
mod many;
mod recipients;
mod refusals;
mod resource;
mod secret;

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

use super::audit_export;
use super::jobs_with_runner::JobsWithRunner;
use super::world::{MemberAccount, TestResponse, TestWorld, call, get, post};

pub(crate) const WEBHOOKS: &str = "/api/v1/organizations/acme/webhooks";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the server waits for a response from a receiver in these tests.
const RECEIVER_MAX: Duration = Duration::from_millis(500);

/// A request that the receiver got.
#[derive(Clone)]
struct ReceivedRequest {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl ReceivedRequest {
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
type ReceiverBehaviour = Arc<dyn Fn(usize) -> ReceiverResponse + Send + Sync>;

enum ReceiverResponse {
    Status(u16),
    WithHeader(u16, &'static str, String),
    Body(Body),
    /// Never responds.
    Hang,
    /// Responds with this status once it is notified.
    Later(u16, Arc<Notify>),
}

#[derive(Clone)]
struct WebhookReceiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    more: Arc<Notify>,
}

impl WebhookReceiver {
    async fn start(behaviour: impl Fn(usize) -> ReceiverResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self { address, received: Arc::default(), more: Arc::default() };
        let behaviour: ReceiverBehaviour = Arc::new(behaviour);
        let serving = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (serving, behaviour) = (serving.clone(), behaviour.clone());
                let service =
                    service_fn(move |request| serving.clone().handle_request(request, behaviour.clone()));
                let builder = hyper::server::conn::http1::Builder::new();
                // Ignores the error if the client closes the connection early.
                tokio::spawn(
                    async move { builder.serve_connection(TokioIo::new(stream), service).await.ok() },
                );
            }
        });
        receiver
    }

    async fn handle_request(
        self,
        request: http::Request<hyper::body::Incoming>,
        behaviour: ReceiverBehaviour,
    ) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let number = {
            let mut received = self.received.lock().unwrap();
            received.push(ReceivedRequest { headers: parts.headers, body });
            received.len() - 1
        };
        self.more.notify_waiters();
        Ok(match behaviour(number) {
            ReceiverResponse::Status(status) => text_response(status),
            ReceiverResponse::Later(status, may) => {
                may.notified().await;
                // Passes the notification on, so that the next waiting response is sent too.
                may.notify_one();
                text_response(status)
            }
            ReceiverResponse::WithHeader(status, name, value) => {
                Response::builder().status(status).header(name, value).body(Body::empty()).unwrap()
            }
            ReceiverResponse::Body(body) => Response::new(body),
            ReceiverResponse::Hang => std::future::pending().await,
        })
    }

    fn url(&self) -> String {
        format!("http://{}/hook?key=hidden-from-viewers", self.address)
    }

    fn all_requests(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until this many requests have been received.
    async fn wait_for_requests(&self, count: usize) -> Vec<ReceivedRequest> {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let more = self.more.notified();
                let all = self.all_requests();
                if all.len() >= count {
                    return all;
                }
                more.await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{} of {count} arrived", self.all_requests().len()))
    }
}

fn text_response(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::from("noted")).unwrap()
}

/// A running server that allows webhooks to addresses on this machine.
struct WebhookFixture {
    world: TestWorld,
    running_jobs: JobsWithRunner,
    ada: MemberAccount,
}

impl WebhookFixture {
    async fn start() -> Self {
        Self::with_config(local_egress_config()).await
    }

    async fn with_config(config: AppConfig) -> Self {
        let world = TestWorld::with_config(config).await;
        let (running_jobs, ada) = (JobsWithRunner::start(&world.app), world.ada.clone());
        Self { world, running_jobs, ada }
    }

    async fn shut_down(self) {
        self.running_jobs.shut_down().await;
    }

    async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.world.send(post(&format!("{WEBHOOKS}{path}")).with_account(&self.ada).json(body)).await
    }

    async fn fetch(&self, path: &str) -> Value {
        let reply = self.world.send(get(&format!("{WEBHOOKS}{path}")).with_account(&self.ada)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body["data"].clone()
    }

    /// Creates a webhook and returns its secret.
    async fn create_webhook(&self, name: &str, url: &str, kinds: &[&str]) -> String {
        let made = self.post("", &json!({"name": name, "url": url, "kinds": kinds})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["secret"].as_str().unwrap().to_owned()
    }

    /// Causes two events: stops a pipeline and resumes it.
    async fn stop_and_resume(&self, slug: &str) {
        for verb in ["stop", "resume"] {
            let path = format!("/api/v1/organizations/acme/pipelines/{slug}/{verb}");
            let done =
                self.world.send(post(&path).with_account(&self.ada).json(&json!({"reason": "a test"}))).await;
            assert_eq!(done.status, 200, "{}", done.text);
        }
    }

    /// Polls the resource at this path until `wanted` is true for it.
    async fn wait_until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let looked = tokio::time::timeout(PATIENCE, async {
            loop {
                let seen = self.fetch(path).await;
                if wanted(&seen) {
                    return seen;
                }
                tokio::time::sleep(crate::world::POLL_EVERY).await;
            }
        });
        match looked.await {
            Ok(seen) => seen,
            Err(_) => panic!("it stays {}", self.fetch(path).await),
        }
    }

    /// Makes pending retries due now.
    async fn make_retries_due(&self, name: &str) {
        let id = self.fetch(&format!("/{name}")).await["id"].as_str().unwrap().parse().unwrap();
        let context = TxContext::system(Some(audit_export::acme_org_id(&self.world).await));
        self.world.app.store().transact(context, move |tx| delivery::make_pending_due(tx, id)).await.unwrap();
    }
}

fn local_egress_config() -> AppConfig {
    AppConfig {
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        webhook_max: RECEIVER_MAX,
        public_url: None,
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    }
}

fn delete(path: &str) -> super::world::TestRequest {
    call("DELETE", &format!("{WEBHOOKS}{path}"))
}

fn patch(path: &str) -> super::world::TestRequest {
    call("PATCH", &format!("{WEBHOOKS}{path}"))
}
