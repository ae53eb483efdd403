//! Login, provisioning, replay, logout and re-authentication.

use berth_server::integrations::oidc::{PasswordLogin, ProvisionRule};
use serde_json::json;

use super::super::world::{get, post};
use super::{LOGIN, TestProvider, find_cookie, start_login};

#[tokio::test]
async fn provider_login_creates_account_and_logs_in() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let options = world.send(get("/api/v1/auth/providers")).await;
    let listed = json!([{"name": "corp", "label": "Acme SSO"}]);
    assert_eq!(options.body["data"], json!({"providers": listed, "passwordLogin": "everyone"}));

    let reply = provider.log_in(&world).await;
    assert_eq!((reply.status.as_u16(), reply.header("location")), (303, "/acme"), "{}", reply.text);
    let asked = provider.fetch_requests()["authorize"].clone();
    assert_eq!((&asked["code_challenge_method"], &asked["response_type"]), (&json!("S256"), &json!("code")));
    assert_eq!(asked["scope"], "openid email offline_access");
    assert!(asked["nonce"].is_string() && asked["prompt"].is_null());

    let cookie = find_cookie(&reply, "berth_local=");
    let me = world.send(get("/api/v1/me").header("cookie", &cookie)).await;
    let me = &me.body["data"];
    assert_eq!(
        (&me["user"]["email"], &me["user"]["name"]),
        (&json!("grace@acme.test"), &json!("Grace Hopper"))
    );
    assert_eq!((&me["provider"], &me["user"]["hasPassword"]), (&json!("corp"), &json!(false)));
    assert_eq!(me["organizations"][0]["role"], "member");
    let kinds = world.event_kinds().await;
    assert_eq!(&kinds[kinds.len() - 3..], ["account_provisioned", "member_added", "login_succeeded"]);

    let again = provider.browser(&world).await;
    let linked = world.send(again.get("/api/v1/me/identities")).await;
    assert_eq!(linked.body["data"][0]["status"], "active");
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "account_provisioned").count(), 1);
    // The account has no password, so no password is right.
    let password = json!({"email": "grace@acme.test", "password": "anything at all really"});
    world.send(post("/api/v1/auth/login").json(&password)).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn provider_login_state_is_bound_to_the_browser_and_used_once() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let refused = (403, "provider_login_failed");
    let started = start_login(&world, post(LOGIN)).await;
    let other = start_login(&world, post(LOGIN)).await;
    let path = provider.open(&started.url);

    let without = world.send(get(&path)).await;
    without.assert_problem(refused.0, refused.1);
    world.send(get(&path).header("cookie", &other.cookie)).await.assert_problem(refused.0, refused.1);
    let forged = format!("{}0", started.cookie);
    world.send(get(&path).header("cookie", &forged)).await.assert_problem(refused.0, refused.1);
    let wrong = path.replace("state=", "state=x");
    world.send(get(&wrong).header("cookie", &started.cookie)).await.assert_problem(refused.0, refused.1);
    assert_eq!(provider.fetch_requests()["codes"], 0, "no code was sent to the provider");

    assert_eq!(world.send(get(&path).header("cookie", &started.cookie)).await.status, 303);
    let replayed = world.send(get(&path).header("cookie", &started.cookie)).await;
    replayed.assert_problem(refused.0, refused.1);
    assert_eq!(provider.fetch_requests()["codes"], 1, "the code was sent once");

    let page = get(&path).header("cookie", &started.cookie).header("sec-fetch-dest", "document");
    let page = world.edge.handle_request(page.0, [127, 0, 0, 1].into()).await;
    assert_eq!(page.status(), 403);
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
}

