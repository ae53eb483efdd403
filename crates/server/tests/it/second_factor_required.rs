//! Organizations that require a second factor.

use serde_json::json;

use super::second_factor::{Authenticator, forget_used_codes};
use super::world::{TestRequest, TestWorld, call, get, post};

const ORG: &str = "/api/v1/organizations/acme";
const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

fn require(is_required: bool) -> TestRequest {
    call("PATCH", ORG).json(&json!({"requireSecondFactor": is_required}))
}

#[tokio::test]
async fn requirement_is_set_by_an_owner_who_has_a_second_factor() {
    let world = TestWorld::new().await;
    let admin = world.create_member("grace@acme.test", "admin").await;
    let grace = world.log_in(&admin.email, &admin.password).await;
    Authenticator::enrol(&world, &grace).await;
    world.send(require(true).with_account(&admin)).await.assert_problem(403, "forbidden");
    world.send(require(true).with_account(&world.ada)).await.assert_problem(409, "invalid_state");
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    Authenticator::enrol(&world, &ada).await;
    let change = |is_required: bool| {
        ada.write_request("PATCH", ORG).json(&json!({"requireSecondFactor": is_required}))
    };
    world.run_sql("UPDATE sign_ins SET confirmed_at = 1");
    world.send(change(true)).await.assert_problem(403, "reauthentication_required");
    let done = world.send(require(true).with_account(&world.ada)).await;
    assert_eq!(done.body["data"]["requireSecondFactor"], true, "{}", done.text);
    let events = format!("{ORG}/events?limit=1");
    let last = world.send(get(&events).with_account(&world.ada)).await;
    assert_eq!(last.body["data"][0]["data"]["requireSecondFactor"], true, "{}", last.text);
    world.send(require(false).with_account(&admin)).await.assert_problem(403, "forbidden");
    assert_eq!(world.send(require(false).with_account(&world.ada)).await.status, 200);
}

#[tokio::test]
async fn member_without_required_second_factor_has_no_access_by_cookie_or_token() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let (_, service) = world.create_service_account("ci@acme.test", "viewer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    Authenticator::enrol(&world, &ada).await;
    for allowed in [get(PIPELINES).with_account(&grace), browser.get(PIPELINES)] {
        assert_eq!(world.send(allowed).await.status, 200);
    }
    assert_eq!(world.send(require(true).with_account(&world.ada)).await.status, 200);
    let tokens = format!("{ORG}/api-tokens");
    let new = json!({"name": "x"});
    for refused in [
        get(PIPELINES).with_account(&grace),
        get(ORG).with_account(&grace),
        post(&tokens).with_account(&grace).json(&new),
        browser.get(PIPELINES),
        browser.post(&tokens).json(&new),
        browser.get(&format!("{ORG}/events")),
    ] {
        world.send(refused).await.assert_problem(403, "second_factor_required");
    }
    let kinds = world.event_kinds().await;
    assert!(
        !kinds.contains(&"access_denied".to_owned()),
        "it is no attempt to exceed permissions: {kinds:?}"
    );
    let me = world.send(browser.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["organizations"][0]["requireSecondFactor"], true, "{}", me.text);
    for allowed in [
        get(PIPELINES).token(&service),
        get(PIPELINES).with_account(&world.ada),
        get("/api/v1/organizations/globex/pipelines").with_account(&world.hank),
        get("/api/v1/me").with_account(&grace),
    ] {
        assert_eq!(world.send(allowed).await.status, 200);
    }

    let app = Authenticator::enrol(&world, &browser).await;
    for allowed in [get(PIPELINES).with_account(&grace), browser.get(PIPELINES)] {
        assert_eq!(world.send(allowed).await.status, 200);
    }
    forget_used_codes(&world);
    let body = json!({"password": grace.password, "code": app.code(0).await});
    assert_eq!(world.send(browser.post("/api/v1/me/second-factor/disable").json(&body)).await.status, 200);
    for refused in [get(PIPELINES).with_account(&grace), browser.get(PIPELINES)] {
        world.send(refused).await.assert_problem(403, "second_factor_required");
    }
    assert_eq!(world.send(require(false).with_account(&world.ada)).await.status, 200);
    assert_eq!(world.send(get(PIPELINES).with_account(&grace)).await.status, 200);
}

