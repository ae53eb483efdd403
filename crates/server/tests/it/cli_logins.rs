//! Logins of the CLI: approval in the browser, loopback redirect with PKCE, device codes, limits and expiry.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::world::{BrowserSession, TestWorld, get, post};

const START: &str = "/api/v1/auth/cli-logins";
const TOKEN: &str = "/api/v1/auth/cli-logins/token";
const FIND: &str = "/api/v1/auth/cli-logins/find";
const DENY: &str = "/api/v1/auth/cli-logins/deny";
const APPROVE: &str = "/api/v1/organizations/acme/cli-logins";
const VERIFIER: &str = "a-verifier-that-is-long-enough-for-rfc-7636-ok";
const STATE: &str = "state-0123456789abcdef";
const SECOND_MICROS: i64 = 1_000_000;

fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, VERIFIER.as_bytes()))
}

async fn start(world: &TestWorld, body: Value) -> Value {
    let reply = world.send(post(START).json(&body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

async fn start_device(world: &TestWorld) -> Value {
    start(world, json!({"machine": "build-7"})).await
}

async fn start_local(world: &TestWorld) -> Value {
    let body = json!({
        "machine": "laptop", "redirectPort": 40123, "codeChallenge": challenge(), "state": STATE
    });
    start(world, body).await
}

async fn poll(world: &TestWorld, started: &Value) -> Value {
    exchange(world, json!({"deviceCode": started["deviceCode"]})).await
}

async fn exchange(world: &TestWorld, body: Value) -> Value {
    let reply = world.send(post(TOKEN).json(&body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

async fn approve(world: &TestWorld, browser: &BrowserSession, started: &Value) -> Value {
    let body = json!({"userCode": started["userCode"], "expiresInDays": 30});
    let reply = world.send(browser.post(APPROVE).json(&body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

/// The code in the address that the browser is redirected to.
fn redirect_code(decision: &Value) -> String {
    let url = decision["redirectTo"].as_str().unwrap();
    let rest = url.strip_prefix("http://127.0.0.1:40123/callback?code=").unwrap_or_else(|| panic!("{url}"));
    let (code, state) = rest.split_once("&state=").unwrap();
    assert_eq!(state, STATE);
    code.to_owned()
}

#[tokio::test]
async fn device_login_gives_a_token_once() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_device(&world).await;
    let code = started["userCode"].as_str().unwrap();
    assert!(started["verificationUriComplete"].as_str().unwrap().ends_with(&format!("/device#{code}")));
    assert_eq!((&started["intervalSeconds"], &started["expiresInSeconds"]), (&json!(5), &json!(600)));
    assert_eq!(poll(&world, &started).await["status"], "pending");

    let spelled = code.replace('-', " ").to_lowercase();
    let found = world.send(ada.post(FIND).json(&json!({"userCode": spelled}))).await;
    assert_eq!(
        (&found.body["data"]["machine"], &found.body["data"]["isLocal"]),
        (&json!("build-7"), &json!(false)),
        "{}",
        found.text
    );
    assert_eq!(approve(&world, &ada, &started).await["redirectTo"], json!(null));
    world.send(ada.post(APPROVE).json(&json!({"userCode": code}))).await.assert_problem(404, "not_found");

    let done = poll(&world, &started).await;
    assert_eq!((&done["status"], &done["organization"]), (&json!("approved"), &json!("acme")), "{done}");
    let token = done["token"].as_str().unwrap();
    assert_eq!(world.send(get("/api/v1/me").token(token)).await.status, 200);
    let tokens = world.send(get("/api/v1/organizations/acme/api-tokens").with_account(&world.ada)).await;
    let record =
        tokens.body["data"].as_array().unwrap().iter().find(|it| it["id"] == done["tokenId"]).unwrap();
    assert_eq!(record["name"], "berth CLI on build-7");
    assert_eq!(record["expiresAt"], done["expiresAt"]);
    assert!(record["expiresAt"].is_string(), "the token expires");

    assert_eq!(poll(&world, &started).await["status"], "expired", "the token is returned once");
    let kinds = world.event_kinds().await;
    assert_eq!(&kinds[kinds.len() - 2..], ["cli_login_approved", "token_created"]);
    for secret in [started["deviceCode"].as_str().unwrap(), code, token] {
        let events = world.send(get("/api/v1/organizations/acme/events").with_account(&world.ada)).await;
        assert!(!events.text.contains(secret));
    }
}

#[tokio::test]
async fn redirect_login_needs_code_and_verifier() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_local(&world).await;
    let code = redirect_code(&approve(&world, &ada, &started).await);
    assert_eq!(poll(&world, &started).await["status"], "pending", "a poll without the code gets nothing");
    let body = json!({"deviceCode": started["deviceCode"], "code": code, "codeVerifier": VERIFIER});
    let done = exchange(&world, body.clone()).await;
    assert_eq!(done["status"], "approved", "{done}");
    assert_eq!(world.send(get("/api/v1/me").token(done["token"].as_str().unwrap())).await.status, 200);
    assert_eq!(exchange(&world, body).await["status"], "expired");

    let other = "another-verifier-that-is-long-enough-as-well-ok";
    for change in [
        json!({"codeVerifier": other}),
        json!({"code": started["deviceCode"]}),
        json!({"codeVerifier": null}),
    ] {
        let started = start_local(&world).await;
        let code = redirect_code(&approve(&world, &ada, &started).await);
        let right = json!({"deviceCode": started["deviceCode"], "code": code, "codeVerifier": VERIFIER});
        let mut wrong = right.clone();
        wrong.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        world.send(post(TOKEN).json(&wrong)).await.assert_problem(400, "invalid_request");
        assert_eq!(exchange(&world, right).await["status"], "expired", "a code can be tried once: {change}");
    }
}

#[tokio::test]
async fn redirect_login_accepts_only_a_port_state_and_challenge() {
    let world = TestWorld::new().await;
    let good = json!({
        "machine": "laptop", "redirectPort": 40123, "codeChallenge": challenge(), "state": STATE
    });
    for (member, value) in [
        ("machine", json!("")),
        ("machine", json!("x".repeat(101))),
        ("machine", json!("a\nb")),
        ("redirectPort", json!(80)),
        ("redirectPort", json!(65_536)),
        ("redirectPort", json!(null)),
        ("codeChallenge", json!(null)),
        ("codeChallenge", json!("short")),
        ("state", json!(null)),
        ("state", json!("a&code=0123456789")),
    ] {
        let mut bad = good.clone();
        bad[member] = value.clone();
        let reply = world.send(post(START).json(&bad)).await;
        assert_eq!(
            (reply.status.as_u16(), reply.problem_code()),
            (400, "invalid_request"),
            "{member}: {value}"
        );
    }
    let uri = json!({"machine": "laptop", "redirectUri": "https://evil.test/"});
    world.send(post(START).json(&uri)).await.assert_problem(400, "unknown_member");
}

#[tokio::test]
async fn denied_login_gives_no_token() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    for started in [start_device(&world).await, start_local(&world).await] {
        let denied = world.send(ada.post(DENY).json(&json!({"userCode": started["userCode"]}))).await;
        assert_eq!(denied.status, 200, "{}", denied.text);
        if let Some(url) = denied.body["data"]["redirectTo"].as_str() {
            let wanted = format!("http://127.0.0.1:40123/callback?error=access_denied&state={STATE}");
            assert_eq!(url, wanted);
        }
        let body = json!({"userCode": started["userCode"]});
        world.send(ada.post(APPROVE).json(&body)).await.assert_problem(404, "not_found");
        assert_eq!(poll(&world, &started).await["status"], "denied");
    }
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("cli_login_denied"));
}

#[tokio::test]
async fn only_a_recently_confirmed_browser_can_approve() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_device(&world).await;
    let body = json!({"userCode": started["userCode"]});
    for path in [APPROVE, FIND, DENY] {
        world
            .send(post(path).with_account(&world.ada).json(&body))
            .await
            .assert_problem(409, "invalid_state");
    }
    let forged = post(APPROVE).header("cookie", &ada.cookie).json(&body);
    world.send(forged).await.assert_problem(403, "forbidden");
    world.run_sql(&format!("UPDATE sign_ins SET confirmed_at = confirmed_at - {}", 61 * 60 * SECOND_MICROS));
    world.send(ada.post(APPROVE).json(&body)).await.assert_problem(403, "reauthentication_required");
    let foreign = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(foreign.post(APPROVE).json(&body)).await.assert_problem(404, "not_found");
    let days = json!({"userCode": started["userCode"], "expiresInDays": 0});
    world.send(ada.post(APPROVE).json(&days)).await.assert_problem(400, "invalid_request");
    assert_eq!(poll(&world, &started).await["status"], "pending");
}

#[tokio::test]
async fn cli_login_polled_too_early_has_to_slow_down() {
    let world = TestWorld::new().await;
    let started = start_device(&world).await;
    let state = async || {
        let done = poll(&world, &started).await;
        (done["status"].as_str().unwrap().to_owned(), done["intervalSeconds"].as_i64().unwrap())
    };
    let wait = |seconds: i64| {
        world.run_sql(&format!("UPDATE cli_logins SET polled_at = polled_at - {}", seconds * SECOND_MICROS));
    };
    assert_eq!(state().await, ("pending".into(), 5));
    assert_eq!(state().await, ("slow_down".into(), 10));
    wait(5);
    assert_eq!(state().await, ("slow_down".into(), 15));
    wait(15);
    assert_eq!(state().await, ("pending".into(), 15));
    for _ in 0..20 {
        state().await;
    }
    assert_eq!(state().await, ("slow_down".into(), 60), "the interval has a maximum");
}

#[tokio::test]
async fn cli_login_expires() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let (pending, approved) = (start_device(&world).await, start_device(&world).await);
    approve(&world, &ada, &approved).await;
    world.run_sql(&format!("UPDATE cli_logins SET expires_at = expires_at - {}", 600 * SECOND_MICROS));
    let body = json!({"userCode": pending["userCode"]});
    world.send(ada.post(APPROVE).json(&body)).await.assert_problem(404, "not_found");
    for started in [pending, approved] {
        assert_eq!(poll(&world, &started).await["status"], "expired");
    }
    berth_server::jobs::sweep(world.app.jobs()).await.unwrap();
}

#[tokio::test]
async fn cli_login_codes_cannot_be_guessed() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let started = start_device(&world).await;
    for path in [FIND, APPROVE, DENY, FIND, APPROVE, DENY, FIND, APPROVE, DENY, FIND] {
        let wrong = json!({"userCode": "BBBB-BBBB"});
        world.send(ada.post(path).json(&wrong)).await.assert_problem(404, "not_found");
    }
    let right = json!({"userCode": started["userCode"]});
    for path in [FIND, APPROVE, DENY] {
        let refused = world.send(ada.post(path).json(&right)).await;
        refused.assert_problem(429, "rate_limited");
        assert_eq!(refused.header("retry-after"), "60");
    }
    assert_eq!(world.send(hank.post(FIND).json(&right)).await.status, 200, "counted per user");
    let wrong = json!({"deviceCode": "berth_cli_nonsense"});
    world.send(post(TOKEN).json(&wrong)).await.assert_problem(400, "invalid_request");
}

#[tokio::test]
async fn open_cli_logins_are_limited_per_network() {
    let world = TestWorld::new().await;
    let (here, there) = ([203, 0, 113, 7].into(), [198, 51, 100, 9].into());
    let request = || post(START).json(&json!({"machine": "build-7"}));
    for _ in 0..50 {
        assert_eq!(world.send_from(request(), here).await.status, 200);
    }
    world.send_from(request(), here).await.assert_problem(429, "rate_limited");
    world.send_from(request(), [203, 0, 113, 8].into()).await.assert_problem(429, "rate_limited");
    assert_eq!(world.send_from(request(), there).await.status, 200);
}

#[tokio::test]
async fn approved_login_is_void_when_its_person_loses_access() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    let everywhere = "/api/v1/auth/logout-everywhere";
    let started = start_device(&world).await;
    approve(&world, &browser, &started).await;
    world.send(browser.post(everywhere).json(&json!({"keepCurrent": true}))).await;
    assert_eq!(poll(&world, &started).await["status"], "expired", "logged out everywhere");

    let started = start_device(&world).await;
    approve(&world, &browser, &started).await;
    let me = world.send(get("/api/v1/me").with_account(&grace)).await;
    let id = me.body["data"]["user"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/organizations/acme/members/{id}");
    let removed = world.send(super::world::call("DELETE", &path).with_account(&world.ada)).await;
    assert_eq!(removed.status, 200, "{}", removed.text);
    assert_eq!(poll(&world, &started).await["status"], "denied", "no longer a member");
}

#[tokio::test]
async fn concurrent_exchanges_create_one_token() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_device(&world).await;
    approve(&world, &ada, &started).await;
    let second_server = world.another_server().await;
    let servers = [&world, second_server.as_ref().unwrap_or(&world)];
    let all = (0..8).map(|number| poll(servers[number % 2], &started));
    let all = futures_util::future::join_all(all).await;
    let approved = all.iter().filter(|done| done["status"] == "approved").count();
    assert_eq!(approved, 1, "{all:?}");
}
