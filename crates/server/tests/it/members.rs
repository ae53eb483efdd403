//! Members: who may add, change and remove them.

use serde_json::json;

use super::world::{TestWorld, call, get, post, token_of_link};

const INVITATIONS: &str = "/api/v1/organizations/acme/invitations";
const MEMBERS: &str = "/api/v1/organizations/acme/members";

#[tokio::test]
async fn member_can_be_added_only_as_a_service_account() {
    let world = TestWorld::new().await;
    let body = json!({"email": "ci@acme.test", "role": "deployer", "kind": "service"});
    let added = world.send(post(MEMBERS).with_account(&world.ada).json(&body)).await;
    assert_eq!(added.status, 201, "{}", added.text);
    let member = &added.body["data"];
    assert_eq!(
        (&member["kind"], &member["role"], &member["name"]),
        (&json!("service"), &json!("deployer"), &json!("ci"))
    );
    assert!(added.header("location").ends_with(member["id"].as_str().unwrap()));
    world
        .send(post(MEMBERS).with_account(&world.ada).json(&body))
        .await
        .assert_problem(409, "already_exists");
    for kind in [json!(null), json!("person")] {
        let person = json!({"email": "grace@acme.test", "role": "viewer", "kind": kind});
        let reply = world.send(post(MEMBERS).with_account(&world.ada).json(&person)).await;
        reply.assert_problem(400, "invalid_request");
        assert!(reply.text.contains("/invitations"), "{}", reply.text);
    }
}

#[tokio::test]
async fn member_role_is_limited_by_the_callers_and_the_last_owner_stays() {
    let world = TestWorld::new().await;
    let admin = world.create_member("otto@acme.test", "admin").await;
    let ada = world.send(get(MEMBERS).with_account(&world.ada)).await.body["data"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let ada = format!("{MEMBERS}/{ada}");
    let owner = json!({"email": "x@acme.test", "role": "owner"});
    world.send(post(INVITATIONS).with_account(&admin).json(&owner)).await.assert_problem(403, "forbidden");
    world
        .send(call("PATCH", &ada).with_account(&admin).json(&json!({"role": "viewer"})))
        .await
        .assert_problem(403, "forbidden");
    world.send(call("DELETE", &ada).with_account(&admin)).await.assert_problem(403, "forbidden");
    world
        .send(call("PATCH", &ada).with_account(&world.ada).json(&json!({"role": "admin"})))
        .await
        .assert_problem(409, "invalid_state");
    world.send(call("DELETE", &ada).with_account(&world.ada)).await.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn member_change_and_removal_apply_at_once() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "viewer").await;
    let stop = || post("/api/v1/organizations/acme/pipelines/none/stop").with_account(&grace);
    world.send(stop()).await.assert_problem(403, "forbidden");
    let id = world.send(get("/api/v1/me").with_account(&grace)).await.body["data"]["user"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("{MEMBERS}/{id}");
    let changed =
        world.send(call("PATCH", &path).with_account(&world.ada).json(&json!({"role": "deployer"}))).await;
    assert_eq!((changed.status.as_u16(), changed.header("etag")), (200, "\"2\""));
    world.send(stop()).await.assert_problem(404, "not_found");

    let stale = call("DELETE", &path).with_account(&world.ada).header("if-match", "\"1\"");
    world.send(stale).await.assert_problem(412, "precondition_failed");
    let removed =
        world.send(call("DELETE", &path).with_account(&world.ada).header("if-match", "\"2\"")).await;
    assert!(removed.body["data"]["deletedAt"].is_string(), "{}", removed.text);
    world.send(stop()).await.assert_problem(401, "unauthenticated");
    world.send(call("DELETE", &path).with_account(&world.ada)).await.assert_problem(404, "not_found");
    assert_eq!(
        world.event_kinds().await.iter().filter(|kind| kind.starts_with("member_")).collect::<Vec<_>>(),
        ["member_added", "member_invited", "member_added", "member_updated", "member_removed"]
    );
}

#[tokio::test]
async fn invalid_member_is_refused_with_every_error() {
    let world = TestWorld::new().await;
    let body = json!({"email": "not-an-address", "role": "king", "name": "a\u{0}b", "kind": "robot"});
    let reply = world.send(post(MEMBERS).with_account(&world.ada).json(&body)).await;
    reply.assert_problem(400, "invalid_request");
    let pointers: Vec<_> =
        reply.body["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/email", "/role", "/name", "/kind"]);
    let array = json!({"email": ["a@b.c", "d@e.f"], "role": "viewer"});
    let reply = world.send(post(MEMBERS).with_account(&world.ada).json(&array)).await;
    reply.assert_problem(400, "invalid_request");
    assert_eq!(reply.body["errors"][0]["pointer"], "/email");
}

