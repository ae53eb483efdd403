//! Logging in with a cookie: accounts, client addresses, rate limits and expiry.

use berth_server::config::AppConfig;
use serde_json::json;

use super::world::{TestRequest, TestWorld, get, post};

fn log_in(email: &str, password: &str) -> TestRequest {
    post("/api/v1/auth/login").json(&json!({"email": email, "password": password}))
}

#[tokio::test]
async fn log_in_and_log_out_with_a_cookie() {
    let world = TestWorld::new().await;
    let reply = world.send(log_in("ADA@acme.test", &world.ada.password)).await;
    assert_eq!(reply.status, 200);
    let cookie = reply.header("set-cookie");
    for part in ["berth_local=berth_web_", "HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    assert_eq!(world.send(browser.get("/api/v1/organizations/acme/pipelines")).await.status, 200);
    let out = world.send(browser.post("/api/v1/auth/logout")).await;
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    let kinds = world.event_kinds().await;
    assert_eq!(&kinds[3..], ["login_succeeded", "login_succeeded", "login_ended"]);
}

#[tokio::test]
async fn cookie_write_needs_same_origin_and_csrf_token() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let other = world.log_in(&world.ada.email, &world.ada.password).await;
    let path = "/api/v1/organizations/acme/api-tokens";
    let change = |csrf: &str| {
        let call = post(path).header("cookie", &ada.cookie).json(&json!({"name": "x"}));
        if csrf.is_empty() { call } else { call.header("x-berth-csrf", csrf) }
    };
    world.send(change("")).await.assert_problem(403, "forbidden");
    world.send(change("nonsense")).await.assert_problem(403, "forbidden");
    world.send(change(&other.csrf)).await.assert_problem(403, "forbidden");
    world
        .send(change(&ada.csrf).header("sec-fetch-site", "cross-site"))
        .await
        .assert_problem(403, "forbidden");
    let foreign = change(&ada.csrf).header("origin", "https://evil.test");
    world.send(foreign).await.assert_problem(403, "forbidden");
    let own = change(&ada.csrf).header("origin", "http://berth.test");
    assert_eq!(world.send(own).await.status, 201);
    let cross = log_in(&world.ada.email, &world.ada.password).header("sec-fetch-site", "cross-site");
    world.send(cross).await.assert_problem(403, "forbidden");
}

#[tokio::test]
async fn log_in_failure_is_the_same_for_unknown_email_and_wrong_password() {
    let world = TestWorld::new().await;
    let wrong = world.send(log_in(&world.ada.email, "not the password at all")).await;
    let unknown = world.send(log_in("unknown@acme.test", "not the password at all")).await;
    wrong.assert_problem(401, "unauthenticated");
    assert_eq!((unknown.status, &unknown.body["detail"]), (wrong.status, &wrong.body["detail"]));
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("login_failed"));
}

#[tokio::test]
async fn log_in_rate_limit_ignores_email_spelling() {
    let world = TestWorld::new().await;
    for n in 0..10 {
        let email = if n % 2 == 0 { "ada@acme.test" } else { " ADA@acme.TEST" };
        world.send(log_in(email, "wrong wrong wrong")).await.assert_problem(401, "unauthenticated");
    }
    let refused = world.send(log_in(&world.ada.email, &world.ada.password)).await;
    refused.assert_problem(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(world.send(log_in(&world.hank.email, &world.hank.password)).await.status, 200);
}

#[tokio::test]
async fn log_in_failures_from_other_addresses_lock_no_account_out() {
    let world = TestWorld::new().await;
    let stranger = [203, 0, 113, 7].into();
    for _ in 0..10 {
        let wrong = log_in(&world.ada.email, "wrong wrong wrong");
        world.send_from(wrong, stranger).await.assert_problem(401, "unauthenticated");
    }
    let right = || log_in(&world.ada.email, &world.ada.password);
    world.send_from(right(), stranger).await.assert_problem(429, "rate_limited");
    assert_eq!(world.send(right()).await.status, 200);
}

#[tokio::test]
async fn log_in_from_a_known_browser_has_its_own_rate_limit() {
    let world = TestWorld::new().await;
    let reply = world.send(log_in(&world.ada.email, &world.ada.password)).await;
    let cookies: Vec<_> = reply.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap()).collect();
    let known = cookies.iter().find(|it| it.starts_with("berth_local-browser=")).unwrap();
    let known = known.split(';').next().unwrap();
    for _ in 0..10 {
        world
            .send(log_in(&world.ada.email, "wrong wrong wrong"))
            .await
            .assert_problem(401, "unauthenticated");
    }
    let right = || log_in(&world.ada.email, &world.ada.password);
    world.send(right()).await.assert_problem(429, "rate_limited");
    assert_eq!(world.send(right().header("cookie", known)).await.status, 200);
    // A forged cookie does not help, and the known browser has a limit too.
    let forged = right().header("cookie", "berth_local-browser=aaaa.bbbb");
    world.send(forged).await.assert_problem(429, "rate_limited");
    for _ in 0..10 {
        let wrong = log_in(&world.ada.email, "wrong wrong wrong").header("cookie", known);
        world.send(wrong).await.assert_problem(401, "unauthenticated");
    }
    world.send(right().header("cookie", known)).await.assert_problem(429, "rate_limited");
}

