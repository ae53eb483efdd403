//! Access limited to parts of an organization: grants, teams and restricted tokens. `scoped_matrix.rs` calls every route.

use serde_json::{Value, json};

use super::world::{MemberAccount, TestWorld, call, get, post};

/// Creates a member of acme with only these grants in addition to the role `member`.
pub(crate) async fn scoped_member(world: &TestWorld, email: &str, grants: &[(&str, &str)]) -> MemberAccount {
    let account = world.create_member(email, "member").await;
    for (role, scope) in grants {
        grant(world, &format!("user:{email}"), role, scope).await;
    }
    account
}

/// Creates a grant as the owner and returns its id.
async fn grant(world: &TestWorld, subject: &str, role: &str, scope: &str) -> String {
    let body = json!({"subject": subject, "role": role, "scope": scope});
    let made =
        world.send(post("/api/v1/organizations/acme/grants").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"]["id"].as_str().unwrap().to_owned()
}

/// The paths of an environment, relative to the organization.
pub(crate) fn env_path(name: &str, rest: &str) -> String {
    format!("/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/{name}{rest}")
}

const DEFINITION: &str = "version: 1\npipeline:\n  name: Shop\n  stages:\n    - name: staging\n    - name: production\n  steps:\n    - name: Deploy\n      type: dummy\n  ephemeral_environments:\n    qa-1: {}\n    qa-2: {}\n    perf: {}\n";

pub(crate) async fn shop(world: &TestWorld) {
    let body = json!({"slug": "shop", "definition": DEFINITION});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    world.create_pipeline("docs").await;
}

#[tokio::test]
async fn tester_works_a_day_in_the_granted_environments() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let tess = scoped_member(&world, "tess@acme.test", &[("tester", "environment:shop/qa-*")]).await;

    let list = world.send(get("/api/v1/organizations/acme/pipelines").with_account(&tess)).await;
    assert_eq!(list.body["data"].as_array().map(Vec::len), Some(1), "{}", list.text);
    let path = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments";
    let environments = world.send(get(path).with_account(&tess)).await;
    let names: Vec<&str> = environments.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["envName"].as_str())
        .collect();
    assert_eq!(names, ["qa-1", "qa-2"]);

    let claim =
        post(&env_path("qa-1", "/sessions")).with_account(&tess).json(&json!({"commitId": "9fceb02"}));
    let claimed = world.send(claim).await;
    assert_eq!(claimed.status, 201, "{}", claimed.text);
    let session = claimed.body["data"]["sessionId"].as_str().unwrap().to_owned();
    let deployment = claimed.body["data"]["deploymentId"].as_str().unwrap().to_owned();
    let at = |rest: &str| env_path("qa-1", &format!("/sessions/{session}{rest}"));
    let extended =
        world.send(post(&at("/extend")).with_account(&tess).json(&json!({"ttlSeconds": 600}))).await;
    assert_eq!(extended.status, 200, "{}", extended.text);
    let viewed = get(&format!("/api/v1/organizations/acme/deployments/{deployment}")).with_account(&tess);
    assert_eq!(world.send(viewed).await.status, 200);
    let cancel =
        post(&format!("/api/v1/organizations/acme/deployments/{deployment}/cancel")).with_account(&tess);
    let cancelled = world.send(cancel).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    assert_eq!(world.send(call("DELETE", &at("")).with_account(&tess)).await.status, 200);
    assert_eq!(world.send(get(&env_path("qa-1", "/history")).with_account(&tess)).await.status, 200);
    let events = world.send(get("/api/v1/organizations/acme/events?limit=200").with_account(&tess)).await;
    let events = events.body["data"].as_array().unwrap().clone();
    assert!(events.iter().any(|it| it["kind"] == "session_claimed"), "{events:?}");
    assert!(
        events.iter().all(|it| it["kind"] != "member_added" && it["kind"] != "pipeline_created"),
        "{events:?}"
    );

    let ada_holds =
        world.send(post(&env_path("qa-2", "/sessions")).with_account(&world.ada).json(&json!({}))).await;
    let theirs = ada_holds.body["data"]["sessionId"].as_str().unwrap();
    let refused = [
        (post(&env_path("qa-2", "/force-claim")), "environments:force_claim", "org"),
        (post("/api/v1/organizations/acme/pipelines/shop/deployments"), "stages:deploy", ""),
        (post("/api/v1/organizations/acme/pipelines/shop/stop"), "pipelines:operate", ""),
    ];
    for (request, permission, scope) in refused {
        let reply = world.send(request.with_account(&tess).json(&json!({}))).await;
        reply.assert_problem(403, "forbidden");
        assert_eq!(reply.body["permission"], permission);
        assert_eq!(reply.body["grantedBy"], json!(["ada"]), "{}", reply.text);
        if !scope.is_empty() {
            assert_eq!(reply.body["scope"], scope);
        }
    }
    let release = call("DELETE", &env_path("qa-2", &format!("/sessions/{theirs}"))).with_account(&tess);
    world.send(release).await.assert_problem(403, "not_session_holder");
    let definition = get("/api/v1/organizations/acme/pipelines/shop/definition").with_account(&tess);
    world.send(definition).await.assert_problem(403, "forbidden");
    let plan = post("/api/v1/organizations/acme/pipelines/plan").with_account(&tess);
    world.send(plan.json(&json!({"pipelineId": "shop"}))).await.assert_problem(403, "forbidden");
    for hidden in [env_path("perf", ""), "/api/v1/organizations/acme/pipelines/docs".to_owned()] {
        world.send(get(&hidden).with_account(&tess)).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn stage_grant_does_not_allow_a_deployment_through_other_stages() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let path = "/api/v1/organizations/acme/pipelines/shop/deployments";
    let stan = scoped_member(&world, "stan@acme.test", &[("deployer", "stage:shop@staging")]).await;
    let reply = world.send(post(path).with_account(&stan).json(&json!({"commitId": "9fceb02"}))).await;
    reply.assert_problem(403, "forbidden");
    assert_eq!(
        (&reply.body["permission"], &reply.body["scope"]),
        (&json!("stages:deploy"), &json!("stage:shop@production"))
    );
    grant(&world, "user:stan@acme.test", "deployer", "stage:shop@prod*").await;
    let reply = world.send(post(path).with_account(&stan).json(&json!({"commitId": "9fceb02"}))).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

#[tokio::test]
async fn build_of_a_deployment_is_operated_with_permission_for_every_stage() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let path = "/api/v1/organizations/acme/pipelines/shop/deployments";
    let body = json!({"commitId": "9fceb02"});
    let started = world.send(post(path).with_account(&world.ada).json(&body)).await;
    let id = started.body["data"]["id"].as_str().unwrap().to_owned();
    let stan = scoped_member(&world, "stan@acme.test", &[("deployer", "stage:shop@staging")]).await;
    for operation in ["cancel", "stages/build/cancel", "stages/build/retry", "stages/production/cancel"] {
        let path = format!("/api/v1/organizations/acme/deployments/{id}/{operation}");
        let reply = world.send(post(&path).with_account(&stan)).await;
        reply.assert_problem(403, "forbidden");
        assert_eq!(reply.body["scope"], "stage:shop@production", "{operation}");
    }
}

