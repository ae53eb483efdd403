//! The Slack app: its connection, signatures, buttons, slash commands and direct messages, with a double of Slack.

use aws_lc_rs::hmac;
use berth_engine::vault::hex;
use berth_server::config::AppConfig;
use berth_server::jobs::sweep;
use serde_json::{Value, json};

use super::chat_double::ChatDouble;
use super::{NotificationFixture, ORG};
use crate::audit_export::acme_org_id;
use crate::world::{MemberAccount, POLL_EVERY, TestResponse, call, get, post};

const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const GRACE: &str = "U0GRACE";
const ADA: &str = "U0ADA";

/// An organization that is connected to the double.
struct SlackFixture {
    shop: NotificationFixture,
    slack: ChatDouble,
    /// The path that Slack sends requests to.
    hook: String,
}

fn sign(secret: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{seconds}:{body}").as_bytes());
    format!("v0={}", hex(tag.as_ref()))
}

fn now() -> i64 {
    i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
        .unwrap()
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn command(user: &str, text: &str) -> String {
    // The trigger is different in each request, and with it the signature.
    let trigger = berth_engine::credential::random_base62(20);
    form(&[
        ("command", "/berth"),
        ("text", text),
        ("user_id", user),
        ("user_name", "slack-name"),
        ("team_id", "T0ACME"),
        ("trigger_id", &trigger),
    ])
}

impl SlackFixture {
    async fn new() -> Self {
        Self::connect_to(NotificationFixture::with_chats().await).await
    }

    async fn connect_to(shop: NotificationFixture) -> Self {
        let slack = ChatDouble::new().await;
        let hook = format!("/hooks/slack/{}", acme_org_id(&shop.world).await);
        let fixture = Self { shop, slack, hook };
        let connected = fixture.connect("xoxb-1").await;
        assert_eq!(connected.status, 200, "{}", connected.text);
        fixture
    }

    async fn connect(&self, token: &str) -> TestResponse {
        let body =
            json!({"signingSecret": SIGNING_SECRET, "botToken": token, "apiUrl": self.slack.url("/api")});
        self.shop.send(call("PUT", &format!("{ORG}/slack")).with_account(&self.shop.ada).json(&body)).await
    }

    async fn send_signed(&self, body: &str, seconds: i64, signature: &str) -> TestResponse {
        let request = post(&self.hook)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("x-slack-request-timestamp", &seconds.to_string())
            .header("x-slack-signature", signature);
        self.shop.send(request.raw(body.to_owned())).await
    }

    async fn send(&self, body: &str) -> TestResponse {
        let seconds = now();
        self.send_signed(body, seconds, &sign(SIGNING_SECRET, seconds, body)).await
    }

    /// Sends a slash command and returns the reply.
    async fn say(&self, user: &str, text: &str) -> String {
        let reply = self.send(&command(user, text)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.body["response_type"], "ephemeral");
        reply.body["text"].as_str().unwrap().to_owned()
    }

    /// The body of a button press.
    fn press_body(&self, user: &str, button: &Value) -> String {
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user, "username": "slack-name", "team_id": "T0ACME"},
            "team": {"id": "T0ACME"},
            "trigger_id": berth_engine::credential::random_base62(20),
            "response_url": self.slack.url("/response"),
            "actions": [button],
        });
        form(&[("payload", &payload.to_string())])
    }

    /// Presses a button, and returns what the member is told.
    async fn press(&self, user: &str, button: &Value) -> String {
        let before = self.slack.received_at("/response").len();
        let reply = self.send(&self.press_body(user, button)).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, "{}"));
        self.wait_for_reply(before).await
    }

    async fn wait_for_reply(&self, before: usize) -> String {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), async {
            loop {
                if let Some(reply) = self.slack.received_at("/response").get(before) {
                    return reply.body["text"].as_str().unwrap().to_owned();
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        });
        waited.await.expect("a reply")
    }

    async fn link(&self, who: &MemberAccount, user: &str) {
        // The tokens of members in tests do not expire and have no restrictions.
        let login = self.shop.world.log_in(&who.email, &who.password).await;
        let made = login.post(&format!("{ORG}/me/forge-accounts")).json(&json!({}));
        let made = self.shop.send(made).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let code = made.body["data"]["code"].as_str().unwrap();
        let said = self.say(user, &format!("connect {code}")).await;
        assert!(said.starts_with("connected to the Berth account"), "{said}");
    }

    /// The buttons in the last message to a channel or user.
    fn buttons_for(&self, channel: &str) -> Vec<Value> {
        let sent = self.slack.received_at("/api/chat.postMessage");
        let last = sent.iter().rfind(|it| it.body["channel"] == channel).expect("a message");
        let blocks = last.body["blocks"].as_array().unwrap();
        let actions = blocks.iter().filter(|block| block["type"] == "actions");
        actions.flat_map(|block| block["elements"].as_array().unwrap().clone()).collect()
    }

    async fn count_events(&self, kind: &str) -> usize {
        self.shop.world.event_kinds().await.iter().filter(|it| *it == kind).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_is_checked_with_slack_and_never_shows_its_secrets() {
    let slack = SlackFixture::new().await;
    let shown = slack.shop.send(get(&format!("{ORG}/slack")).with_account(&slack.shop.grace)).await;
    let connection = &shown.body["data"]["connection"];
    assert_eq!((&connection["workspaceId"], &connection["workspace"]), (&json!("T0ACME"), &json!("acme")));
    let url = format!("http://berth.localhost:8080{}", slack.hook);
    assert_eq!(shown.body["data"]["requestUrl"], url);
    assert_eq!(shown.body["data"]["manifest"]["settings"]["interactivity"]["request_url"], url);
    for secret in [SIGNING_SECRET, "xoxb-1"] {
        assert!(!shown.text.contains(secret), "{}", shown.text);
    }
    let refused = slack.connect("xoxb-wrong").await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("invalid_auth"), "{}", refused.text);
    assert_eq!(slack.count_events("slack_connected").await, 1);
    slack.link(&slack.shop.grace, GRACE).await;
    assert_eq!(slack.connect("xoxb-2").await.status, 200);
    assert!(
        slack.say(GRACE, "status").await.contains("qa-1"),
        "another token of the same app keeps the links"
    );
    let gone = call("DELETE", &format!("{ORG}/slack"));
    assert_eq!(slack.shop.send(gone.with_account(&slack.shop.ada)).await.status, 200);
    slack.send(&command(GRACE, "help")).await.assert_problem(404, "not_found");
    let rows = "SELECT (SELECT COUNT(*) FROM slack_connections) + (SELECT COUNT(*) FROM forge_accounts)";
    assert_eq!(slack.shop.world.count_rows(rows), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_app_cannot_act_with_the_accounts_that_were_linked_before() {
    let slack = SlackFixture::new().await;
    slack.link(&slack.shop.grace, GRACE).await;
    let secret = "a signing secret that only an attacker knows".replace(' ', "-");
    let body = json!({"signingSecret": secret, "botToken": "xoxb-1", "apiUrl": slack.slack.url("/api/")});
    let put = call("PUT", &format!("{ORG}/slack")).with_account(&slack.shop.ada).json(&body);
    assert_eq!(slack.shop.send(put).await.status, 200);
    let (body, seconds) = (command(GRACE, "claim qa-1"), now());
    let reply = slack.send_signed(&body, seconds, &sign(&secret, seconds, &body)).await;
    assert!(reply.text.contains("not linked"), "{}", reply.text);
    assert_eq!(slack.count_events("session_claimed").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_and_old_signatures_are_refused() {
    let slack = SlackFixture::new().await;
    slack.link(&slack.shop.grace, GRACE).await;
    let (body, seconds) = (command(GRACE, "claim shop/qa-1"), now());
    for (sent_at, signature) in [
        (seconds, sign("another secret", seconds, &body)),
        (seconds, sign(SIGNING_SECRET, seconds, &format!("{body}&x=y"))),
        (seconds, sign(SIGNING_SECRET, seconds - 1, &body)),
        (seconds - 400, sign(SIGNING_SECRET, seconds - 400, &body)),
        (seconds + 400, sign(SIGNING_SECRET, seconds + 400, &body)),
        (seconds, "v0=00".to_owned()),
        (seconds, String::new()),
    ] {
        slack.send_signed(&body, sent_at, &signature).await.assert_problem(401, "unauthenticated");
    }
    let unsigned = slack.shop.send(post(&slack.hook).raw(body.clone())).await;
    unsigned.assert_problem(401, "unauthenticated");
    let large = "x".repeat(300 * 1024);
    slack.send(&large).await.assert_problem(413, "body_too_large");
    let elsewhere = body.replace("T0ACME", "T0OTHER");
    slack.send(&elsewhere).await.assert_problem(401, "unauthenticated");
    assert_eq!(slack.count_events("session_claimed").await, 0);
    assert_eq!(slack.send(&body).await.status, 200);
    assert_eq!(slack.count_events("session_claimed").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replayed_request_acts_once() {
    let slack = SlackFixture::new().await;
    slack.link(&slack.shop.grace, GRACE).await;
    assert_eq!(slack.say(GRACE, "claim shop/qa-1").await.split(" until").next(), Some("You hold shop/qa-1."));
    let (body, seconds) = (command(GRACE, "extend qa-1 2h"), now());
    let signature = sign(SIGNING_SECRET, seconds, &body);
    assert_eq!(slack.send_signed(&body, seconds, &signature).await.status, 200);
    let replays =
        futures_util::future::join_all((0..4).map(|_| slack.send_signed(&body, seconds, &signature)));
    for replay in replays.await {
        replay.assert_problem(409, "invalid_state");
    }
    let upper = format!("v0={}", signature.trim_start_matches("v0=").to_ascii_uppercase());
    slack.send_signed(&body, seconds, &upper).await.assert_problem(409, "invalid_state");
    assert_eq!(slack.count_events("session_extended").await, 1);

    // A request that was refused cannot be replayed either, after the reason is gone.
    let (body, seconds) = (command("U0NEW", "release qa-1"), now());
    let signature = sign(SIGNING_SECRET, seconds, &body);
    assert_eq!(slack.send_signed(&body, seconds, &signature).await.status, 200);
    slack.link(&slack.shop.grace, "U0NEW").await;
    slack.send_signed(&body, seconds, &signature).await.assert_problem(409, "invalid_state");
    assert_eq!(slack.count_events("session_released").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_slack_are_limited_per_organization() {
    let local = AppConfig::local(([127, 0, 0, 1], 8080).into());
    let egress_allow = vec!["127.0.0.1".parse().unwrap()];
    let config = AppConfig { egress_allow, requests_per_s: 1, requests_burst: 50, ..local };
    let slack = SlackFixture::connect_to(NotificationFixture::with_config(config).await).await;
    for _ in 0..500 {
        let reply = slack.send(&command(GRACE, "help")).await;
        if reply.status != 200 {
            return reply.assert_problem(429, "rate_limited");
        }
    }
    panic!("500 requests were accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_slack_are_forgotten_after_a_quarter_of_an_hour() {
    let slack = SlackFixture::new().await;
    slack.say("U0NEW", "release qa-1").await;
    // More than one batch.
    slack.shop.world.run_sql(&format!(
        "INSERT INTO slack_requests (org_id, signature, received_at)
         WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 600)
         SELECT org_id, signature || '-' || i, received_at - {} FROM slack_requests, numbers",
        16 * 60 * 1_000_000_i64
    ));
    sweep(slack.shop.world.app.jobs()).await.unwrap();
    assert_eq!(slack.shop.world.count_rows("SELECT COUNT(*) FROM slack_requests"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn button_in_a_channel_acts_as_the_linked_member_with_their_permissions() {
    let slack = SlackFixture::new().await;
    let channel = json!({"name": "ops", "type": "slack_channel", "channel": "C0OPS"});
    slack.shop.post(&format!("{ORG}/chat-destinations"), &slack.shop.ada, &channel).await;
    let rules = json!([{"channel": "chat", "destination": "ops", "kinds": ["approval_requested"]}]);
    assert_eq!(slack.shop.put_organization_rules(&rules).await.status, 200);
    let approval = slack.shop.world.create_approval().await;
    slack.shop.send_chats().await;
    let sent = slack.slack.received_at("/api/chat.postMessage");
    assert_eq!(sent[0].authorization.as_deref(), Some("Bearer xoxb-1"));
    let buttons = slack.buttons_for("C0OPS");
    let [approve, reject] = buttons.as_slice() else { panic!("{buttons:?}") };
    assert_eq!((&approve["action_id"], &approve["value"]), (&json!("berth_approve"), &json!(approval)));
    assert_eq!(reject["confirm"]["confirm"]["text"], "Reject");

    let said = slack.press("U0STRANGER", approve).await;
    assert!(said.contains("not linked"), "{said}");
    let victor = slack.shop.world.create_member("victor@acme.test", "viewer").await;
    slack.link(&victor, "U0VICTOR").await;
    let said = slack.press("U0VICTOR", approve).await;
    assert!(
        said.contains("approvals:decide") || said.contains("not allowed") || said.contains("permission"),
        "{said}"
    );
    assert_eq!(slack.count_events("approval_voted").await + slack.count_events("approval_approved").await, 0);

    slack.link(&slack.shop.ada, ADA).await;
    assert_eq!(slack.press(ADA, approve).await, "You approved it.");
    let list = get(&format!("{ORG}/events?kind=approval_voted")).with_account(&slack.shop.ada);
    let event = slack.shop.send(list).await.body["data"][0].clone();
    assert_eq!(event["actor"]["name"], "ada", "{event}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_message_offers_actions_that_only_the_holder_can_do() {
    let slack = SlackFixture::new().await;
    slack.link(&slack.shop.grace, GRACE).await;
    let put = slack.shop.put_rules(&slack.shop.grace, &json!([{"channel": "chat"}])).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let session = slack.shop.claim(&slack.shop.grace, &json!({})).await;
    slack.shop.claim(&slack.shop.ada, &json!({"queue": true})).await;
    slack.shop.send_chats().await;
    let [give] = slack.buttons_for(GRACE).try_into().unwrap();
    assert_eq!(give["action_id"], "berth_yield");
    // Ada may release sessions of others, but a button does only what the holder may do.
    slack.link(&slack.shop.ada, ADA).await;
    slack.press(ADA, &give).await;
    assert_eq!(slack.shop.session(&session).await["status"], "active");
    assert_eq!(slack.press(GRACE, &give).await, "Your session was released.");
    assert_eq!(slack.shop.session(&session).await["status"], "released");
    assert_eq!(slack.press(GRACE, &give).await, "Your session had ended already.");

    // Without a link, there is nowhere to send a direct message.
    let host = "slack:t0acme";
    let path = format!("{ORG}/me/forge-accounts/{host}/{GRACE}");
    let unlinked = slack.shop.send(call("DELETE", &path).with_account(&slack.shop.grace)).await;
    assert_eq!(unlinked.status, 200, "{}", unlinked.text);
    slack.shop.force_claim(&slack.shop.grace, &json!({"reason": "x"})).await;
    slack.shop.force_claim(&slack.shop.ada, &json!({"reason": "y"})).await;
    slack.shop.create_notifications().await;
    assert_eq!(slack.shop.world.count_rows("SELECT COUNT(*) FROM chat_messages WHERE due_at IS NOT NULL"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slash_commands_claim_deploy_extend_and_release() {
    let slack = SlackFixture::new().await;
    let said = slack.say(GRACE, "connect").await;
    assert!(said.contains("/o/acme/profile"), "{said}");
    assert!(slack.say(GRACE, "status").await.contains("not linked"));
    assert!(slack.say(GRACE, "connect wrong").await.contains("not valid"));
    slack.link(&slack.shop.grace, GRACE).await;
    slack.link(&slack.shop.ada, ADA).await;
    for (user, text, wanted) in [
        (GRACE, "help", "The commands are"),
        (GRACE, "destroy", "unknown command"),
        (GRACE, "status", "shop/qa-1 is free"),
        (GRACE, "release qa-1", "you do not hold it"),
        (GRACE, "claim nothing", "there is no environment"),
        (GRACE, "claim qa-1", "You hold shop/qa-1"),
        (ADA, "status qa-1", "shop/qa-1 is held by grace"),
        (ADA, "claim qa-1", "grace"),
        (ADA, "queue shop/qa-1", "You are in the queue for shop/qa-1."),
        (ADA, "extend qa-1 1h", "you do not hold it: shop/qa-1 is held by grace"),
        (GRACE, "extend qa-1 2h", "Your session in shop/qa-1 does not expire"),
        (GRACE, "deploy qa-1 9fceb02", "Deploying 9fceb02 to shop/qa-1."),
        (GRACE, "release qa-1", "You released shop/qa-1."),
    ] {
        let said = slack.say(user, text).await;
        assert!(said.contains(wanted), "{text}: {said}");
    }
    let list = get(&format!("{ORG}/events?kind=session_released")).with_account(&slack.shop.ada);
    let event = slack.shop.send(list).await.body["data"][0].clone();
    assert_eq!(event["actor"]["id"], json!(slack.shop.user_id(&slack.shop.grace).await));
    let victor = slack.shop.world.create_member("victor@acme.test", "viewer").await;
    slack.link(&victor, "U0VICTOR").await;
    assert!(slack.say("U0VICTOR", "claim qa-1").await.contains("environments:claim"));
    let olga = slack.shop.world.create_member("olga@acme.test", "member").await;
    slack.link(&olga, "U0OLGA").await;
    assert!(slack.say("U0OLGA", "status qa-1").await.contains("there is no environment"));
}