#[tokio::test]
async fn provider_login_expires_after_ten_minutes_and_refusals_are_shown() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let started = start_login(&world, post(LOGIN)).await;
    let path = provider.open(&started.url);
    let state = path.split("state=").nth(1).unwrap().split('&').next().unwrap();
    let denied = format!("/api/v1/auth/providers/corp/callback?error=access_denied<b>&state={state}");
    let denied = denied.replace('<', "%3C").replace('>', "%3E");
    let reply = world.send(get(&denied).header("cookie", &started.cookie)).await;
    reply.assert_problem(403, "provider_login_failed");
    assert!(reply.body["detail"].as_str().unwrap().ends_with("access_deniedb"), "{}", reply.text);
    world.send(post("/api/v1/auth/providers/none/login")).await.assert_problem(404, "not_found");
    for next in ["https://evil.test", "//evil.test"] {
        world.send(post(LOGIN).json(&json!({"next": next}))).await.assert_problem(400, "invalid_request");
    }
    let cross = post(LOGIN).header("sec-fetch-site", "cross-site");
    world.send(cross).await.assert_problem(403, "forbidden");
}

#[tokio::test]
async fn provider_login_failures_are_rate_limited() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&json!({"fault": "nonce"}));
    for _ in 0..10 {
        provider.log_in(&world).await.assert_problem(403, "provider_login_failed");
    }
    provider.set(&json!({"fault": null}));
    provider.log_in(&world).await.assert_problem(429, "rate_limited");
}

#[tokio::test]
async fn provisioning_follows_the_rule() {
    let Some(provider) = TestProvider::start() else { return };
    let never = provider.world(|config| config.provision = ProvisionRule::Never).await;
    let reply = provider.log_in(&never).await;
    reply.assert_problem(403, "provider_login_failed");
    assert!(reply.body["detail"].as_str().unwrap().contains("not linked"), "{}", reply.text);

    let matching = provider.world(|config| config.provision = ProvisionRule::MatchingGroups).await;
    let person =
        |groups: &[&str]| json!({"claims": {"sub": "u-1", "email": "grace@acme.test", "groups": groups}});
    provider.set(&person(&["strangers"]));
    provider.log_in(&matching).await.assert_problem(403, "provider_login_failed");
    provider.set(&person(&["strangers", "ops"]));
    assert_eq!(provider.log_in(&matching).await.status, 303);

    let always = provider.world(|_| ()).await;
    provider.set(&json!({"claims": {"sub": "u-1"}}));
    provider.log_in(&always).await.assert_problem(403, "provider_login_failed");
    provider.set(&json!({"claims": {"sub": "u-1", "email": "g@acme.test", "email_verified": false}}));
    provider.log_in(&always).await.assert_problem(403, "provider_login_failed");
}

#[tokio::test]
async fn password_login_can_be_limited_to_owners() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world_with(|_| (), PasswordLogin::Owners).await;
    let log_in = |email: &str, password: &str| {
        post("/api/v1/auth/login").json(&json!({"email": email, "password": password}))
    };
    assert_eq!(world.send(log_in(&world.ada.email, &world.ada.password)).await.status, 200);
    let link = world.invite("eve@acme.test", "admin").await;
    let body = json!({"token": link, "password": "a quiet harbour at dawn"});
    world.send(post("/api/v1/auth/sign-up").json(&body)).await.assert_problem(403, "forbidden");
    let link = world.invite("bob@acme.test", "owner").await;
    let body = json!({"token": link, "password": "a quiet harbour at dawn"});
    assert_eq!(world.send(post("/api/v1/auth/sign-up").json(&body)).await.status, 200);
    let bob = "bob@acme.test";
    assert_eq!(world.send(log_in(bob, "a quiet harbour at dawn")).await.status, 200);
    world.run_sql("UPDATE memberships SET role = 'admin' WHERE user_id = (SELECT id FROM users WHERE email = 'bob@acme.test')");
    world.send(log_in(bob, "a quiet harbour at dawn")).await.assert_problem(403, "forbidden");
    world.send(log_in(bob, "a wrong password here")).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn logout_leads_to_the_provider_with_the_id_token() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let browser = provider.browser(&world).await;
    let out = world.send(browser.post("/api/v1/auth/logout")).await;
    let url = out.body["data"]["providerLogoutUrl"].as_str().unwrap();
    assert_eq!(provider.open(url), "/sign-in");
    let asked = provider.fetch_requests()["endSession"].clone();
    assert_eq!(asked["client_id"], "berth");
    assert_eq!(asked["id_token_hint"].as_str().unwrap().split('.').count(), 3);
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");

    // Logging out works while the provider does not respond.
    let browser = provider.browser(&world).await;
    provider.set(&json!({"isDown": true}));
    assert_eq!(world.send(browser.post("/api/v1/auth/logout")).await.status, 200);
    // A login with a password has no provider.
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let out = world.send(ada.post("/api/v1/auth/logout")).await;
    assert!(out.body["data"]["providerLogoutUrl"].is_null());
}

