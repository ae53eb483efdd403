//! Chat destinations: rules that name them, messages to webhooks, and retries.

use std::time::Duration;

use berth_server::config::AppConfig;
use berth_server::jobs::send_chat_messages;
use serde_json::{Value, json};

use super::chat_double::ChatDouble;
use super::{NotificationFixture, ORG};
use crate::jobs_with_runner::JobsWithRunner;
use crate::world::{MemberAccount, POLL_EVERY, TestResponse, call, get, post};

impl NotificationFixture {
    /// A server that may send requests to this machine.
    pub(super) async fn with_chats() -> Self {
        let egress_allow = vec!["127.0.0.1".parse().unwrap()];
        Self::with_config(AppConfig { egress_allow, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) }).await
    }

    pub(super) async fn send_chats(&self) {
        self.create_notifications().await;
        send_chat_messages(self.world.app.jobs()).await.unwrap();
    }

    async fn add_webhook(&self, name: &str, kind: &str, url: &str) -> Value {
        let body = json!({"name": name, "type": kind, "url": url});
        self.post(&format!("{ORG}/chat-destinations"), &self.ada, &body).await
    }

    pub(super) async fn destination(&self, name: &str) -> Value {
        let path = format!("{ORG}/chat-destinations/{name}");
        self.send(get(&path).with_account(&self.ada)).await.body["data"].clone()
    }

    pub(super) async fn put_organization_rules(&self, rules: &Value) -> TestResponse {
        let put = call("PUT", &format!("{ORG}/organization-notification-rules")).with_account(&self.ada);
        self.send(put.json(&json!({"rules": rules}))).await
    }

    /// Makes all messages due that are still to be sent.
    pub(super) fn make_chats_due(&self) {
        self.world.run_sql("UPDATE chat_messages SET due_at = 0 WHERE due_at IS NOT NULL");
    }

    /// Grace loses qa-1 to Ada, who releases it.
    pub(super) async fn lose_session(&self, reason: &str) {
        self.claim(&self.grace, &json!({})).await;
        let won = self.force_claim(&self.ada, &json!({"reason": reason})).await;
        self.release(&self.ada, &won).await;
    }
}

