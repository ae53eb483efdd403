//! Who receives webhooks: the previous holder after a takeover, webhooks that a definition names, and chats.

use serde_json::{Value, json};

use super::{Answer, Harbour, Receiver};
use crate::follow::Stream;
use crate::world::{call, get, post};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";
const QA: &str = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/qa-1";

fn definition(more: &str) -> String {
    format!(
        "version: 1\npipeline:\n  name: Web\n  stages: [{{ name: staging }}]\n  ephemeral_environments: {{ qa-1: {{}} }}\n  \
         steps: [{{ name: Deploy, type: dummy }}]\n{more}"
    )
}

async fn make(harbour: &Harbour, slug: &str, definition: &str) -> Value {
    let body = json!({"slug": slug, "definition": definition});
    let made = harbour.world.send(post(PIPELINES).by(&harbour.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_webhook_describes_takeovers_and_grants() {
    let harbour = Harbour::open().await;
    make(&harbour, "web", &definition("")).await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let chat = Receiver::start(|_| Answer::Status(200)).await;
    let body = json!({"name": "chat", "url": chat.url(), "format": "slack",
        "kinds": ["session_overridden", "ticket_granted"]});
    assert_eq!(harbour.post("", &body).await.status, 201);

    let send = async |who: &crate::world::Account, path: &str, body: Value| {
        let done = harbour.world.send(post(&format!("{QA}{path}")).by(who).json(&body)).await;
        assert!(done.status.is_success(), "{}", done.text);
        done.body["data"].clone()
    };
    send(&bob, "/sessions", json!({})).await;
    let taken = send(&harbour.ada, "/force-claim", json!({"reason": "hotfix <!channel> & co"})).await;
    let lines = chat.heard(1).await;
    assert_eq!(
        lines[0].json(),
        json!({"text": "ada took qa-1 of web over from bob: hotfix &lt;!channel&gt; &amp; co"})
    );
    send(&bob, "/sessions", json!({"queue": true})).await;
    let session = taken["sessionId"].as_str().unwrap();
    let release = call("DELETE", &format!("{QA}/sessions/{session}")).by(&harbour.ada);
    assert_eq!(harbour.world.send(release).await.status, 200);
    let lines = chat.heard(2).await;
    assert_eq!(lines[1].json(), json!({"text": "bob was next in the queue and now holds qa-1 of web"}));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_summary_is_the_same_in_list_view_stream_and_webhook() {
    const EVENTS: &str = "/api/v1/organizations/acme/events";
    let harbour = Harbour::open().await;
    make(&harbour, "web", &definition("")).await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    harbour.webhook("ops", &receiver.url(), &["session_claimed"]).await;
    let claims = format!("{EVENTS}?kind=session_claimed");
    let mut stream = Stream::open(&harbour.world, get(&claims).by(&harbour.ada)).await;
    // The first summary needs the pipeline's slug from the store. For the second one, the stream has the slug in its
    // cache.
    for (number, context) in ["load test", "a \"second\" look"].into_iter().enumerate() {
        let claim = post(&format!("{QA}/sessions")).by(&harbour.ada).json(&json!({"context": context}));
        let session = harbour.world.send(claim).await.body["data"]["sessionId"].as_str().unwrap().to_owned();
        let summary = json!(format!("ada claimed qa-1 of web: {context}"));
        let streamed = stream.event().await.unwrap();
        let listed = harbour.world.send(get(&claims).by(&harbour.ada)).await.body["data"][0].clone();
        assert_eq!((&listed["summary"], &listed), (&summary, &streamed));
        let view = format!("{EVENTS}/{}", listed["id"].as_str().unwrap());
        assert_eq!(harbour.world.send(get(&view).by(&harbour.ada)).await.body["data"], listed);
        assert_eq!(receiver.heard(number + 1).await[number].json()["data"]["summary"], summary);
        let release = call("DELETE", &format!("{QA}/sessions/{session}")).by(&harbour.ada);
        assert_eq!(harbour.world.send(release).await.status, 200);
    }
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_notifications_name_webhooks_for_their_events() {
    let harbour = Harbour::open().await;
    let told = "  notifications: [{ webhook: ops, events: [pipeline_stopped, approval_requested] }]\n";
    let made = make(&harbour, "web", &definition(told)).await;
    assert_eq!(
        made["notifications"],
        json!([{"webhook": "ops", "webhookId": null, "events": ["pipeline_stopped", "approval_requested"]}])
    );
    assert_eq!(made["warnings"][0]["code"], "missing_webhook", "{made}");
    let validate = async || {
        let body = json!({"definition": definition(told)});
        let path = format!("{PIPELINES}/validate");
        harbour.world.send(post(&path).by(&harbour.ada).json(&body)).await.body["data"].clone()
    };
    let warned = validate().await;
    let found = &warned["diagnostics"][0];
    assert_eq!(
        (&warned["valid"], &found["code"], &found["severity"]),
        (&json!(true), &json!("missing_webhook"), &json!("warning")),
        "{warned}"
    );
    assert_eq!(found["pointer"], "/pipeline/notifications/0/webhook");

    make(&harbour, "other", &definition("")).await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    harbour.webhook("ops", &receiver.url(), &["member_removed"]).await;
    let seen =
        harbour.world.send(get(&format!("{PIPELINES}/web")).by(&harbour.ada)).await.body["data"].clone();
    assert_eq!(
        (&seen["warnings"], seen["notifications"][0]["webhookId"].is_string()),
        (&json!([]), true),
        "{seen}"
    );
    assert_eq!(validate().await["diagnostics"], json!([]));

    harbour.stop_and_resume("other").await;
    harbour.stop_and_resume("web").await;
    let arrived = receiver.heard(1).await;
    assert_eq!(arrived[0].json()["data"]["subjects"][0]["name"], "web");
    harbour.until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    assert_eq!(
        harbour.see("/ops/deliveries").await.as_array().unwrap().len(),
        1,
        "not of other kinds or pipelines"
    );
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_notification_of_an_unknown_event_is_an_error() {
    let harbour = Harbour::open().await;
    let told = "  notifications: [{ webhook: ops, events: [deployment_fialed] }]\n";
    let body = json!({"slug": "web", "definition": definition(told)});
    let refused = harbour.world.send(post(PIPELINES).by(&harbour.ada).json(&body)).await;
    refused.is(422, "pipeline_invalid");
    assert_eq!(refused.body["diagnostics"][0]["suggestion"], "deployment_failed", "{}", refused.text);
    harbour.close().await;
}