#[tokio::test]
async fn required_second_factor_takes_effect_on_other_servers() {
    let world = TestWorld::new().await;
    let Some(other) = world.another_server().await else { return };
    let grace = world.create_member("grace@acme.test", "deployer").await;
    assert_eq!(other.send(get(PIPELINES).with_account(&grace)).await.status, 200);
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    Authenticator::enrol(&world, &ada).await;
    assert_eq!(world.send(require(true).with_account(&world.ada)).await.status, 200);
    let refused = other.send(get(PIPELINES).with_account(&grace)).await;
    refused.assert_problem(403, "second_factor_required");
}

#[tokio::test]
async fn invited_person_sets_up_the_required_second_factor_first() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    Authenticator::enrol(&world, &ada).await;
    assert_eq!(world.send(require(true).with_account(&world.ada)).await.status, 200);
    let link = world.invite("grace@acme.test", "viewer").await;
    let body = json!({"token": link, "password": "a quiet harbour at dawn"});
    let reply = world.send(post("/api/v1/auth/sign-up").json(&body)).await;
    let grace = super::world::BrowserSession::from_response(&reply);
    world.send(grace.get(PIPELINES)).await.assert_problem(403, "second_factor_required");
    Authenticator::enrol(&world, &grace).await;
    assert_eq!(world.send(grace.get(PIPELINES)).await.status, 200);
}

#[tokio::test]
async fn waiting_ticket_of_a_member_without_required_second_factor_is_not_granted() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "tester").await;
    world.create_pipeline("shop").await;
    let sessions = format!("{PIPELINES}/shop/ephemeral-environments/qa-1/sessions");
    let claim = json!({"commitId": "9fceb02", "deploy": false, "queue": true});
    let held = world.send(post(&sessions).with_account(&world.ada).json(&claim)).await;
    let session = held.body["data"]["sessionId"].as_str().unwrap().to_owned();
    let queued = world.send(post(&sessions).with_account(&grace).json(&claim)).await;
    assert_eq!(queued.status, 202, "{}", queued.text);
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    Authenticator::enrol(&world, &ada).await;
    assert_eq!(world.send(require(true).with_account(&world.ada)).await.status, 200);
    let released =
        world.send(call("DELETE", &format!("{sessions}/{session}")).with_account(&world.ada)).await;
    assert_eq!(released.status, 200, "{}", released.text);
    let environment = format!("{PIPELINES}/shop/ephemeral-environments/qa-1");
    let found = world.send(get(&environment).with_account(&world.ada)).await;
    assert_eq!(found.body["data"]["lockStatus"], "unlocked", "{}", found.text);
}

#[tokio::test]
async fn instance_admin_without_required_second_factor_has_no_instance_access() {
    const INSTANCE: &str = "/api/v1/instance/organizations";
    let world = TestWorld::new().await;
    let olga = world.create_member("olga@acme.test", "owner").await;
    let browser = world.log_in(&olga.email, &olga.password).await;
    Authenticator::enrol(&world, &browser).await;
    // Ada is also a member of globex, which requires no second factor, and has a token there.
    let invitation = json!({"email": world.ada.email, "role": "viewer"});
    let invite = post("/api/v1/organizations/globex/invitations").with_account(&world.hank).json(&invitation);
    let link = super::world::token_of_link(&world.send(invite).await.body["data"]["url"]);
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let joined = world.send(ada.post("/api/v1/me/organizations").json(&json!({"token": link}))).await;
    assert_eq!(joined.status, 201, "{}", joined.text);
    let create = ada.post("/api/v1/organizations/globex/api-tokens").json(&json!({"name": "cli"}));
    let elsewhere = world.send(create).await.body["data"]["token"].as_str().unwrap().to_owned();
    let requests =
        || [ada.get(INSTANCE), get(INSTANCE).with_account(&world.ada), get(INSTANCE).token(&elsewhere)];
    for allowed in requests() {
        assert_eq!(world.send(allowed).await.status, 200);
    }

    assert_eq!(world.send(require(true).with_account(&olga)).await.status, 200);
    for refused in requests() {
        world.send(refused).await.assert_problem(403, "forbidden");
    }
    let rename = ada.write_request("PATCH", &format!("{INSTANCE}/globex")).json(&json!({"name": "Globex"}));
    world.send(rename).await.assert_problem(403, "forbidden");
    let me = world.send(ada.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["isInstanceAdmin"], false, "{}", me.text);

    Authenticator::enrol(&world, &ada).await;
    for allowed in requests() {
        assert_eq!(world.send(allowed).await.status, 200);
    }
}