#[tokio::test]
async fn sensitive_action_is_confirmed_at_the_provider() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let browser = provider.browser(&world).await;
    let create = || browser.post("/api/v1/organizations/acme/api-tokens").json(&json!({"name": "x"}));
    assert_eq!(world.send(create()).await.status, 201);
    world.run_sql("UPDATE sign_ins SET confirmed_at = 0");
    world.send(create()).await.assert_problem(403, "reauthentication_required");
    let password = browser.post("/api/v1/auth/confirm").json(&json!({"password": "a wrong password here"}));
    world.send(password).await.assert_problem(409, "invalid_state");

    let start = || browser.post("/api/v1/auth/confirm-with-provider").json(&json!({"next": "/acme"}));
    let confirm = async || {
        let started = start_login(&world, start()).await;
        let path = provider.open(&started.url);
        let cookies = format!("{}; {}", started.cookie, browser.cookie);
        world.send(get(&path).header("cookie", &cookies)).await
    };
    // The provider did not ask for the password again, or does not say when.
    for authenticated in [json!(-3600), json!(null)] {
        provider.set(&json!({"authenticated": authenticated}));
        confirm().await.assert_problem(403, "provider_login_failed");
    }
    provider.set(&json!({"authenticated": 0, "claims": {"sub": "u-2", "email": "eve@acme.test"}}));
    confirm().await.assert_problem(403, "provider_login_failed");
    world.send(create()).await.assert_problem(403, "reauthentication_required");

    provider.set(&json!({"claims": {"sub": "u-1", "email": "grace@acme.test"}}));
    assert_eq!(confirm().await.status, 303);
    let asked = provider.fetch_requests()["authorize"].clone();
    assert_eq!((&asked["prompt"], &asked["max_age"]), (&json!("login"), &json!("0")));
    assert_eq!(world.send(create()).await.status, 201);
    // Without the session cookie, the confirmation is of no use.
    let started = start_login(&world, start()).await;
    provider.finish(&world, &started).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn silent_login_is_no_confirmation() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let create = |browser: &super::BrowserSession| {
        browser.post("/api/v1/organizations/acme/api-tokens").json(&json!({"name": "x"}))
    };
    // The provider answered from its own session, or does not say when the person authenticated.
    for authenticated in [json!(-3700), json!(null)] {
        provider.set(&json!({"authenticated": authenticated}));
        let browser = provider.browser(&world).await;
        let refused = world.send(create(&browser)).await;
        refused.assert_problem(403, "reauthentication_required");
    }
    provider.set(&json!({"authenticated": -3500}));
    let browser = provider.browser(&world).await;
    assert_eq!(world.send(create(&browser)).await.status, 201);
    // A time in the future is not valid for longer than one of now.
    provider.set(&json!({"authenticated": 86_400}));
    let browser = provider.browser(&world).await;
    world.run_sql("UPDATE sign_ins SET confirmed_at = confirmed_at - 3700000000");
    world.send(create(&browser)).await.assert_problem(403, "reauthentication_required");
}

#[tokio::test]
async fn login_event_names_the_provider() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let last_login = async || {
        let path = "/api/v1/organizations/acme/events?kind=login_succeeded&limit=1";
        let list = world.send(get(path).with_account(&world.ada)).await;
        list.body["data"][0].clone()
    };
    provider.browser(&world).await;
    let event = last_login().await;
    assert_eq!(
        (&event["actor"]["name"], &event["data"]["provider"]),
        (&json!("Grace Hopper"), &json!("corp"))
    );
    world.log_in(&world.ada.email, &world.ada.password).await;
    let event = last_login().await;
    assert_eq!((&event["actor"]["name"], event["data"].get("provider")), (&json!("ada"), None), "{event}");
}
