//! Organizations that instance admins create, rename and delete while the server runs.

use berth_server::config::AppConfig;
use berth_server::http::RouteAccess;
use serde_json::json;

use super::resource_target::ResourceTarget;
use super::world::{TestWorld, call, get, post};

const ALL: &str = "/api/v1/instance/organizations";

/// Ada is the first owner, and therefore an instance admin.
async fn public_world() -> TestWorld {
    let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    let public_url = Some("https://berth.acme.test".into());
    TestWorld::with_config(AppConfig { local: false, public_url, ..config }).await
}

#[tokio::test]
async fn instance_routes_are_refused_for_everyone_but_instance_admins() {
    let world = TestWorld::new().await;
    let owner = world.create_member("olga@acme.test", "owner").await;
    let body = json!({"name": "ci", "restrictTo": [{"permissions": ["pipelines:read"], "scope": "org"}]});
    let path = "/api/v1/organizations/acme/api-tokens";
    let restricted = world.send(post(path).with_account(&world.ada).json(&body)).await;
    let restricted = restricted.body["data"]["token"].as_str().unwrap().to_owned();
    let (_, service) = world.create_service_account("ci@acme.test", "admin").await;
    let routes = world.edge.routes().to_vec();
    let instance: Vec<_> = routes.iter().filter(|it| it.access == RouteAccess::InstanceAdmin).collect();
    assert_eq!(instance.len(), 5);
    for route in instance {
        let path = route.path.replace("{orgId}", "acme");
        for token in [&owner.token, &world.hank.token, &restricted, &service] {
            let reply = world.send(call(&route.method, &path).token(token).json(&json!({}))).await;
            reply.assert_problem(403, "forbidden");
        }
    }
    assert_eq!(world.send(get(ALL).with_account(&world.ada)).await.status, 200);
}