#[tokio::test]
async fn team_grant_applies_from_joining_until_leaving() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let tess = scoped_member(&world, "tess@acme.test", &[]).await;
    let member = async |account: &MemberAccount| {
        let me = world.send(get("/api/v1/me").with_account(account)).await;
        me.body["data"]["user"]["id"].as_str().unwrap().to_owned()
    };
    let id = member(&tess).await;
    let body = json!({"slug": "qa", "name": "Quality"});
    let made =
        world.send(post("/api/v1/organizations/acme/teams").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let granted = grant(&world, "team:qa", "tester", "environment:shop/*").await;
    let claim = async || world.send(get(&env_path("perf", "")).with_account(&tess)).await.status.as_u16();
    assert_eq!(claim().await, 403, "no role contains the permission anywhere");
    let membership = format!("/api/v1/organizations/acme/teams/qa/members/{id}");
    assert_eq!(world.send(call("PUT", &membership).with_account(&world.ada)).await.status, 200);
    assert_eq!(claim().await, 200);
    let why = format!("/api/v1/organizations/acme/members/{id}/access?resource=environment:shop/perf");
    let why = world.send(get(&why).with_account(&tess)).await;
    let claims = why.body["data"]["permissions"].as_array().unwrap().iter();
    let claims = claims.clone().find(|it| it["permission"] == "environments:claim").unwrap().clone();
    let expected =
        json!({"role": "tester", "scope": "environment:shop/*", "grantId": granted, "team": "Quality"});
    assert_eq!((&claims["allowed"], &claims["grantedBy"]), (&json!(true), &expected));
    assert_eq!(world.send(call("DELETE", &membership).with_account(&world.ada)).await.status, 200);
    assert_eq!(claim().await, 403);
    assert_eq!(world.send(call("PUT", &membership).with_account(&world.ada)).await.status, 200);
    let delete =
        call("DELETE", &format!("/api/v1/organizations/acme/grants/{granted}")).with_account(&world.ada);
    assert_eq!(world.send(delete).await.status, 200);
    assert_eq!(claim().await, 403);
}

