//! The registry resource: its JSON, and requests that are refused.

use serde_json::{Value, json};

use super::super::git::OriginRepository;
use super::super::world::{TestWorld, call, get, post};
use super::*;

#[tokio::test]
async fn registry_shows_its_steps_builds_and_logs() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["CUSTOM:DEPLOY", "Announce"]);
    let head = origin.git(&["rev-parse", "HEAD"]);
    let body = json!({"name": "tools", "url": origin.url().as_str()});
    let made = world.send(post(REGISTRIES).with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.body["data"]["id"].as_str().unwrap().to_owned();
    assert!(made.header("location").ends_with(&format!("/step-registries/{id}")));
    let fresh = &made.body["data"];
    assert_eq!(
        (&fresh["status"], &fresh["lastGood"], &fresh["steps"], &fresh["ref"]),
        (&json!("pending"), &Value::Null, &json!([]), &Value::Null)
    );

    jobs::tick(world.app.jobs()).await.unwrap();
    for key in [id.as_str(), "tools"] {
        let seen = read_registry(&world, key).await;
        assert_eq!(
            (&seen["status"], &seen["commit"], &seen["error"]),
            (&json!("ready"), &json!(head), &Value::Null),
            "{seen}"
        );
        let good = &seen["lastGood"];
        assert_eq!(
            (&good["commit"], &good["refs"], &good["build"]),
            (&json!(head), &json!(["main"]), &json!(1))
        );
        assert!(good["digest"].as_str().unwrap().starts_with("sha256:"));
        let keys: Vec<_> = seen["steps"].as_array().unwrap().iter().map(|it| it["key"].clone()).collect();
        assert_eq!(keys, ["announce", "deploy"]);
    }

    let steps = get_registry(&world, "tools/steps").await.body;
    assert_eq!(steps["pagination"]["total"], 2);
    let deploy = &steps["data"][1];
    assert_eq!(
        (&deploy["type"], &deploy["use"], &deploy["shortDescription"], &deploy["usedBy"]),
        (&json!("CUSTOM:DEPLOY"), &json!("tools/deploy"), &json!("does it"), &json!([]))
    );
    assert_eq!(deploy["paramsSchema"]["properties"]["target"]["type"], "string");
    assert_eq!(
        (&deploy["longDescription"], &deploy["yamlExample"]),
        (&json!("Does it **well**."), &json!("type: x"))
    );

    let builds = get_registry(&world, "tools/builds").await.body;
    let build = &builds["data"][0];
    assert_eq!(
        (&build["number"], &build["status"], &build["commit"], &build["error"]),
        (&json!(1), &json!("succeeded"), &json!(head), &Value::Null)
    );
    assert!(build["finishedAt"].is_string());
    let log = read_build_log(&world, "tools", 1).await;
    assert!(log.contains("\nbuilding\n") && log.contains("steps: announce, deploy"), "{log}");
    assert_eq!(registry_event_kinds(&world).await, ["registry_created", "registry_built"]);
}

