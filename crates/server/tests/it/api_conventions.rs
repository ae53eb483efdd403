//! A client that uses the API exactly as specified works.

use serde_json::json;

use super::world::{TestWorld, get, post};

#[tokio::test]
async fn list_responds_at_every_path_spelling() {
    let world = TestWorld::new().await;
    let id = world.create_pipeline("shop").await;
    let org = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await.body["data"]["id"]
        .clone();
    let org = org.as_str().unwrap();
    for path in [
        "/api/v1/organizations/acme/pipelines",
        "/api/v1/organizations/acme/pipelines/",
        "/api/v1//organizations/acme/pipelines",
        "/organizations/acme/pipelines",
        "/organizations/acme/pipelines/",
        "//organizations/acme/pipelines",
        &format!("/api/v1/organizations/{org}/pipelines?limit=10&offset=0"),
        &format!("/organizations/{org}/pipelines/?anything=else"),
    ] {
        let reply = world.send(get(path).with_account(&world.ada)).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("content-type"), "application/json");
        let record = &reply.body["data"][0];
        assert_eq!(
            (&record["id"], &record["name"], &record["slug"]),
            (&json!(id), &json!("Shop API"), &json!("shop"))
        );
        assert_eq!(reply.body["pagination"]["total"], 1);
    }
}

#[tokio::test]
async fn single_record_is_wrapped_in_data() {
    let world = TestWorld::new().await;
    let id = world.create_pipeline("shop").await;
    for key in [id.as_str(), "shop"] {
        let reply = world
            .send(get(&format!("/api/v1/organizations/acme/pipelines/{key}")).with_account(&world.ada))
            .await;
        assert_eq!(reply.body["data"]["id"], json!(id));
    }
}

#[tokio::test]
async fn absent_body_equals_an_empty_one() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let path = "/organizations/acme/pipelines/shop/stop/";
    for call in [
        post(path),
        post(path).raw("").header("content-type", "application/json"),
        post(path).json(&json!({})),
        post(path).json(&json!({"reason": null})),
        post(path).raw("{}"),
        post(path).header("content-type", "text/plain"),
    ] {
        let reply = world.send(call.with_account(&world.ada)).await;
        assert_eq!((reply.status.as_u16(), &reply.body["data"]["status"]), (200, &json!("stopped")));
    }
    let stops = world.event_kinds().await.into_iter().filter(|kind| kind == "pipeline_stopped").count();
    assert_eq!(stops, 1, "repeats are calm");
}

