//! Pull requests: list and view, their claims, links from sessions, environments and deployments, and who sees them.

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};

use super::pull_request_fixture::{
    ClaimTarget, create_repository, snapshot, store_claim, store_pull_request,
};
use super::scoped_access::{env_path, scoped_member, shop};
use super::world::{MemberAccount, TestWorld, call, get, post};

const LIST: &str = "/api/v1/organizations/acme/pull-requests";

async fn claim(world: &TestWorld, name: &str, body: Value) -> Value {
    let claimed = world.send(post(&env_path(name, "/sessions")).with_account(&world.ada).json(&body)).await;
    assert!([201, 202].contains(&claimed.status.as_u16()), "{}", claimed.text);
    claimed.body["data"].clone()
}

async fn environment(world: &TestWorld, name: &str) -> Value {
    let seen = world.send(get(&env_path(name, "")).with_account(&world.ada)).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    seen.body["data"].clone()
}

async fn view(world: &TestWorld, account: &MemberAccount, repository: &str, number: i64) -> Value {
    let path = format!("/api/v1/organizations/acme/repositories/{repository}/pull-requests/{number}");
    let seen = world.send(get(&path).with_account(account)).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    seen.body["data"].clone()
}

async fn list_numbers(world: &TestWorld, account: &MemberAccount, query: &str) -> Vec<i64> {
    let listed = world.send(get(&format!("{LIST}{query}")).with_account(account)).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
    listed.body["data"].as_array().unwrap().iter().map(|it| it["number"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn pull_request_shows_its_session_and_is_linked_from_it() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let held = claim(&world, "qa-1", json!({"commitId": "9fceb02", "ttlSeconds": 3600})).await;
    let repository = create_repository(&world, "/srv/git/shop.git", &["shop"]).await;
    store_pull_request(&world, &repository, 42, snapshot("Dark mode")).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (session, deployment) = (text(&held["sessionId"]), text(&held["deploymentId"]));
    let (pipeline, environment_id) = (text(&held["pipelineId"]), text(&held["environmentId"]));
    let tag = |reply: &super::world::TestResponse| reply.header("etag").to_owned();
    let before = tag(&world.send(get(&env_path("qa-1", "")).with_account(&world.ada)).await);
    let target = ClaimTarget {
        pipeline: &pipeline,
        environment: &environment_id,
        session: Some(&session),
        deployment: Some(&deployment),
        ..ClaimTarget::default()
    };
    store_claim(&world, &repository, 42, target).await;

    let seen = view(&world, &world.ada, &repository, 42).await;
    assert_eq!(
        (&seen["title"], &seen["author"], &seen["state"], &seen["needsApproval"]),
        (&json!("Dark mode"), &json!({"id": "7", "name": "grace"}), &json!("open"), &json!(false))
    );
    let shown = &seen["claims"][0];
    assert_eq!(shown["state"], "held");
    assert_eq!((&shown["sessionId"], &shown["fence"]), (&json!(session), &held["fence"]));
    assert_eq!(shown["expiresAt"], held["expiresAt"]);
    assert_eq!(shown["position"], Value::Null);
    assert_eq!((&shown["pipeline"]["slug"], &shown["environment"]["name"]), (&json!("shop"), &json!("qa-1")));
    assert_eq!(shown["deployment"]["id"], json!(deployment));
    assert_eq!(shown["deployment"]["commitId"], "4d6d0ebe".repeat(5));

    let link = json!({"repositoryId": repository, "number": 42, "title": "Dark mode",
        "url": "https://git.acme.test/acme/shop/pull/42", "author": "grace"});
    let reply = world.send(get(&env_path("qa-1", "")).with_account(&world.ada)).await;
    assert_eq!(reply.body["data"]["pullRequest"], link);
    assert_ne!(tag(&reply), before, "the ETag covers the link");
    let base = "/api/v1/organizations/acme";
    for path in [
        env_path("qa-1", &format!("/sessions/{session}")),
        format!("{base}/deployments/{deployment}"),
        format!("{base}/pipelines/shop/ephemeral-environments"),
        format!("{base}/deployments?session={session}"),
    ] {
        let data = world.send(get(&path).with_account(&world.ada)).await.body["data"].clone();
        let records = data.as_array().cloned().unwrap_or_else(|| vec![data]);
        assert!(records.iter().any(|it| it["pullRequest"] == link), "{path}: {records:?}");
    }
    assert_eq!(environment(&world, "qa-2").await.get("pullRequest"), None);

    let release = call("DELETE", &env_path("qa-1", &format!("/sessions/{session}")));
    assert_eq!(world.send(release.with_account(&world.ada)).await.status, 200);
    let ended = view(&world, &world.ada, &repository, 42).await;
    assert_eq!(
        (&ended["claims"][0]["state"], &ended["claims"][0]["sessionId"]),
        (&json!("stopped"), &Value::Null)
    );
    assert_eq!(environment(&world, "qa-1").await.get("pullRequest"), None);
}

#[tokio::test]
async fn queued_pull_request_shows_position_and_estimate() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let repository = create_repository(&world, "/srv/git/shop.git", &["shop"]).await;
    store_pull_request(&world, &repository, 43, snapshot("Light mode")).await;
    let held = claim(&world, "qa-1", json!({"ttlSeconds": 600})).await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let first = post(&env_path("qa-1", "/sessions")).with_account(&grace);
    assert_eq!(world.send(first.json(&json!({"queue": true, "ttlSeconds": 600}))).await.status, 202);
    let waits = claim(&world, "qa-1", json!({"queue": true})).await;
    let ticket = waits["ticketId"].as_str().unwrap();
    let (pipeline, environment) =
        (held["pipelineId"].as_str().unwrap(), held["environmentId"].as_str().unwrap());
    let target = ClaimTarget { pipeline, environment, ticket: Some(ticket), ..ClaimTarget::default() };
    store_claim(&world, &repository, 43, target).await;

    let shown = view(&world, &world.ada, &repository, 43).await["claims"][0].clone();
    assert_eq!((&shown["state"], &shown["position"]), (&json!("queued"), &json!(2)));
    let eta = shown["etaSeconds"].as_i64().unwrap();
    assert!((1..=1_200).contains(&eta), "{eta}");
    assert_eq!(shown["sessionId"], Value::Null);

    // The record of the claim still names the ticket; the session is found through it.
    for account in [&world.ada, &grace] {
        let lock = world.send(get(&env_path("qa-1", "")).with_account(&world.ada)).await;
        let session = lock.body["data"]["lock"]["sessionId"].as_str().unwrap().to_owned();
        let release = call("DELETE", &env_path("qa-1", &format!("/sessions/{session}")));
        assert_eq!(world.send(release.with_account(account)).await.status, 200);
    }
    let shown = view(&world, &world.ada, &repository, 43).await["claims"][0].clone();
    assert_eq!((&shown["state"], &shown["position"]), (&json!("held"), &Value::Null));
    assert!(shown["sessionId"].is_string());
}

#[tokio::test]
async fn pull_request_list_filters_by_state_repository_and_number_and_has_pages() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let shop = create_repository(&world, "/srv/git/shop.git", &["shop"]).await;
    let docs = create_repository(&world, "/srv/git/docs.git", &["docs"]).await;
    let bare = create_repository(&world, "/srv/git/bare.git", &[]).await;
    for number in 1..=3 {
        store_pull_request(&world, &shop, number, snapshot("Open")).await;
    }
    let closed = PullRequestStatus::Closed;
    store_pull_request(
        &world,
        &shop,
        4,
        berth_core::forge::PullRequestSnapshot { status: closed, ..snapshot("Closed") },
    )
    .await;
    store_pull_request(
        &world,
        &docs,
        5,
        berth_core::forge::PullRequestSnapshot { status: PullRequestStatus::Merged, ..snapshot("Merged") },
    )
    .await;
    store_pull_request(&world, &bare, 6, snapshot("Without a pipeline")).await;

    let ada = &world.ada;
    assert_eq!(list_numbers(&world, ada, "").await, [3, 2, 1]);
    assert_eq!(list_numbers(&world, ada, "?state=closed").await, [4]);
    assert_eq!(list_numbers(&world, ada, "?state=merged").await, [5]);
    assert_eq!(list_numbers(&world, ada, "?state=all").await, [5, 4, 3, 2, 1]);
    assert_eq!(list_numbers(&world, ada, &format!("?state=all&repository={docs}")).await, [5]);
    assert_eq!(list_numbers(&world, ada, "?state=all&number=2").await, [2]);
    assert_eq!(list_numbers(&world, ada, "?state=all&offset=3").await, [2, 1]);
    for wrong in ["?state=draft", "?repository=shop", "?number=0", "?cursor=bm8"] {
        world
            .send(get(&format!("{LIST}{wrong}")).with_account(ada))
            .await
            .assert_problem(400, "invalid_parameter");
    }
    let mut numbers = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{LIST}?state=all&limit=2{cursor}");
        let page = world.send(get(&path).with_account(ada)).await;
        assert_eq!(page.body["pagination"]["total"], json!(5), "{}", page.text);
        numbers.extend(page.body["data"].as_array().unwrap().iter().map(|it| it["number"].as_i64().unwrap()));
        match page.body["pagination"]["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    let path = format!("/api/v1/organizations/acme/repositories/{bare}/pull-requests/6");
    world.send(get(&path).with_account(ada)).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn pull_request_is_visible_only_with_a_pipeline_of_its_repository() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let held = claim(&world, "perf", json!({"commitId": "9fceb02"})).await;
    let shop = create_repository(&world, "/srv/git/shop.git", &["shop"]).await;
    let docs = create_repository(&world, "/srv/git/docs.git", &["docs"]).await;
    store_pull_request(&world, &shop, 42, snapshot("Dark mode")).await;
    store_pull_request(&world, &docs, 7, snapshot("Typo")).await;
    let target = ClaimTarget {
        pipeline: held["pipelineId"].as_str().unwrap(),
        environment: held["environmentId"].as_str().unwrap(),
        session: held["sessionId"].as_str(),
        deployment: held["deploymentId"].as_str(),
        ..ClaimTarget::default()
    };
    store_claim(&world, &shop, 42, target).await;

    let pete = scoped_member(&world, "pete@acme.test", &[("viewer", "pipeline:shop")]).await;
    assert_eq!(list_numbers(&world, &pete, "").await, [42]);
    assert_eq!(view(&world, &pete, &shop, 42).await["claims"][0]["environment"]["name"], "perf");
    let tess = scoped_member(&world, "tess@acme.test", &[("tester", "environment:shop/qa-*")]).await;
    assert_eq!(list_numbers(&world, &tess, "").await, [42]);
    assert_eq!(view(&world, &tess, &shop, 42).await["claims"], json!([]), "perf is hidden");
    let none = scoped_member(&world, "none@acme.test", &[("viewer", "pipeline:other")]).await;
    assert_eq!(list_numbers(&world, &none, "").await, [0_i64; 0]);
    for (account, repository, number) in
        [(&pete, &docs, "7"), (&none, &shop, "42"), (&pete, &shop, "43"), (&pete, &shop, "x")]
    {
        let path = format!("/api/v1/organizations/acme/repositories/{repository}/pull-requests/{number}");
        world.send(get(&path).with_account(account)).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn open_fork_needs_approval_of_exactly_its_head() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let repository = create_repository(&world, "/srv/git/shop.git", &["shop"]).await;
    let fork = berth_core::forge::PullRequestSnapshot { is_fork: true, ..snapshot("From a fork") };
    store_pull_request(&world, &repository, 42, fork.clone()).await;
    let needs = async || view(&world, &world.ada, &repository, 42).await["needsApproval"].clone();
    assert_eq!(needs().await, json!(true));
    world.run_sql(&format!("UPDATE pull_requests SET approved_head = '{}'", fork.head));
    assert_eq!(needs().await, json!(false));
    world.run_sql(&format!("UPDATE pull_requests SET head = '{}'", "9fceb02a".repeat(5)));
    assert_eq!(needs().await, json!(true));
    world.run_sql("UPDATE pull_requests SET status = 'closed'");
    assert_eq!(needs().await, json!(false));
}
