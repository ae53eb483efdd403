//! ID tokens that must be refused, key rotation, and clock skew.

use serde_json::json;

use super::{TestProvider, TestWorld};

/// Faults of `provider.mjs`, and a part of the message.
const FAULTS: &[(&str, &str)] = &[
    ("issuer", "another issuer"),
    ("audience", "another client"),
    ("extra_audience", "another client"),
    ("nonce", "another login"),
    ("no_nonce", "another login"),
    ("not_before", "not valid yet"),
    ("none", "not signed"),
    ("hs256_public_key", "algorithm that is not allowed"),
    ("hs256_client_secret", "algorithm that is not allowed"),
    ("wrong_key", "signature"),
    ("unknown_key", "unknown key"),
    ("changed_payload", "signature"),
];

async fn assert_refused(provider: &TestProvider, world: &TestWorld, what: &str, message: &str) {
    let reply = provider.log_in(world).await;
    reply.assert_problem(403, "provider_login_failed");
    let detail = reply.body["detail"].as_str().unwrap();
    assert!(detail.contains(message), "{what}: {detail}");
    world.run_sql("DELETE FROM sign_in_failures");
}

#[tokio::test]
async fn id_token_with_a_fault_is_refused() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let before = world.event_kinds().await;
    for (fault, message) in FAULTS {
        provider.set(&json!({"fault": fault}));
        assert_refused(&provider, &world, fault, message).await;
    }
    assert_eq!(world.event_kinds().await, before, "no account was created");
    provider.set(&json!({"fault": null}));
    assert_eq!(provider.log_in(&world).await.status, 303);
}

#[tokio::test]
async fn id_token_times_tolerate_a_minute_of_clock_skew() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    for (expires, issued) in [(-40, 0), (300, 50)] {
        provider.set(&json!({"expires": expires, "issued": issued}));
        let reply = provider.log_in(&world).await;
        assert_eq!(reply.status, 303, "{expires} {issued}: {}", reply.text);
    }
    provider.set(&json!({"expires": -62, "issued": 0}));
    assert_refused(&provider, &world, "expired", "has expired").await;
    provider.set(&json!({"expires": 300, "issued": 75}));
    assert_refused(&provider, &world, "early", "issued in the future").await;
}

#[tokio::test]
async fn provider_keys_are_fetched_again_after_a_rotation() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    assert_eq!(provider.log_in(&world).await.status, 303);
    provider.set(&json!({"rotateKeys": true}));
    assert_eq!(provider.log_in(&world).await.status, 303);
}

#[tokio::test]
async fn provider_that_rejects_the_client_secret_is_reported() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&json!({"secret": "changed"}));
    assert_refused(&provider, &world, "secret", "check its configuration").await;
    provider.set(&json!({"isDown": true}));
    let started = super::super::world::post(super::LOGIN);
    // The discovery document is cached, so the login starts.
    assert_eq!(world.send(started).await.status, 200);
    let fresh = provider.world(|_| ()).await;
    fresh.send(super::super::world::post(super::LOGIN)).await.assert_problem(503, "unavailable");
}
