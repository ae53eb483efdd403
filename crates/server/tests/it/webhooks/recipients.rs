//! Who receives webhooks: the previous holder after a takeover, webhooks that a definition names, and chats.

use serde_json::{Value, json};

use super::{ReceiverResponse, WebhookFixture, WebhookReceiver};
use crate::event_streams::EventStream;
use crate::world::{call, get, post};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";
const QA: &str = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/qa-1";

fn definition(more: &str) -> String {
    format!(
        "version: 1\npipeline:\n  name: Web\n  stages: [{{ name: staging }}]\n  ephemeral_environments: {{ qa-1: {{}} }}\n  \
         steps: [{{ name: Deploy, type: dummy }}]\n{more}"
    )
}

async fn create_pipeline(fixture: &WebhookFixture, slug: &str, definition: &str) -> Value {
    let body = json!({"slug": slug, "definition": definition});
    let made = fixture.world.send(post(PIPELINES).with_account(&fixture.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_webhook_describes_takeovers_and_grants() {
    let fixture = WebhookFixture::start().await;
    create_pipeline(&fixture, "web", &definition("")).await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let chat = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    let body = json!({"name": "chat", "url": chat.url(), "format": "slack",
        "kinds": ["session_overridden", "ticket_granted"]});
    assert_eq!(fixture.post("", &body).await.status, 201);

    let send = async |who: &crate::world::MemberAccount, path: &str, body: Value| {
        let done = fixture.world.send(post(&format!("{QA}{path}")).with_account(who).json(&body)).await;
        assert!(done.status.is_success(), "{}", done.text);
        done.body["data"].clone()
    };
    send(&bob, "/sessions", json!({})).await;
    let taken = send(&fixture.ada, "/force-claim", json!({"reason": "hotfix <!channel> & co"})).await;
    let lines = chat.wait_for_requests(1).await;
    assert_eq!(
        lines[0].json(),
        json!({"text": "ada took qa-1 of web over from bob: hotfix &lt;!channel&gt; &amp; co"})
    );
    send(&bob, "/sessions", json!({"queue": true})).await;
    let session = taken["sessionId"].as_str().unwrap();
    let release = call("DELETE", &format!("{QA}/sessions/{session}")).with_account(&fixture.ada);
    assert_eq!(fixture.world.send(release).await.status, 200);
    let lines = chat.wait_for_requests(2).await;
    assert_eq!(lines[1].json(), json!({"text": "bob was next in the queue and now holds qa-1 of web"}));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_summary_is_the_same_in_list_view_stream_and_webhook() {
    const EVENTS: &str = "/api/v1/organizations/acme/events";
    let fixture = WebhookFixture::start().await;
    create_pipeline(&fixture, "web", &definition("")).await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    fixture.create_webhook("ops", &receiver.url(), &["session_claimed"]).await;
    let claims = format!("{EVENTS}?kind=session_claimed");
    let mut stream = EventStream::open(&fixture.world, get(&claims).with_account(&fixture.ada)).await;
    // The first summary needs the pipeline's slug from the store. For the second one, the stream has the slug in its
    // cache.
    for (number, context) in ["load test", "a \"second\" look"].into_iter().enumerate() {
        let claim =
            post(&format!("{QA}/sessions")).with_account(&fixture.ada).json(&json!({"context": context}));
        let session = fixture.world.send(claim).await.body["data"]["sessionId"].as_str().unwrap().to_owned();
        let summary = json!(format!("ada claimed qa-1 of web: {context}"));
        let streamed = stream.next_event().await.unwrap();
        let listed =
            fixture.world.send(get(&claims).with_account(&fixture.ada)).await.body["data"][0].clone();
        assert_eq!((&listed["summary"], &listed), (&summary, &streamed));
        let view = format!("{EVENTS}/{}", listed["id"].as_str().unwrap());
        assert_eq!(fixture.world.send(get(&view).with_account(&fixture.ada)).await.body["data"], listed);
        assert_eq!(receiver.wait_for_requests(number + 1).await[number].json()["data"]["summary"], summary);
        let release = call("DELETE", &format!("{QA}/sessions/{session}")).with_account(&fixture.ada);
        assert_eq!(fixture.world.send(release).await.status, 200);
    }
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_notifications_name_webhooks_for_their_events() {
    let fixture = WebhookFixture::start().await;
    let told = "  notifications: [{ webhook: ops, events: [pipeline_stopped, approval_requested] }]\n";
    let made = create_pipeline(&fixture, "web", &definition(told)).await;
    assert_eq!(
        made["notifications"],
        json!([{"webhook": "ops", "webhookId": null, "events": ["pipeline_stopped", "approval_requested"]}])
    );
    assert_eq!(made["warnings"][0]["code"], "missing_webhook", "{made}");
    let validate = async || {
        let body = json!({"definition": definition(told)});
        let path = format!("{PIPELINES}/validate");
        fixture.world.send(post(&path).with_account(&fixture.ada).json(&body)).await.body["data"].clone()
    };
    let warned = validate().await;
    let found = &warned["diagnostics"][0];
    assert_eq!(
        (&warned["valid"], &found["code"], &found["severity"]),
        (&json!(true), &json!("missing_webhook"), &json!("warning")),
        "{warned}"
    );
    assert_eq!(found["pointer"], "/pipeline/notifications/0/webhook");

    create_pipeline(&fixture, "other", &definition("")).await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    fixture.create_webhook("ops", &receiver.url(), &["member_removed"]).await;
    let seen =
        fixture.world.send(get(&format!("{PIPELINES}/web")).with_account(&fixture.ada)).await.body["data"]
            .clone();
    assert_eq!(
        (&seen["warnings"], seen["notifications"][0]["webhookId"].is_string()),
        (&json!([]), true),
        "{seen}"
    );
    assert_eq!(validate().await["diagnostics"], json!([]));

    fixture.stop_and_resume("other").await;
    fixture.stop_and_resume("web").await;
    let arrived = receiver.wait_for_requests(1).await;
    assert_eq!(arrived[0].json()["data"]["subjects"][0]["name"], "web");
    fixture.wait_until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    assert_eq!(
        fixture.fetch("/ops/deliveries").await.as_array().unwrap().len(),
        1,
        "not of other kinds or pipelines"
    );
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_notification_of_an_unknown_event_is_an_error() {
    let fixture = WebhookFixture::start().await;
    let told = "  notifications: [{ webhook: ops, events: [deployment_fialed] }]\n";
    let body = json!({"slug": "web", "definition": definition(told)});
    let refused = fixture.world.send(post(PIPELINES).with_account(&fixture.ada).json(&body)).await;
    refused.assert_problem(422, "pipeline_invalid");
    assert_eq!(refused.body["diagnostics"][0]["suggestion"], "deployment_failed", "{}", refused.text);
    fixture.shut_down().await;
}