#[tokio::test]
async fn log_in_rate_limit_holds_for_concurrent_attempts() {
    let world = TestWorld::new().await;
    let tries = (0..34).map(|_| world.send(log_in(&world.ada.email, "wrong wrong wrong")));
    let replies = futures_util::future::join_all(tries).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 401).count(), 10);
    assert_eq!(replies.iter().filter(|reply| reply.status == 429).count(), 24);
}

#[tokio::test]
async fn password_change_ends_other_log_ins() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let other = world.log_in(&world.ada.email, &world.ada.password).await;
    let change = |current: &str, new: &str| {
        ada.post("/api/v1/me/password").json(&json!({"currentPassword": current, "newPassword": new}))
    };
    let good = "a quiet harbour at dawn";
    world.send(change("wrong", good)).await.assert_problem(400, "invalid_request");
    world.send(change(&world.ada.password, "short")).await.assert_problem(400, "invalid_request");
    world
        .send(change(&world.ada.password, "ada@acme.test ada@acme.test"))
        .await
        .assert_problem(400, "invalid_request");
    let keyed = || change(&world.ada.password, good).header("idempotency-key", "k");
    let changed = world.send(keyed()).await;
    let again = world.send(keyed()).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(again.body["data"]["csrfToken"], json!(null), "it is not stored");
    assert_eq!(changed.body["data"]["user"]["passwordIsGenerated"], false);
    assert_eq!(world.send(ada.get("/api/v1/me")).await.status, 200);
    world.send(other.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    world.log_in(&world.ada.email, good).await;
    world.send(log_in(&world.ada.email, &world.ada.password)).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn token_identifies_its_user_and_cannot_log_out() {
    let world = TestWorld::new().await;
    let me = world.send(get("/api/v1/me").with_account(&world.ada)).await;
    assert_eq!(me.body["data"]["csrfToken"], json!(null));
    assert_eq!(me.body["data"]["organizations"][0]["slug"], "acme");
    world
        .send(post("/api/v1/auth/logout").with_account(&world.ada))
        .await
        .assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn log_in_over_plain_http_explains_why_it_fails() {
    let world = TestWorld::with_config(AppConfig::local(([0, 0, 0, 0], 8080).into())).await;
    let reply = world.send(log_in(&world.ada.email, &world.ada.password)).await;
    reply.assert_problem(409, "invalid_state");
    assert!(reply.text.contains("https"));
}

#[tokio::test]
async fn log_in_cookie_over_https_has_the_host_prefix() {
    let mut config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    config.public_url = Some("https://berth.acme.test".into());
    let world = TestWorld::with_config(config).await;
    let reply = world.send(log_in(&world.ada.email, &world.ada.password)).await;
    let cookie = reply.header("set-cookie");
    assert!(cookie.starts_with("__Host-berth=") && cookie.contains("Secure"), "{cookie}");
    assert_eq!(reply.header("strict-transport-security"), "max-age=31536000");
}

#[tokio::test]
async fn password_change_attempts_are_rate_limited() {
    let world = TestWorld::new().await;
    let guess = || {
        let body = json!({"currentPassword": "wrong wrong wrong", "newPassword": "a quiet harbour at dawn"});
        post("/api/v1/me/password").with_account(&world.ada).json(&body)
    };
    for _ in 0..10 {
        world.send(guess()).await.assert_problem(400, "invalid_request");
    }
    world.send(guess()).await.assert_problem(429, "rate_limited");
}

#[tokio::test]
async fn password_change_with_a_token_ends_every_log_in() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "viewer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    let change = |from: &str, to: &str| json!({"currentPassword": from, "newPassword": to});
    let first = change(&grace.password, "a quiet harbour at dawn");
    assert_eq!(world.send(post("/api/v1/me/password").with_account(&grace).json(&first)).await.status, 200);
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");

    let browser = world.log_in(&grace.email, "a quiet harbour at dawn").await;
    let id =
        world.send(browser.get("/api/v1/me")).await.body["data"]["user"]["id"].as_str().unwrap().to_owned();
    let remove = super::world::call("DELETE", &format!("/api/v1/organizations/acme/members/{id}"));
    assert_eq!(world.send(remove.with_account(&world.ada)).await.status, 200);
    let second = change("a quiet harbour at dawn", "the tide comes back at noon");
    let changed = world.send(browser.post("/api/v1/me/password").json(&second)).await;
    assert_eq!((changed.status.as_u16(), &changed.body["data"]["organizations"]), (200, &json!([])));
}

#[tokio::test]
async fn password_change_ends_concurrent_log_ins() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let body = json!({"currentPassword": world.ada.password, "newPassword": "a quiet harbour at dawn"});
    // Other clients keep logging in, so that some of these logins are in progress during the change.
    let is_done = std::cell::Cell::new(false);
    let change = async {
        let changed = world.send(ada.post("/api/v1/me/password").json(&body)).await;
        is_done.set(true);
        changed
    };
    let others = (0..4).map(|_| async {
        let mut replies = Vec::new();
        while !is_done.get() {
            replies.push(world.send(log_in(&world.ada.email, &world.ada.password)).await);
        }
        replies
    });
    let (changed, replies) = tokio::join!(change, futures_util::future::join_all(others));
    assert_eq!(changed.status, 200, "{}", changed.text);
    for reply in replies.iter().flatten().filter(|reply| reply.status == 200) {
        let cookie = reply.header("set-cookie").split(';').next().unwrap();
        world.send(get("/api/v1/me").header("cookie", cookie)).await.assert_problem(401, "unauthenticated");
    }
    assert_eq!(world.send(ada.get("/api/v1/me")).await.status, 200);
}
