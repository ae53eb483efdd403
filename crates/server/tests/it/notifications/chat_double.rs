//! A double of the servers of chats over real HTTP: Slack's Web API, incoming webhooks, and response URLs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request that the double received.
#[derive(Debug, Clone)]
pub(super) struct ReceivedMessage {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) body: Value,
}

impl ReceivedMessage {
    /// The whole body as text.
    pub(super) fn text(&self) -> String {
        self.body.to_string()
    }
}

type Received = Arc<Mutex<Vec<ReceivedMessage>>>;

/// Accepts everything except the bot token `xoxb-wrong`.
pub(super) struct ChatDouble {
    address: SocketAddr,
    received: Received,
    serving: Option<JoinHandle<()>>,
}

impl ChatDouble {
    /// Reserves a port. Nothing listens there until [`ChatDouble::start`].
    pub(super) async fn reserve() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        Self { address, received: Received::default(), serving: None }
    }

    pub(super) async fn new() -> Self {
        let mut double = Self::reserve().await;
        double.start().await;
        double
    }

    pub(super) async fn start(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        let routes = Router::new().fallback(receive).with_state(self.received.clone());
        self.serving = Some(tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }));
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What arrived at a path.
    pub(super) fn received_at(&self, path: &str) -> Vec<ReceivedMessage> {
        self.received.lock().unwrap().iter().filter(|it| it.path == path).cloned().collect()
    }
}

impl Drop for ChatDouble {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

async fn receive(State(received): State<Received>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let is_wrong = authorization.as_deref() == Some("Bearer xoxb-wrong");
    let path = uri.path().to_owned();
    let body = serde_json::from_slice(&body).unwrap();
    received.lock().unwrap().push(ReceivedMessage { path: path.clone(), authorization, body });
    match path.as_str() {
        "/api/auth.test" if is_wrong => Json(json!({"ok": false, "error": "invalid_auth"})).into_response(),
        "/api/auth.test" => {
            Json(json!({"ok": true, "team_id": "T0ACME", "team": "acme", "user_id": "U0BERTH"}))
                .into_response()
        }
        "/api/chat.postMessage" => Json(json!({"ok": true, "ts": "1"})).into_response(),
        "/gone" => StatusCode::NOT_FOUND.into_response(),
        _ => "ok".into_response(),
    }
}