#[tokio::test]
async fn registry_steps_builds_and_logs_are_paged() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["a", "b", "c"]);
    origin.write("build.sh", "seq 1 10\n");
    origin.commit("prints");
    add_and_build(&world, "tools", &origin).await;
    let page = get_registry(&world, "tools/steps?limit=2").await.body;
    let keys = |page: &Value| page["data"].as_array().unwrap().iter().map(|it| it["key"].clone()).collect();
    let (first, cursor): (Vec<Value>, _) = (keys(&page), page["pagination"]["nextCursor"].as_str().unwrap());
    assert_eq!((first, &page["pagination"]["hasMore"]), (vec![json!("a"), json!("b")], &json!(true)));
    let rest: Vec<Value> =
        keys(&get_registry(&world, &format!("tools/steps?limit=2&cursor={cursor}")).await.body);
    assert_eq!(rest, ["c"]);
    let rest: Vec<Value> = keys(&get_registry(&world, "tools/steps?offset=1").await.body);
    assert_eq!(rest, ["b", "c"]);

    let part = read_registry(&world, "tools/builds/1/logs?fromLine=3&toLine=4").await;
    let texts: Vec<_> = part["entries"].as_array().unwrap().iter().map(|it| it["text"].clone()).collect();
    assert_eq!((texts, &part["complete"]), (vec![json!("1"), json!("2")], &json!(true)));
    let tail = read_registry(&world, "tools/builds/1/logs?tail=1").await;
    assert_eq!(tail["entries"].as_array().unwrap().len(), 1);
    get_registry(&world, "tools/builds/1/logs?tail=1&fromLine=1")
        .await
        .assert_problem(400, "invalid_parameter");
    for absent in ["tools/builds/2/logs", "tools/builds/x/logs", "none/builds/1/logs", "none/steps", "none"] {
        get_registry(&world, absent).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn invalid_registry_is_refused_by_name() {
    let world = TestWorld::new().await;
    let origin = OriginRepository::new();
    add_registry(&world, "tools", &origin).await;
    let url = origin.url().to_string();
    for (body, pointer) in [
        (json!({"name": "Tools", "url": url}), "/name"),
        (json!({"name": "-", "url": url}), "/name"),
        (json!({"name": "x", "url": "ext::sh -c x"}), "/url"),
        (json!({"name": "x", "url": "https://user:pw@host/x"}), "/url"),
        (json!({"name": "x", "url": url, "ref": "--upload-pack=x"}), "/ref"),
        (json!({"name": "x", "url": url, "credential": "NONE"}), "/credential"),
    ] {
        let reply = world.send(post(REGISTRIES).with_account(&world.ada).json(&body)).await;
        reply.assert_problem(400, "invalid_request");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{body}");
    }
    let again = json!({"name": "tools", "url": url});
    world
        .send(post(REGISTRIES).with_account(&world.ada).json(&again))
        .await
        .assert_problem(409, "already_exists");
    let reply = world
        .send(post(REGISTRIES).with_account(&world.ada).json(&json!({"name": "x", "repositoryUrl": url})))
        .await;
    reply.assert_problem(400, "unknown_member");
    assert_eq!(reply.body["errors"][0]["pointer"], "/repositoryUrl");
    assert_eq!(reply.body["errors"][0]["detail"], "is not a field of this request; did you mean `url`?");
    let put = json!({"ref": "-x"});
    world
        .send(patch("tools").with_account(&world.ada).json(&put))
        .await
        .assert_problem(400, "invalid_request");
}

#[tokio::test]
async fn registry_update_checks_if_match_and_creation_is_idempotent() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    let body = json!({"name": "tools", "url": origin.url().as_str()});
    let create = || post(REGISTRIES).with_account(&world.ada).header("idempotency-key", "k").json(&body);
    let (first, second) = (world.send(create()).await, world.send(create()).await);
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(second.header("idempotent-replayed"), "true");
    let tag = get_registry(&world, "tools").await.header("etag").to_owned();

    let change = json!({"ref": "main"});
    let changed =
        world.send(patch("tools").with_account(&world.ada).header("if-match", &tag).json(&change)).await;
    assert_eq!(
        (changed.status.as_u16(), &changed.body["data"]["ref"]),
        (200, &json!("main")),
        "{}",
        changed.text
    );
    let change = json!({"ref": ""});
    let late = patch("tools").with_account(&world.ada).header("if-match", &tag).json(&change);
    world.send(late).await.assert_problem(412, "precondition_failed");
    let back = world.send(patch("tools").with_account(&world.ada).json(&change)).await;
    assert_eq!(back.body["data"]["ref"], Value::Null);
    assert_eq!(
        registry_event_kinds(&world).await,
        ["registry_created", "registry_updated", "registry_updated"]
    );
    // Sending the same change again records no event.
    world.send(patch("tools").with_account(&world.ada).json(&change)).await;
    assert_eq!(registry_event_kinds(&world).await.len(), 3);
}

#[tokio::test]
async fn registry_permissions_are_enforced() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    let id = add_and_build(&world, "tools", &origin).await;
    let (viewer, deployer) = (
        world.create_member("v@acme.test", "viewer").await,
        world.create_member("d@acme.test", "deployer").await,
    );
    for path in ["", "/tools", "/tools/steps", "/tools/builds", "/tools/builds/1/logs"] {
        let reply = world.send(get(&format!("{REGISTRIES}{path}")).with_account(&viewer)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    for (method, path) in [("POST", ""), ("PATCH", "/tools"), ("DELETE", "/tools"), ("POST", "/tools/sync")] {
        let path = format!("{REGISTRIES}{path}");
        let reply = world.send(call(method, &path).with_account(&deployer).json(&json!({}))).await;
        reply.assert_problem(403, "forbidden");
        assert_eq!(reply.body["permission"], "registries:write");
    }
    for (method, path) in [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/sync"),
        ("GET", "/steps"),
        ("GET", "/builds"),
        ("GET", "/builds/1/logs"),
    ] {
        for key in [id.as_str(), "tools"] {
            let path = format!("/api/v1/organizations/globex/step-registries/{key}{path}");
            world
                .send(call(method, &path).with_account(&world.hank).json(&json!({})))
                .await
                .assert_problem(404, "not_found");
        }
    }
    assert_eq!(read_registry(&world, "tools").await["status"], "ready");
}

#[tokio::test]
async fn registries_per_organization_are_limited() {
    let world = TestWorld::new().await;
    let origin = OriginRepository::new();
    for number in 0..berth_store::tables::registry::REGISTRIES_MAX {
        add_registry(&world, &format!("r-{number}"), &origin).await;
    }
    let body = json!({"name": "more", "url": origin.url().as_str()});
    let refused = world.send(post(REGISTRIES).with_account(&world.ada).json(&body)).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("at most 50 registries"), "{}", refused.text);
    let gone = world.send(call("DELETE", &format!("{REGISTRIES}/r-0")).with_account(&world.ada)).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    add_registry(&world, "more", &origin).await;
}
