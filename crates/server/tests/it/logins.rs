//! Active logins: what is recorded about clients, ending logins, and logging out everywhere.

use serde_json::{Value, json};

use super::world::{BrowserSession, MemberAccount, TestWorld, call, get, post};

const LOGINS: &str = "/api/v1/me/logins";
const EVERYWHERE: &str = "/api/v1/auth/logout-everywhere";
const TOKENS: &str = "/api/v1/organizations/acme/api-tokens";
const MEMBERS: &str = "/api/v1/organizations/acme/members";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const MINUTE_MICROS: i64 = 60 * 1_000_000;

async fn log_in_with(world: &TestWorld, who: &MemberAccount, user_agent: &str) -> BrowserSession {
    let body = json!({"email": who.email, "password": who.password});
    let request = post("/api/v1/auth/login").header("user-agent", user_agent).json(&body);
    BrowserSession::from_response(&world.send_from(request, [203, 0, 113, 7].into()).await)
}

async fn list_logins(world: &TestWorld, browser: &BrowserSession) -> Vec<Value> {
    let reply = world.send(browser.get(LOGINS)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].as_array().unwrap().clone()
}

async fn is_logged_in(world: &TestWorld, browser: &BrowserSession) -> bool {
    world.send(browser.get("/api/v1/me")).await.status == 200
}