#[tokio::test]
async fn problems_are_json_with_the_accepted_media_type() {
    let world = TestWorld::new().await;
    let reply = world.send(get("/api/v1/nowhere")).await;
    reply.assert_problem(404, "not_found");
    assert_eq!(reply.header("content-type"), "application/problem+json");
    assert_eq!(reply.body["instance"], "/api/v1/nowhere");
    assert_eq!(reply.body["requestId"], reply.header("x-request-id"));

    for (accept, media_type) in [
        ("application/json", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("application/json, application/problem+json", "application/problem+json"),
        ("*/*", "application/problem+json"),
    ] {
        let reply = world.send(get("/api/v1/nowhere").header("accept", accept)).await;
        assert_eq!(reply.header("content-type"), media_type, "{accept}");
    }

    let reply = world.send(post("/api/v1/organizations/acme/events").with_account(&world.ada)).await;
    reply.assert_problem(405, "method_not_allowed");
    assert!(reply.header("allow").contains("GET"), "{:?}", reply.headers);
}

#[tokio::test]
async fn request_id_is_adopted_if_well_formed() {
    let world = TestWorld::new().await;
    let taken = world.send(get("/healthz").header("x-request-id", "from-ci_4.2")).await;
    assert_eq!(taken.header("x-request-id"), "from-ci_4.2");
    for bad in ["", "a b", "<script>", &"x".repeat(129)] {
        let made = world.send(get("/healthz").header("x-request-id", bad)).await;
        assert!(made.header("x-request-id").starts_with("req_"), "{bad:?}");
    }
}

#[tokio::test]
async fn list_pages_are_bounded_counted_and_linked() {
    let world = TestWorld::new().await;
    for n in 0..7 {
        world.create_pipeline(&format!("p-{n}")).await;
    }
    let list =
        |query: &str| get(&format!("/api/v1/organizations/acme/pipelines?{query}")).with_account(&world.ada);
    let slugs = |body: &serde_json::Value| {
        let records = body["data"].as_array().unwrap().iter();
        records.map(|record| record["slug"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let reply = world.send(list("limit=3&offset=3&search=p-")).await;
    assert_eq!(slugs(&reply.body), ["p-3", "p-4", "p-5"]);
    assert_eq!(
        reply.header("link"),
        "</api/v1/organizations/acme/pipelines?limit=3&search=p->; rel=\"first\", \
         </api/v1/organizations/acme/pipelines?limit=3&offset=0&search=p->; rel=\"prev\", \
         </api/v1/organizations/acme/pipelines?limit=3&offset=6&search=p->; rel=\"next\", \
         </api/v1/organizations/acme/pipelines?limit=3&offset=6&search=p->; rel=\"last\""
    );

    let mut walked = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let reply = world.send(list(&query)).await;
        walked.extend(slugs(&reply.body));
        let pagination = &reply.body["pagination"];
        assert_eq!((&pagination["total"], &pagination["limit"]), (&json!(7), &json!(2)));
        let Some(cursor) = pagination["nextCursor"].as_str() else { break };
        assert_eq!(pagination["hasMore"], true);
        query = format!("limit=2&cursor={cursor}");
    }
    assert_eq!(walked, (0..7).map(|n| format!("p-{n}")).collect::<Vec<_>>());

    let past = world.send(list("offset=1000")).await;
    assert_eq!((slugs(&past.body).len(), &past.body["pagination"]["total"]), (0, &json!(7)));
    let most = world.send(list("limit=1000&offset=")).await;
    assert_eq!(most.body["pagination"]["limit"], 1_000);
}

#[tokio::test]
async fn list_paging_out_of_range_is_refused() {
    let world = TestWorld::new().await;
    for (name, value) in [
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", "9223372036854775808"),
        ("limit", "1e9"),
        ("limit", "1%20"),
        ("limit", "%2B1"),
        ("limit", "1001"),
        ("limit", "ten"),
        ("limit", "1&limit=2"),
        ("offset", "-1"),
        ("offset", "9007199254740992"),
        ("offset", "99999999999999999999999"),
        ("offset", "0x10"),
        ("cursor", "nonsense"),
        ("cursor", "cGxfMDE"),
        ("cursor", "YWJj&offset=1"),
        ("status", "asleep"),
        ("search", "a%00b"),
    ] {
        let path = format!("/api/v1/organizations/acme/pipelines?{name}={value}");
        let reply = world.send(get(&path).with_account(&world.ada)).await;
        reply.assert_problem(400, "invalid_parameter");
        assert_eq!(reply.body["errors"][0]["pointer"], *name, "{value}");
    }
    let not_given = get("/api/v1/organizations/acme/pipelines?limit=&offset=&cursor=&status=&search=");
    let fine = world.send(not_given.with_account(&world.ada)).await;
    assert_eq!((fine.status.as_u16(), &fine.body["pagination"]["limit"]), (200, &json!(50)));
}

#[tokio::test]
async fn rate_limited_caller_gets_retry_after() {
    let mut config = berth_server::config::AppConfig::local(([127, 0, 0, 1], 8080).into());
    (config.requests_per_s, config.requests_burst) = (1, 3);
    let world = TestWorld::with_config(config).await;
    let list = |who| get("/api/v1/organizations/acme/pipelines").with_account(who);
    for _ in 0..3 {
        assert_eq!(world.send(list(&world.ada)).await.status, 200);
    }
    let refused = world.send(list(&world.ada)).await;
    refused.assert_problem(429, "rate_limited");
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("1", "\"default\";r=0;t=1"));
    world.send(list(&world.hank)).await.assert_problem(404, "not_found");
}