#[tokio::test]
async fn created_organization_is_usable_and_belongs_to_its_creator() {
    let world = public_world().await;
    let make = || post(ALL).with_account(&world.ada).header("idempotency-key", "one");
    let body = json!({"slug": "initech", "name": "Initech"});
    let made = world.send(make().json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let again = world.send(make().json(&body)).await;
    assert_eq!(again.body["data"]["id"], made.body["data"]["id"], "{}", again.text);
    let taken = world.send(post(ALL).with_account(&world.ada).json(&json!({"slug": "globex"}))).await;
    taken.assert_problem(409, "already_exists");

    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    let own = world.send(browser.get("/api/v1/organizations/initech")).await;
    assert_eq!((own.status.as_u16(), &own.body["data"]["role"]), (200, &json!("owner")), "{}", own.text);
    let token = browser.post("/api/v1/organizations/initech/api-tokens").json(&json!({"name": "cli"}));
    let token = world.send(token).await.body["data"]["token"].as_str().unwrap().to_owned();
    let events = world.send(get("/api/v1/organizations/initech/events").token(&token)).await;
    let kinds = events.body["data"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap());
    assert!(
        kinds.collect::<Vec<_>>().ends_with(&["member_added", "organization_created"]),
        "{}",
        events.text
    );
    let foreign = world.send(get("/api/v1/organizations/initech").with_account(&world.hank)).await;
    foreign.assert_problem(404, "not_found");
}

#[tokio::test]
async fn local_server_refuses_another_organization() {
    let world = TestWorld::new().await;
    let reply = world.send(post(ALL).with_account(&world.ada).json(&json!({"slug": "initech"}))).await;
    reply.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn renamed_organization_keeps_its_id_and_its_old_slug() {
    let world = public_world().await;
    let before = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await;
    let rename = |from: &str, to: &str| {
        call("PATCH", &format!("{ALL}/{from}")).with_account(&world.ada).json(&json!({"slug": to}))
    };
    let renamed = world.send(rename("acme", "apex")).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);
    assert_eq!(renamed.body["data"]["id"], before.body["data"]["id"]);
    assert_eq!(renamed.body["data"]["formerSlugs"], json!(["acme"]));
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    for key in ["acme", "apex"] {
        let path = format!("/api/v1/organizations/{key}");
        let by_token = world.send(get(&path).with_account(&world.ada)).await;
        assert_eq!(
            (by_token.status.as_u16(), &by_token.body["data"]["slug"]),
            (200, &json!("apex")),
            "{key}"
        );
        assert_eq!(world.send(browser.get(&path)).await.body["data"]["slug"], "apex", "{key}");
        world.send(get(&path).with_account(&world.hank)).await.assert_problem(404, "not_found");
    }
    // The old slug stays reserved, but the organization itself can have it back.
    world.send(rename("globex", "acme")).await.assert_problem(409, "already_exists");
    let taken = world.send(post(ALL).with_account(&world.ada).json(&json!({"slug": "acme"}))).await;
    taken.assert_problem(409, "already_exists");
    let back = world.send(rename("acme", "acme")).await;
    assert_eq!(back.body["data"]["formerSlugs"], json!(["apex"]), "{}", back.text);
}

#[tokio::test]
async fn organization_with_active_work_is_not_deleted() {
    let target = ResourceTarget::new().await;
    let delete = |query: &str| call("DELETE", &format!("{ALL}/acme{query}")).with_account(&target.world.ada);
    target.world.send(delete("")).await.assert_problem(400, "invalid_parameter");
    target.world.send(delete("?confirm=globex")).await.assert_problem(400, "invalid_parameter");
    let busy = target.world.send(delete("?confirm=acme")).await;
    busy.assert_problem(409, "invalid_state");
    assert!(busy.body["detail"].as_str().unwrap().contains("1 active sessions"), "{}", busy.text);
}

#[tokio::test]
async fn deleted_organization_is_gone_with_all_its_records() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    // Ends the work of the organization, as its members would.
    world.run_sql(
        "UPDATE sessions SET ended_at = 1, end_reason = 'released', ended_by = '{}' WHERE ended_at IS NULL;
         UPDATE deployments SET finished_at = 1, status = 'succeeded' WHERE finished_at IS NULL;",
    );
    let logs = world.dir.path().join("logs");
    let acme = world.send(get(&format!("{ALL}/acme")).with_account(&world.ada)).await;
    let id = acme.body["data"]["id"].as_str().unwrap().to_owned();
    std::fs::create_dir_all(logs.join(&id)).unwrap();
    let gone = world.send(call("DELETE", &format!("{ALL}/acme?confirm=acme")).with_account(&world.ada)).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert!(!logs.join(&id).exists());
    let after = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await;
    after.assert_problem(401, "unauthenticated");
    let hanks =
        world.send(get("/api/v1/organizations/globex/events?limit=1").with_account(&world.hank)).await;
    assert_eq!(hanks.body["data"][0]["kind"], "organization_deleted", "{}", hanks.text);

    // Its slug is never given to another organization, and the last organization stays.
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    let create = browser.post(ALL).json(&json!({"slug": "acme"}));
    assert_eq!(world.send(create).await.status, 409);
    let delete = browser.write_request("DELETE", &format!("{ALL}/globex?confirm=globex"));
    let last = world.send(delete).await;
    last.assert_problem(409, "invalid_state");
    assert!(last.body["detail"].as_str().unwrap().contains("last organization"), "{}", last.text);
}

#[tokio::test]
async fn browser_needs_reauthentication_to_delete_an_organization() {
    let world = public_world().await;
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    world.run_sql("UPDATE sign_ins SET confirmed_at = 1");
    let delete = || browser.write_request("DELETE", &format!("{ALL}/globex?confirm=globex"));
    world.send(delete()).await.assert_problem(403, "reauthentication_required");
    let confirm = browser.post("/api/v1/auth/confirm").json(&json!({"password": world.ada.password}));
    assert_eq!(world.send(confirm).await.status, 200);
    assert_eq!(world.send(delete()).await.status, 200);
    world.send(get("/api/v1/me").with_account(&world.hank)).await.assert_problem(401, "unauthenticated");
}
