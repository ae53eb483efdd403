//! Notifications: who gets which, the inbox, rules, emails and action links.

mod action_links;
mod chat;
mod chat_double;
mod inbox;
mod mail;
mod rules;
mod slack;

use berth_server::config::AppConfig;
use berth_server::integrations::mail::{SmtpConfig, SmtpTls};
use berth_server::jobs;
use serde_json::{Value, json};

use super::world::{MemberAccount, TestRequest, TestResponse, TestWorld, call, get, post};

const ORG: &str = "/api/v1/organizations/acme";
const ENVIRONMENT: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";

/// A server with the pipeline `shop`, its owner Ada and the deployer Grace.
struct NotificationFixture {
    world: TestWorld,
    ada: MemberAccount,
    grace: MemberAccount,
}

impl NotificationFixture {
    async fn new() -> Self {
        Self::with_config(AppConfig::local(([127, 0, 0, 1], 8080).into())).await
    }

    /// Emails go to this port.
    async fn with_smtp(port: u16) -> Self {
        let smtp = SmtpConfig {
            host: "127.0.0.1".into(),
            port,
            tls: SmtpTls::None,
            login: None,
            from: "Berth <berth@acme.test>".parse().unwrap(),
            action_links: true,
        };
        let config = AppConfig { smtp: Some(smtp), ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
        Self::with_config(config).await
    }

    async fn with_config(config: AppConfig) -> Self {
        let world = TestWorld::with_config(config).await;
        let (ada, grace) = (world.ada.clone(), world.create_member("grace@acme.test", "deployer").await);
        world.create_pipeline("shop").await;
        Self { world, ada, grace }
    }

    async fn send(&self, call: TestRequest) -> TestResponse {
        self.world.send(call).await
    }

    async fn post(&self, path: &str, who: &MemberAccount, body: &Value) -> Value {
        let reply = self.send(post(path).with_account(who).json(body)).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply.body["data"].clone()
    }

    /// Claims qa-1, or joins its queue.
    async fn claim(&self, who: &MemberAccount, body: &Value) -> Value {
        self.post(&format!("{ENVIRONMENT}/sessions"), who, body).await
    }

    async fn force_claim(&self, who: &MemberAccount, body: &Value) -> Value {
        self.post(&format!("{ENVIRONMENT}/force-claim"), who, body).await
    }

    async fn release(&self, who: &MemberAccount, session: &Value) {
        let path = format!("{ENVIRONMENT}/sessions/{}", session["sessionId"].as_str().unwrap());
        let reply = self.send(call("DELETE", &path).with_account(who)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    async fn session(&self, session: &Value) -> Value {
        let path = format!("{ENVIRONMENT}/sessions/{}", session["sessionId"].as_str().unwrap());
        self.send(get(&path).with_account(&self.ada)).await.body["data"].clone()
    }

    async fn create_notifications(&self) {
        jobs::create_notifications(self.world.app.jobs()).await.unwrap();
    }

    /// Reads all events, then returns the inbox, newest first.
    async fn inbox(&self, who: &MemberAccount) -> Vec<Value> {
        self.create_notifications().await;
        self.list(who, "").await
    }

    async fn list(&self, who: &MemberAccount, query: &str) -> Vec<Value> {
        let reply = self.send(get(&format!("{ORG}/notifications{query}")).with_account(who)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body["data"].as_array().unwrap().clone()
    }

    async fn causes(&self, who: &MemberAccount) -> Vec<String> {
        let cause = |it: &Value| it["cause"].as_str().unwrap_or("subscription").to_owned();
        self.inbox(who).await.iter().map(cause).collect()
    }

    async fn put_rules(&self, who: &MemberAccount, rules: &Value) -> TestResponse {
        let put = call("PUT", &format!("{ORG}/notification-rules")).with_account(who);
        self.send(put.json(&json!({"rules": rules}))).await
    }

    async fn user_id(&self, who: &MemberAccount) -> String {
        let me = self.send(get("/api/v1/me").with_account(who)).await;
        me.body["data"]["user"]["id"].as_str().unwrap().to_owned()
    }
}