async fn user_id(world: &TestWorld, who: &MemberAccount) -> String {
    let me = world.send(get("/api/v1/me").with_account(who)).await;
    me.body["data"]["user"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn login_list_shows_address_client_and_the_current_login() {
    let world = TestWorld::new().await;
    let first = log_in_with(&world, &world.ada, FIREFOX).await;
    let second = log_in_with(&world, &world.ada, &"x".repeat(2_000)).await;
    let other = world.log_in(&world.hank.email, &world.hank.password).await;

    let all = list_logins(&world, &first).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((&all[0]["client"], &all[0]["address"]), (&json!("Firefox on Linux"), &json!("203.0.113.7")));
    assert_eq!((&all[0]["isCurrent"], &all[1]["isCurrent"]), (&json!(true), &json!(false)));
    assert_eq!(all[1]["client"], "x".repeat(60), "an unknown client is shown as it names itself, truncated");
    let own = list_logins(&world, &second).await;
    assert_eq!((&own[0]["isCurrent"], &own[1]["isCurrent"]), (&json!(false), &json!(true)));
    assert_eq!(list_logins(&world, &other).await.len(), 1, "only one's own");
    let page = world.send(first.get(&format!("{LOGINS}?limit=1"))).await;
    assert_eq!(
        (&page.body["pagination"]["total"], &page.body["pagination"]["hasMore"]),
        (&json!(2), &json!(true))
    );
    let with_token = world.send(get(LOGINS).with_account(&world.ada)).await;
    assert_eq!(with_token.body["data"].as_array().unwrap().len(), 2, "{}", with_token.text);
    let events = world.send(get("/api/v1/organizations/acme/events").with_account(&world.ada)).await;
    assert!(
        events.text.contains("Firefox on Linux") && events.text.contains("203.0.113.7"),
        "{}",
        events.text
    );
}

#[tokio::test]
async fn login_last_seen_is_updated_at_most_once_a_minute() {
    let world = TestWorld::new().await;
    let ada = log_in_with(&world, &world.ada, FIREFOX).await;
    let seen = || async { list_logins(&world, &ada).await[0].clone() };
    let before = seen().await;
    let elsewhere = || ada.get("/api/v1/me").header("user-agent", "curl/8.5.0");
    world.send_from(elsewhere(), [198, 51, 100, 9].into()).await;
    assert_eq!(seen().await, before, "less than a minute has passed");
    world.run_sql(&format!("UPDATE sign_ins SET last_seen_at = last_seen_at - {MINUTE_MICROS}"));
    world.send_from(elsewhere(), [198, 51, 100, 9].into()).await;
    let after = seen().await;
    assert_eq!((&after["address"], &after["client"]), (&json!("198.51.100.9"), &json!("curl/8.5.0")));
    assert_eq!(after["createdAt"], before["createdAt"]);
}

#[tokio::test]
async fn token_shows_who_used_it_last() {
    let world = TestWorld::new().await;
    let made = world.send(post(TOKENS).with_account(&world.ada).json(&json!({"name": "laptop"}))).await;
    let record = &made.body["data"];
    for member in ["lastUsedAt", "lastUsedAddress", "lastUsedClient"] {
        assert_eq!(record[member], json!(null), "{member}");
    }
    let (token, path) =
        (record["token"].as_str().unwrap(), format!("{TOKENS}/{}", record["id"].as_str().unwrap()));
    let used = get("/api/v1/me").token(token).header("user-agent", "berth/1.0.0");
    assert_eq!(world.send_from(used, [203, 0, 113, 7].into()).await.status, 200);
    let view = || async { world.send(get(&path).with_account(&world.ada)).await.body["data"].clone() };
    let first = view().await;
    assert!(first["lastUsedAt"].is_string());
    assert_eq!(
        (&first["lastUsedAddress"], &first["lastUsedClient"]),
        (&json!("203.0.113.7"), &json!("berth CLI"))
    );

    let again = || get("/api/v1/me").token(token).header("user-agent", "curl/8.5.0");
    world.send_from(again(), [198, 51, 100, 9].into()).await;
    assert_eq!(view().await, first, "less than a minute has passed");
}

#[tokio::test]
async fn ended_login_is_refused_at_once() {
    let world = TestWorld::new().await;
    let (ada, lost) =
        (log_in_with(&world, &world.ada, FIREFOX).await, log_in_with(&world, &world.ada, "phone").await);
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let all = list_logins(&world, &ada).await;
    let id = all[1]["id"].as_str().unwrap();
    let path = format!("{LOGINS}/{id}");
    world.send(hank.write_request("DELETE", &path)).await.assert_problem(404, "not_found");
    world.send(call("DELETE", &path).header("cookie", &ada.cookie)).await.assert_problem(403, "forbidden");
    assert!(is_logged_in(&world, &lost).await, "refused requests end nothing");

    let second_server = world.another_server().await;
    let ended = world.send(ada.write_request("DELETE", &path)).await;
    assert_eq!(
        (ended.status.as_u16(), &ended.body["data"]["client"]),
        (200, &json!("phone")),
        "{}",
        ended.text
    );
    assert!(!is_logged_in(&world, &lost).await);
    if let Some(server) = &second_server {
        assert!(!is_logged_in(server, &lost).await, "a login has ended on every server");
        assert!(is_logged_in(server, &ada).await);
    }
    assert!(is_logged_in(&world, &ada).await);
    world.send(ada.write_request("DELETE", &path)).await.assert_problem(404, "not_found");
    world.send(ada.write_request("DELETE", &format!("{LOGINS}/x"))).await.assert_problem(404, "not_found");
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("login_ended"));
}

#[tokio::test]
async fn log_out_everywhere_keeps_the_current_login_on_request() {
    let world = TestWorld::new().await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(log_in_with(&world, &world.ada, FIREFOX).await);
    }
    let ada = log_in_with(&world, &world.ada, FIREFOX).await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let kept = world.send(ada.post(EVERYWHERE).json(&json!({"keepCurrent": true}))).await;
    assert_eq!(kept.body["data"], json!({"loginsEnded": 3, "tokensRevoked": 0}), "{}", kept.text);
    for other in &others {
        assert!(!is_logged_in(&world, other).await);
    }
    assert!(is_logged_in(&world, &ada).await && is_logged_in(&world, &hank).await);
    assert_eq!(world.send(get("/api/v1/me").with_account(&world.ada)).await.status, 200, "tokens stay");

    let done = world.send(ada.post(EVERYWHERE).json(&json!({"revokeTokens": true}))).await;
    assert_eq!(done.body["data"], json!({"loginsEnded": 1, "tokensRevoked": 1}), "{}", done.text);
    assert!(done.header("set-cookie").contains("Max-Age=0"));
    assert!(!is_logged_in(&world, &ada).await && is_logged_in(&world, &hank).await);
    world.send(get("/api/v1/me").with_account(&world.ada)).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn restricted_token_cannot_manage_logins() {
    let world = TestWorld::new().await;
    let ada = log_in_with(&world, &world.ada, FIREFOX).await;
    let restricted = json!({"name": "x", "restrictTo": [{"permissions": ["events:read"], "scope": "org"}]});
    let made = world.send(post(TOKENS).with_account(&world.ada).json(&restricted)).await;
    let token = made.body["data"]["token"].as_str().unwrap();
    let id = list_logins(&world, &ada).await[0]["id"].as_str().unwrap().to_owned();
    for request in [
        get(LOGINS),
        call("DELETE", &format!("{LOGINS}/{id}")),
        post(EVERYWHERE).json(&json!({"revokeTokens": true})),
    ] {
        world.send(request.token(token)).await.assert_problem(403, "forbidden");
    }
    assert!(is_logged_in(&world, &ada).await);
}

#[tokio::test]
async fn admin_logs_a_member_out_everywhere() {
    let world = TestWorld::new().await;
    let (admin, grace) = (
        world.create_member("otto@acme.test", "admin").await,
        world.create_member("grace@acme.test", "deployer").await,
    );
    let browsers = [log_in_with(&world, &grace, FIREFOX).await, log_in_with(&world, &grace, FIREFOX).await];
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let path = |id: &str| format!("{MEMBERS}/{id}/logout");
    let grace_path = path(&user_id(&world, &grace).await);
    for (who, code) in [(&grace, 403), (&world.hank, 404)] {
        assert_eq!(world.send(post(&grace_path).with_account(who)).await.status, code);
    }
    let owner = path(&user_id(&world, &world.ada).await);
    world.send(post(&owner).with_account(&admin)).await.assert_problem(403, "forbidden");
    assert!(is_logged_in(&world, &ada).await, "an admin cannot log an owner out");
    let hank = path(&user_id(&world, &world.hank).await);
    world.send(post(&hank).with_account(&admin)).await.assert_problem(404, "not_found");
    let (service, _) = world.create_service_account("ci@acme.test", "deployer").await;
    world.send(post(&path(&service)).with_account(&admin)).await.assert_problem(409, "invalid_state");

    let done = world.send(post(&grace_path).with_account(&admin)).await;
    assert_eq!(
        done.body["data"],
        json!({"loginsEnded": 3, "tokensRevoked": 0}),
        "two, and the one that accepted the invitation: {}",
        done.text
    );
    for browser in &browsers {
        assert!(!is_logged_in(&world, browser).await);
    }
    assert_eq!(world.send(get("/api/v1/me").with_account(&grace)).await.status, 200, "tokens stay");
    let event = world.send(get("/api/v1/organizations/acme/events?limit=1").with_account(&world.ada)).await;
    assert_eq!(event.body["data"][0]["kind"], "logins_ended", "{}", event.text);
    assert!(event.text.contains("was logged out everywhere by"), "{}", event.text);
}

#[tokio::test]
async fn log_out_by_another_organization_is_recorded_at_home_too() {
    let world = TestWorld::new().await;
    let link = world.invite(&world.hank.email, "viewer").await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let joined = world.send(hank.post("/api/v1/me/organizations").json(&json!({"token": link}))).await;
    assert_eq!(joined.status, 201, "{}", joined.text);
    let path = format!("{MEMBERS}/{}/logout", user_id(&world, &world.hank).await);
    assert_eq!(world.send(post(&path).with_account(&world.ada)).await.status, 200);
    assert!(!is_logged_in(&world, &hank).await);
    for (org, who) in [("acme", &world.ada), ("globex", &world.hank)] {
        let path = format!("/api/v1/organizations/{org}/events?limit=1");
        let event = world.send(get(&path).with_account(who)).await;
        assert_eq!(event.body["data"][0]["kind"], "logins_ended", "{org}: {}", event.text);
    }
}
