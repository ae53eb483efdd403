//! Signing secrets: shown once, stored encrypted, and rotated without an interruption.

use serde_json::json;

use super::{Answer, Harbour, Receiver, WEBHOOKS};
use crate::world::{get, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_secret_rotation_signs_with_up_to_three_secrets() {
    let harbour = Harbour::open().await;
    harbour.world.pipeline("shop").await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let mut secrets = vec![harbour.webhook("ops", &receiver.url(), &["pipeline_stopped"]).await];
    for round in 1..=3 {
        let rotated = harbour.post("/ops/rotate", &json!({})).await;
        assert_eq!(rotated.status, 200, "{}", rotated.text);
        assert!(rotated.body["data"]["oldSecretUntil"].is_string());
        secrets.push(rotated.body["data"]["secret"].as_str().unwrap().to_owned());
        harbour.stop_and_resume("shop").await;
        let arrived = receiver.heard(round).await.pop().unwrap();
        let good: Vec<bool> = secrets.iter().map(|secret| arrived.is_signed_with(secret)).collect();
        let wanted = match round {
            1 => vec![true, true],
            2 => vec![true, true, true],
            _ => vec![false, true, true, true],
        };
        assert_eq!(good, wanted, "round {round}");
    }
    assert_eq!(harbour.world.kinds().await.iter().filter(|kind| *kind == "webhook_rotated").count(), 3);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_secret_is_shown_once_and_stored_encrypted() {
    let harbour = Harbour::open().await;
    let body = json!({"name": "ops", "url": "https://hooks.acme.test/", "kinds": ["*"]});
    let create = || post(WEBHOOKS).by(&harbour.ada).header("idempotency-key", "k").json(&body);
    let made = harbour.world.send(create()).await;
    let secret = made.body["data"]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let again = harbour.world.send(create()).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (&again.body["data"]["secret"], &again.body["data"]["id"]),
        (&json!(null), &made.body["data"]["id"])
    );
    for path in ["", "/ops"] {
        let seen = harbour.world.send(get(&format!("{WEBHOOKS}{path}")).by(&harbour.ada)).await;
        assert!(!seen.text.contains("secret\":") && !seen.text.contains(&secret[6..]), "{}", seen.text);
    }
    let dir = harbour.world.dir.path().to_owned();
    let (mut looked, bare) = (0, &secret.as_bytes()[6..]);
    for entry in
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&entry).unwrap();
        assert!(!bytes.windows(bare.len()).any(|part| part == bare), "{}", entry.display());
        looked += 1;
    }
    assert!(looked > 1);
    harbour.close().await;
}