#[tokio::test]
async fn revoked_access_is_effective_on_every_server_within_a_second() {
    let world = TestWorld::new().await;
    let Some(other) = world.another_server().await else { return };
    shop(&world).await;
    let tess = scoped_member(&world, "tess@acme.test", &[]).await;
    let granted = grant(&world, "user:tess@acme.test", "viewer", "pipeline:shop").await;
    let read = async || other.send(get(&env_path("qa-1", "")).with_account(&tess)).await.status.as_u16();
    let wait_for = async |status: u16| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(1);
        while read().await != status {
            assert!(std::time::Instant::now() < until, "still not {status} after a second");
            tokio::time::sleep(super::world::POLL_EVERY).await;
        }
    };
    wait_for(200).await;
    let delete =
        call("DELETE", &format!("/api/v1/organizations/acme/grants/{granted}")).with_account(&world.ada);
    assert_eq!(world.send(delete).await.status, 200);
    wait_for(403).await;
}

#[tokio::test]
async fn invalid_grants_are_refused_with_reasons() {
    let world = TestWorld::new().await;
    let admin = world.create_member("adam@acme.test", "admin").await;
    let send = async |account: &MemberAccount, body: Value| {
        world.send(post("/api/v1/organizations/acme/grants").with_account(account).json(&body)).await
    };
    let valid = json!({"subject": "user:adam@acme.test", "role": "tester", "scope": "pipeline:shop"});
    let with = |member: &str, value: &str| {
        let mut body = valid.clone();
        body[member] = json!(value);
        body
    };
    for (member, value) in [
        ("subject", "adam"),
        ("subject", "user:unknown@acme.test"),
        ("subject", "team:unknown"),
        ("subject", "user:hank@globex.test"),
        ("role", "owner"),
        ("role", "member"),
        ("role", "emperor"),
        ("scope", "shop"),
        ("scope", "pipeline:*a*"),
        ("scope", "environment:shop"),
        ("scope", "environment:shop/a/b"),
        ("scope", "stage:shop/production"),
    ] {
        let reply = send(&admin, with(member, value)).await;
        reply.assert_problem(400, "invalid_request");
        assert_eq!(reply.body["errors"][0]["pointer"], format!("/{member}"), "{value}: {}", reply.text);
    }
    assert_eq!(send(&admin, valid.clone()).await.status, 201);
    send(&admin, valid.clone()).await.assert_problem(409, "already_exists");
    let deployer = world.create_member("dora@acme.test", "deployer").await;
    send(&deployer, with("role", "viewer")).await.assert_problem(403, "forbidden");
}