fn to(destination: &str) -> Value {
    json!({"channel": "chat", "destination": destination, "about": "all", "kinds": ["session_overridden"]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_to_a_destination_with_a_full_outbox_is_dropped() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    shop.add_webhook("ops", "slack_webhook", &double.url("/services/T0/B0/secret")).await;
    assert_eq!(shop.put_organization_rules(&json!([to("ops")])).await.status, 200);
    shop.lose_session("first").await;
    shop.create_notifications().await;
    shop.world.run_sql(
        "INSERT INTO chat_messages (org_id, id, target_id, sequence, cause, summary, subject, created_at, due_at,
           failures, sent_at)
         WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 9998)
         SELECT org_id, id || '-' || i, target_id, -i, cause, summary, subject, created_at, due_at, failures, sent_at
           FROM chat_messages, numbers",
    );
    // One batch of events, of which one message fits.
    shop.lose_session("second").await;
    shop.lose_session("third").await;
    shop.create_notifications().await;
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM chat_messages WHERE due_at IS NOT NULL"), 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_reach_slack_and_teams_webhooks() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    let made = shop.add_webhook("ops", "slack_webhook", &double.url("/services/T0/B0/secret")).await;
    assert_eq!((&made["host"], &made["pending"]), (&json!("127.0.0.1"), &json!(0)));
    assert!(!made.to_string().contains("secret"), "{made}");
    shop.add_webhook("dev", "teams_webhook", &double.url("/workflows/secret")).await;
    let put = shop.put_organization_rules(&json!([to("ops"), to("dev")])).await;
    assert_eq!(put.status, 200, "{}", put.text);
    shop.lose_session("<!channel> is down").await;
    shop.send_chats().await;
    let [slack] = double.received_at("/services/T0/B0/secret").try_into().unwrap();
    let text = "ada took qa-1 of shop over from grace: &lt;!channel&gt; is down";
    assert_eq!(slack.body["text"], text);
    let section = slack.body["blocks"][0]["text"]["text"].as_str().unwrap();
    assert!(
        section.contains("|Open in Berth>") && section.contains("/o/acme/environments/shop/qa-1"),
        "{section}"
    );
    let [teams] = double.received_at("/workflows/secret").try_into().unwrap();
    let card = &teams.body["attachments"][0];
    assert_eq!(card["contentType"], "application/vnd.microsoft.card.adaptive");
    assert_eq!(
        card["content"]["body"][0]["inlines"][0]["text"],
        "ada took qa-1 of shop over from grace: <!channel> is down"
    );
    shop.send_chats().await;
    assert_eq!(double.received_at("/workflows/secret").len(), 1, "it is sent once");
    let shown = shop.destination("dev").await;
    assert!(shown["deliveredAt"].is_string() && shown["error"].is_null(), "{shown}");
    let rows = "SELECT COUNT(*) FROM notifications WHERE cause IS NULL";
    assert_eq!(shop.world.count_rows(rows), 0, "rules about destinations notify no people");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_message_shows_whether_it_was_delivered() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    for (name, path) in [("good", "/hook"), ("gone", "/gone")] {
        shop.add_webhook(name, "slack_webhook", &double.url(path)).await;
        let sent = shop.post(&format!("{ORG}/chat-destinations/{name}/test"), &shop.ada, &json!({})).await;
        assert_eq!(sent["pending"], 1);
    }
    shop.send_chats().await;
    assert_eq!(double.received_at("/hook")[0].body["text"], "Test message from Berth, sent by ada");
    let good = shop.destination("good").await;
    assert_eq!((&good["pending"], &good["failures"]), (&json!(0), &json!(0)));
    let gone = shop.destination("gone").await;
    assert_eq!((&gone["pending"], &gone["failures"]), (&json!(1), &json!(1)));
    assert_eq!(gone["error"], "the chat responded with 404");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_arrives_once_the_chat_is_back_and_delays_nothing_else() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    let mut dead = ChatDouble::reserve().await;
    shop.add_webhook("dead", "slack_webhook", &dead.url("/hook")).await;
    shop.add_webhook("live", "teams_webhook", &double.url("/hook")).await;
    assert_eq!(shop.put_organization_rules(&json!([to("dead"), to("live")])).await.status, 200);
    let running = JobsWithRunner::start(&shop.world.app);
    shop.lose_session("while it is down").await;
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while double.received_at("/hook").is_empty() || shop.destination("dead").await["failures"] == 0 {
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    waited.await.expect("the other chat gets its message, and an attempt fails");
    assert_eq!(shop.list(&shop.grace, "").await.len(), 1, "the inbox does not wait");
    dead.start().await;
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while dead.received_at("/hook").is_empty() {
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    waited.await.expect("the message arrives");
    assert!(dead.received_at("/hook")[0].text().contains("while it is down"));
    running.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digest_collects_messages_and_a_restore_cancels_them() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    shop.add_webhook("ops", "slack_webhook", &double.url("/hook")).await;
    let mut rule = to("ops");
    rule["digestMinutes"] = json!(30);
    assert_eq!(shop.put_organization_rules(&json!([rule])).await.status, 200);
    shop.lose_session("first").await;
    shop.send_chats().await;
    for reason in ["second", "third"] {
        shop.lose_session(reason).await;
    }
    shop.send_chats().await;
    assert_eq!(double.received_at("/hook").len(), 1, "the others wait for the digest");
    shop.make_chats_due();
    shop.send_chats().await;
    let [_, digest] = double.received_at("/hook").try_into().unwrap();
    assert!(digest.text().contains("second") && digest.text().contains("third"), "{}", digest.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn team_rule_sends_events_about_its_members_and_keeps_their_own_notifications() {
    let (shop, double) = (NotificationFixture::with_chats().await, ChatDouble::new().await);
    shop.add_webhook("sre", "slack_webhook", &double.url("/hook")).await;
    shop.post(&format!("{ORG}/teams"), &shop.ada, &json!({"slug": "sre"})).await;
    let member = format!("{ORG}/teams/sre/members/{}", shop.user_id(&shop.grace).await);
    assert_eq!(shop.send(call("PUT", &member).with_account(&shop.ada)).await.status, 200);
    let put = call("PUT", &format!("{ORG}/teams/sre/notification-rules")).with_account(&shop.ada);
    let rules = json!({"rules": [{"channel": "chat", "destination": "sre"}]});
    let put = shop.send(put.json(&rules)).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(put.body["data"]["rules"][0]["destination"], "sre");
    // Grace waits, which concerns only Ada, who is not in the team.
    let held = shop.claim(&shop.ada, &json!({})).await;
    shop.claim(&shop.grace, &json!({"queue": true})).await;
    shop.send_chats().await;
    assert!(double.received_at("/hook").is_empty());
    shop.release(&shop.ada, &held).await;
    shop.send_chats().await;
    assert_eq!(double.received_at("/hook").len(), 1, "the session of Grace concerns a member of the team");
    assert_eq!(shop.causes(&shop.grace).await, ["session_granted"]);
}

#[tokio::test]
async fn rules_and_destinations_are_validated() {
    let shop = NotificationFixture::with_chats().await;
    let add = async |body: Value, who: &MemberAccount| {
        shop.send(post(&format!("{ORG}/chat-destinations")).with_account(who).json(&body)).await
    };
    let url = "https://hooks.slack.com/services/T0/B0/x";
    for (body, pointer) in [
        (json!({"name": "Ops", "type": "slack_webhook", "url": url}), "/name"),
        (json!({"name": "ops", "type": "slack_webhook"}), "/url"),
        (json!({"name": "ops", "type": "slack_webhook", "url": url, "channel": "C0"}), "/channel"),
        (json!({"name": "ops", "type": "slack_channel", "channel": "#ops"}), "/channel"),
        (json!({"name": "ops", "type": "slack_channel"}), "/channel"),
        (json!({"name": "ops", "type": "teams_webhook", "url": "http://10.0.0.1/x"}), "/url"),
        (json!({"name": "ops", "type": "teams_webhook", "url": "file:///etc/passwd"}), "/url"),
    ] {
        let refused = add(body.clone(), &shop.ada).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{body}");
    }
    let channel = json!({"name": "ops", "type": "slack_channel", "channel": "C024BE91L"});
    add(channel, &shop.ada).await.assert_problem(409, "invalid_state");
    let good = json!({"name": "ops", "type": "slack_webhook", "url": url});
    add(good.clone(), &shop.grace).await.assert_problem(403, "forbidden");
    assert_eq!(add(good.clone(), &shop.ada).await.status, 201);
    add(good, &shop.ada).await.assert_problem(409, "already_exists");

    let refused = shop.put_rules(&shop.grace, &json!([{"channel": "chat", "destination": "ops"}])).await;
    refused.assert_problem(400, "invalid_request");
    for rules in [
        json!([{"channel": "chat"}]),
        json!([{"channel": "email", "destination": "ops"}]),
        json!([{"channel": "chat", "destination": "other"}]),
    ] {
        let refused = shop.put_organization_rules(&rules).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/rules/0/destination", "{rules}");
    }
    assert_eq!(shop.put_organization_rules(&json!([to("ops")])).await.status, 200);
    let path = format!("{ORG}/chat-destinations/ops");
    assert_eq!(shop.send(call("DELETE", &path).with_account(&shop.ada)).await.status, 200);
    shop.lose_session("x").await;
    shop.create_notifications().await;
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM chat_messages"), 0);
}
