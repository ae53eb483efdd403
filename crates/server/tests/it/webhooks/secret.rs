//! Signing secrets: shown once, stored encrypted, and rotated without an interruption.

use serde_json::json;

use super::{ReceiverResponse, WEBHOOKS, WebhookFixture, WebhookReceiver};
use crate::world::{get, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_secret_rotation_signs_with_up_to_three_secrets() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    let mut secrets = vec![fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped"]).await];
    for round in 1..=3 {
        let rotated = fixture.post("/ops/rotate", &json!({})).await;
        assert_eq!(rotated.status, 200, "{}", rotated.text);
        assert!(rotated.body["data"]["oldSecretUntil"].is_string());
        secrets.push(rotated.body["data"]["secret"].as_str().unwrap().to_owned());
        fixture.stop_and_resume("shop").await;
        let arrived = receiver.wait_for_requests(round).await.pop().unwrap();
        let good: Vec<bool> = secrets.iter().map(|secret| arrived.is_signed_with(secret)).collect();
        let wanted = match round {
            1 => vec![true, true],
            2 => vec![true, true, true],
            _ => vec![false, true, true, true],
        };
        assert_eq!(good, wanted, "round {round}");
    }
    assert_eq!(fixture.world.event_kinds().await.iter().filter(|kind| *kind == "webhook_rotated").count(), 3);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_secret_is_shown_once_and_stored_encrypted() {
    let fixture = WebhookFixture::start().await;
    let body = json!({"name": "ops", "url": "https://hooks.acme.test/", "kinds": ["*"]});
    let create = || post(WEBHOOKS).with_account(&fixture.ada).header("idempotency-key", "k").json(&body);
    let made = fixture.world.send(create()).await;
    let secret = made.body["data"]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let again = fixture.world.send(create()).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (&again.body["data"]["secret"], &again.body["data"]["id"]),
        (&json!(null), &made.body["data"]["id"])
    );
    for path in ["", "/ops"] {
        let seen = fixture.world.send(get(&format!("{WEBHOOKS}{path}")).with_account(&fixture.ada)).await;
        assert!(!seen.text.contains("secret\":") && !seen.text.contains(&secret[6..]), "{}", seen.text);
    }
    let dir = fixture.world.dir.path().to_owned();
    let (mut looked, bare) = (0, &secret.as_bytes()[6..]);
    for entry in
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&entry).unwrap();
        assert!(!bytes.windows(bare.len()).any(|part| part == bare), "{}", entry.display());
        looked += 1;
    }
    assert!(looked > 1);
    fixture.shut_down().await;
}
