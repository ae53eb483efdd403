//! Regular verification: refused refresh, provider down, and suspended API tokens.

use serde_json::json;

use super::super::world::{get, post};
use super::{TestProvider, age_confirmation, check_now, create_token};

const STALE_S: i64 = 15 * 60;

#[tokio::test]
async fn refused_refresh_ends_logins_and_suspends_tokens_until_the_next_login() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let browser = provider.browser(&world).await;
    let token = create_token(&world, &browser).await;
    // Refresh tokens are used once: the provider refuses one that it has replaced.
    for _ in 0..3 {
        check_now(&world).await;
    }
    assert_eq!(provider.fetch_requests()["refreshes"], 3);
    assert_eq!(world.send(get("/api/v1/me").token(&token)).await.status, 200);
    assert_eq!(world.send(browser.get("/api/v1/me")).await.status, 200);

    provider.set(&json!({"refresh": "refused"}));
    check_now(&world).await;
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    let suspended = world.send(get("/api/v1/organizations/acme/members").token(&token)).await;
    suspended.assert_problem(401, "identity_unverified");
    assert!(suspended.body["detail"].as_str().unwrap().contains("suspended"), "{}", suspended.text);
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("access_suspended"));
    check_now(&world).await;
    assert_eq!(provider.fetch_requests()["refreshes"], 4, "a refused account is not checked again");

    provider.set(&json!({"refresh": "ok"}));
    assert_eq!(provider.log_in(&world).await.status, 303);
    assert_eq!(world.send(get("/api/v1/me").token(&token)).await.status, 200);
    assert!(world.event_kinds().await.contains(&"access_restored".to_owned()));
}

#[tokio::test]
async fn unreachable_provider_fails_closed_after_fifteen_minutes() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let browser = provider.browser(&world).await;
    let token = create_token(&world, &browser).await;
    for outage in [json!({"isDown": true}), json!({"isDown": false, "refresh": "broken"})] {
        provider.set(&outage);
        check_now(&world).await;
        assert_eq!(world.send(browser.get("/api/v1/me")).await.status, 200, "{outage}");
        assert_eq!(world.send(get("/api/v1/me").token(&token)).await.status, 200, "{outage}");
    }
    age_confirmation(&world, STALE_S);
    let path = "/api/v1/organizations/acme/members";
    world.send(browser.get(path)).await.assert_problem(401, "identity_unverified");
    // The server caches the token until the confirmation expires, which was moved behind its back.
    let team = json!({"slug": "invalidates-the-cache"});
    let team = post("/api/v1/organizations/acme/teams").with_account(&world.ada).json(&team);
    assert_eq!(world.send(team).await.status, 201);
    world.send(get(path).token(&token)).await.assert_problem(401, "identity_unverified");

    provider.set(&json!({"refresh": "ok"}));
    check_now(&world).await;
    assert_eq!(world.send(browser.get(path)).await.status, 200);
    assert_eq!(world.send(get(path).token(&token)).await.status, 200);
}

#[tokio::test]
async fn login_without_refresh_token_is_valid_for_fifteen_minutes() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&json!({"issuesRefreshTokens": false}));
    let browser = provider.browser(&world).await;
    check_now(&world).await;
    assert_eq!(world.send(browser.get("/api/v1/me")).await.status, 200);
    age_confirmation(&world, STALE_S);
    check_now(&world).await;
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "identity_unverified");
    assert_eq!(provider.fetch_requests()["refreshes"], 0);
}

#[tokio::test]
async fn local_owner_is_not_locked_out_while_the_provider_is_down() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    assert_eq!(provider.link(&world, &ada).await.status, 303);
    let through_provider = provider.browser(&world).await;

    provider.set(&json!({"isDown": true}));
    age_confirmation(&world, STALE_S);
    check_now(&world).await;
    for browser in [&ada, &through_provider] {
        assert_eq!(world.send(browser.get("/api/v1/organizations/acme/members")).await.status, 200);
    }
    world.run_sql("UPDATE api_tokens SET last_used_at = 0");
    assert_eq!(world.send(get("/api/v1/me").with_account(&world.ada)).await.status, 200);
    // Not so a member without that role.
    world.run_sql("UPDATE memberships SET role = 'admin', version = version + 1");
    world.send(through_provider.get("/api/v1/me")).await.assert_problem(401, "identity_unverified");
    world.run_sql("UPDATE api_tokens SET last_used_at = 0");
    world.send(get("/api/v1/me").with_account(&world.ada)).await.assert_problem(401, "identity_unverified");
    // A login with the password counts from now on.
    let password = json!({"email": world.ada.email, "password": world.ada.password});
    assert_eq!(world.send(post("/api/v1/auth/login").json(&password)).await.status, 200);
    assert_eq!(world.send(get("/api/v1/me").with_account(&world.ada)).await.status, 200);
}

#[tokio::test]
async fn refresh_that_confirms_another_account_is_refused() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let browser = provider.browser(&world).await;
    provider.set(&json!({"fault": "wrong_key"}));
    check_now(&world).await;
    assert_eq!(world.send(browser.get("/api/v1/me")).await.status, 200, "an invalid token proves nothing");
    // The refresh token was used up, so the next check is refused.
    provider.set(&json!({"fault": null, "claims": {"sub": "u-2", "email": "eve@acme.test"}}));
    let other = provider.browser(&world).await;
    check_now(&world).await;
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(other.get("/api/v1/me")).await.status, 200);
}