#[tokio::test]
async fn organization_rename_needs_permission_and_if_match() {
    let world = TestWorld::new().await;
    let path = "/api/v1/organizations/acme";
    let patch = |name: &str| call("PATCH", path).with_account(&world.ada).json(&json!({"name": name}));
    let renamed = world.send(patch("Acme Shipping").header("if-match", "\"1\"")).await;
    assert_eq!(
        (renamed.header("etag"), &renamed.body["data"]["name"]),
        ("\"2.owner\"", &json!("Acme Shipping"))
    );
    world.send(patch("Late").header("if-match", "\"1\"")).await.assert_problem(412, "precondition_failed");
    assert_eq!(world.send(patch("")).await.body["data"]["name"], "Acme Shipping", "empty is not given");
    let calm = world.send(patch("Acme Shipping")).await;
    assert_eq!(calm.header("etag"), "\"2.owner\"");
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "organization_updated").count(), 1);
}

#[tokio::test]
async fn member_removed_during_a_request_changes_nothing() {
    let world = TestWorld::new().await;
    let otto = world.create_member("otto@acme.test", "admin").await;
    let id = world.send(get("/api/v1/me").with_account(&otto)).await.body["data"]["user"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (release, held) = tokio::sync::oneshot::channel::<()>();
    let rest = futures_util::stream::once(async move {
        held.await.unwrap();
        Ok::<_, std::io::Error>(r#"{"email": "mallory@acme.test", "role": "admin", "kind": "service"}"#)
    });
    let slow = post(MEMBERS)
        .with_account(&otto)
        .header("content-type", "application/json")
        .raw(axum::body::Body::from_stream(rest));
    let (reply, ()) = tokio::join!(world.send(slow), async {
        let removed = world.send(call("DELETE", &format!("{MEMBERS}/{id}")).with_account(&world.ada)).await;
        assert_eq!(removed.status, 200);
        release.send(()).unwrap();
    });
    reply.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(get(MEMBERS).with_account(&world.ada)).await.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn joined_organization_does_not_see_the_members_log_ins() {
    let world = TestWorld::new().await;
    let path = "/api/v1/organizations/globex/invitations";
    let body = json!({"email": world.ada.email, "role": "viewer"});
    let made = world.send(post(path).with_account(&world.hank).json(&body)).await;
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    let link = json!({"token": token_of_link(&made.body["data"]["url"])});
    assert_eq!(world.send(browser.post("/api/v1/me/organizations").json(&link)).await.status, 201);
    world.log_in(&world.ada.email, &world.ada.password).await;
    let seen = world.send(get("/api/v1/organizations/globex/events").with_account(&world.hank)).await;
    assert!(!seen.text.contains("login_"), "{}", seen.text);
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("login_succeeded"));
}

#[tokio::test]
async fn refusal_inside_a_handler_is_recorded() {
    let world = TestWorld::new().await;
    let otto = world.create_member("otto@acme.test", "admin").await;
    let owner = json!({"email": "x@acme.test", "role": "owner"});
    world.send(post(INVITATIONS).with_account(&otto).json(&owner)).await.assert_problem(403, "forbidden");
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("access_denied"));
}