#[tokio::test]
async fn restricted_token_keeps_only_its_permissions_and_never_exceeds_its_owner() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let restricted = async |account: &MemberAccount, permissions: Value, scope: &str| {
        let body = json!({"name": "ci", "restrictTo": [{"permissions": permissions, "scope": scope}]});
        let path = "/api/v1/organizations/acme/api-tokens";
        let made = world.send(post(path).with_account(account).json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["token"].as_str().unwrap().to_owned()
    };
    let token = restricted(&world.ada, json!(["environments:claim"]), "environment:shop/qa-*").await;
    let claim = async |token: &str, env: &str| {
        world.send(post(&env_path(env, "/sessions")).token(token).json(&json!({}))).await
    };
    assert_eq!(claim(&token, "qa-1").await.status, 201);
    claim(&token, "perf").await.assert_problem(404, "not_found");
    world
        .send(get("/api/v1/organizations/acme/members").token(&token))
        .await
        .assert_problem(403, "forbidden");
    let create = post("/api/v1/organizations/acme/api-tokens").token(&token).json(&json!({"name": "more"}));
    world.send(create).await.assert_problem(403, "forbidden");

    let viewer = world.create_member("vera@acme.test", "viewer").await;
    let beyond = restricted(&viewer, json!(["environments:claim"]), "org").await;
    claim(&beyond, "qa-2").await.assert_problem(403, "forbidden");

    let path = "/api/v1/organizations/acme/api-tokens";
    for (restriction, pointer) in [
        (json!([]), "/restrictTo"),
        (json!([{"permissions": [], "scope": "org"}]), "/restrictTo/0/permissions"),
        (json!([{"permissions": ["all"], "scope": "org"}]), "/restrictTo/0/permissions/0"),
        (json!([{"permissions": ["events:read"], "scope": "everything"}]), "/restrictTo/0/scope"),
    ] {
        let body = json!({"name": "bad", "restrictTo": restriction});
        let reply = world.send(post(path).with_account(&world.ada).json(&body)).await;
        reply.assert_problem(400, "invalid_request");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.text);
    }
}

#[tokio::test]
async fn approval_can_ask_for_a_team() {
    let world = TestWorld::new().await;
    let source = DEFINITION.replace(
        "    - name: production\n",
        "    - name: production\n      requires:\n        from: [\"team:sre\"]\n",
    );
    let body = json!({"definition": source});
    let path = "/api/v1/organizations/acme/pipelines/validate";
    let checked = world.send(post(path).with_account(&world.ada).json(&body)).await;
    assert_eq!(checked.body["data"]["valid"], true, "{}", checked.text);
    let warnings = checked.body["data"]["diagnostics"].as_array().unwrap().clone();
    assert!(
        warnings.iter().any(|it| it["code"] == "unfulfillable"),
        "no member is in the team: {warnings:?}"
    );
    let body = json!({"slug": "sre"});
    world.send(post("/api/v1/organizations/acme/teams").with_account(&world.ada).json(&body)).await;
    let me = world.send(get("/api/v1/me").with_account(&world.ada)).await.body["data"]["user"]["id"].clone();
    let join = format!("/api/v1/organizations/acme/teams/sre/members/{}", me.as_str().unwrap());
    assert_eq!(world.send(call("PUT", &join).with_account(&world.ada)).await.status, 200);
    let body = json!({"definition": source});
    let checked = world.send(post(path).with_account(&world.ada).json(&body)).await;
    let warnings = checked.body["data"]["diagnostics"].as_array().unwrap().clone();
    assert!(warnings.iter().all(|it| it["code"] != "unfulfillable"), "{warnings:?}");
}

#[tokio::test]
async fn members_without_access_to_all_pipelines_see_only_their_own_grants() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let tess = scoped_member(&world, "tess@acme.test", &[("tester", "environment:shop/qa-*")]).await;
    let hidden = grant(&world, "user:ada@acme.test", "viewer", "pipeline:merger-plans").await;
    let (all, one) =
        ("/api/v1/organizations/acme/grants", format!("/api/v1/organizations/acme/grants/{hidden}"));
    let listed = world.send(get(all).with_account(&tess)).await;
    assert_eq!(listed.body["data"].as_array().unwrap().len(), 1, "{}", listed.text);
    assert!(!listed.text.contains("merger-plans"), "{}", listed.text);
    world.send(get(&one).with_account(&tess)).await.assert_problem(404, "not_found");
    let ada = world.send(get("/api/v1/me").with_account(&world.ada)).await.body["data"]["user"]["id"].clone();
    let explain = format!(
        "/api/v1/organizations/acme/members/{}/access?resource=pipeline:merger-plans",
        ada.as_str().unwrap()
    );
    world.send(get(&explain).with_account(&tess)).await.assert_problem(404, "not_found");
    assert_eq!(world.send(get(&explain).with_account(&world.ada)).await.status, 200);
    assert!(world.send(get(all).with_account(&world.ada)).await.text.contains("merger-plans"));
}
