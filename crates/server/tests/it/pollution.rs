//! Unexpected input: members that only the server may set, duplicate parameters, and names of other organizations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api_operations::{ApiOperation, fetch_openapi, list_operations, sample_value};
use super::world::{TestWorld, call, get};

/// Member names that no schema contains but that an attacker would try.
const UNKNOWN_MEMBERS: &[&str] = &[
    "orgId",
    "organizationId",
    "organization",
    "org",
    "userId",
    "tokenId",
    "pipelineId",
    "version",
    "fence",
    "isAdmin",
    "admin",
    "permissions",
    "scope",
    "owner",
    "createdBy",
    "password",
    "passwordHash",
    "hash",
    "actor",
    "requestId",
    "deleted",
    "active",
    "__proto__",
    "constructor",
];
/// Maximum number of unknown members that one error names.
const NAMED_MEMBERS_MAX: usize = 10;

fn fill_path(operation: &ApiOperation) -> String {
    operation
        .path
        .replace("{orgId}", "acme")
        .replace("{pipelineId}", "shop")
        .replace("{userId}", "unknown")
        .replace("{secretId}", "TOKEN")
        .replace("{repositoryId}", "unknown")
        .replace("{registryId}", "unknown")
        .replace("{runnerId}", "unknown")
        .replace("{buildNumber}", "1")
        .replace("{number}", "1")
        .replace("{envName}", "qa-1")
        .replace("{sessionId}", "unknown")
        .replace("{ticketId}", "unknown")
        .replace("{deploymentId}", "unknown")
        .replace("{artifactName}", "unknown")
        .replace("{analysisId}", "unknown")
        .replace("{approvalId}", "unknown")
        .replace("{stepId}", "unknown")
        .replace("{provider}", "unknown")
        .replace("{identityId}", "unknown")
        .replace("{host}", "github.com")
        .replace("{accountId}", "7")
        .replace("{number}", "1")
        .replace("{stage}", "unknown")
        .replace("{forge}", "github")
        .replace("{hookId}", "hook_00000000000000000000000000")
        .replace("{appId}", "app_00000000000000000000000000")
        .replace("{webhookId}", "unknown")
        .replace("{destinationId}", "unknown")
        .replace("{deliveryId}", "unknown")
}

#[tokio::test]
async fn read_only_member_cannot_be_set() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let document = fetch_openapi(&world).await;
    let mut readable: BTreeSet<String> = UNKNOWN_MEMBERS.iter().map(ToString::to_string).collect();
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        readable.extend(schema["properties"].as_object().into_iter().flat_map(|all| all.keys().cloned()));
    }
    assert!(
        ["id", "role", "status", "createdAt", "slug", "csrfToken"]
            .iter()
            .all(|name| readable.contains(*name))
    );
    let before = world.event_kinds().await;
    let mut tried = 0;
    for operation in list_operations(&world).await {
        let Some(own) = &operation.members else { continue };
        let foreign: Vec<&String> = readable.iter().filter(|name| !own.contains_key(*name)).collect();
        for some in foreign.chunks(NAMED_MEMBERS_MAX) {
            let mut body = operation.minimal_body();
            for name in some {
                body[name.as_str()] = sample_value(name);
            }
            let reply = world
                .send(call(&operation.method, &fill_path(&operation)).with_account(&world.ada).json(&body))
                .await;
            reply.assert_problem(400, "unknown_member");
            let errors = reply.body["errors"].as_array().unwrap();
            let named: BTreeSet<&str> = errors
                .iter()
                .filter(|error| error["code"] == "unknown_member")
                .map(|error| error["pointer"].as_str().unwrap().trim_start_matches('/'))
                .collect();
            assert_eq!(named, some.iter().map(|name| name.as_str()).collect(), "{}", operation.name());
            tried += some.len();
        }
    }
    assert!(tried > 500, "{tried}");
    assert_eq!(world.event_kinds().await, before, "nothing was changed");
}

#[tokio::test]
async fn record_sent_back_is_refused_with_every_read_only_member() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "viewer").await;
    let me = world.send(get("/api/v1/me").with_account(&grace)).await.body["data"]["user"]["id"].clone();
    let member = format!("/api/v1/organizations/acme/members/{}", me.as_str().unwrap());
    for (path, change, own) in [
        (
            "/api/v1/organizations/acme".to_owned(),
            json!({"role": "viewer", "slug": "globex"}),
            &["name", "defaultNetwork", "requireSecondFactor"][..],
        ),
        (member.clone(), json!({"role": "owner", "id": "usr_x", "email": "root@acme.test"}), &["role"]),
    ] {
        let mut record = world.send(get(&path).with_account(&world.ada)).await.body["data"].clone();
        for (name, value) in change.as_object().unwrap() {
            record[name] = value.clone();
        }
        let reply = world.send(call("PATCH", &path).with_account(&world.ada).json(&record)).await;
        reply.assert_problem(400, "unknown_member");
        let members = record.as_object().unwrap().keys().filter(|name| !own.contains(&name.as_str()));
        let errors = reply.body["errors"].as_array().unwrap();
        let named: BTreeSet<_> =
            errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect();
        assert_eq!(named, members.map(|name| format!("/{name}")).collect(), "{path}");
    }
    let after = world.send(get(&member).with_account(&world.ada)).await.body["data"].clone();
    assert_eq!((&after["role"], &after["email"]), (&json!("viewer"), &json!("grace@acme.test")));
}

#[tokio::test]
async fn duplicate_query_parameter_is_refused() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let mut tried = 0;
    for operation in list_operations(&world).await {
        for (name, kind) in &operation.query {
            let (one, two) = match (name.as_str(), kind.as_str()) {
                ("status", _) => ("active", "stopped"),
                ("from" | "to", _) => ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
                (_, "integer") => ("1", "2"),
                (_, "boolean") => ("true", "false"),
                _ => ("x", "y"),
            };
            let first = format!("%{:02x}{}", name.as_bytes()[0], &name[1..]);
            for query in [
                format!("{name}={one}&{name}={two}"),
                format!("{name}={one}&{name}={one}"),
                format!("{first}={one}&x=y&{name}={two}"),
                format!("{name}=&{name}={two}"),
            ] {
                let path = format!("{}?{query}", fill_path(&operation));
                let asked = call(&operation.method, &path).with_account(&world.ada);
                let has_body = operation.members.is_some();
                let asked = if has_body { asked.json(&operation.minimal_body()) } else { asked };
                let reply = world.send(asked).await;
                reply.assert_problem(400, "invalid_parameter");
                assert_eq!(reply.body["errors"][0]["pointer"], *name, "{path}");
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

#[tokio::test]
async fn organization_is_taken_from_the_path_only() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let without = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().map(|body| body.remove("requestId"));
        body
    };
    for operation in list_operations(&world).await {
        // Insights contain the current time, so their responses cannot be compared.
        let is_timeless = !operation.path.ends_with("/insights");
        if operation.method != "GET" || !operation.path.contains("{orgId}") || !is_timeless {
            continue;
        }
        let path = fill_path(&operation);
        let plain = world.send(get(&path).with_account(&world.ada)).await;
        for query in ["orgId=globex", "org=globex", "organization=globex", "orgId=acme&orgId=globex"] {
            let other = get(&format!("{path}?{query}")).with_account(&world.ada).header("x-org-id", "globex");
            let other = world.send(other).await;
            assert_eq!(
                (other.status, without(&other.body)),
                (plain.status, without(&plain.body)),
                "{path}?{query}"
            );
            // Ada manages all organizations as the instance admin.
            if operation.path.starts_with("/api/v1/instance/") {
                continue;
            }
            let foreign = path.replace("/acme", "/globex");
            world
                .send(get(&format!("{foreign}?orgId=acme")).with_account(&world.ada))
                .await
                .assert_problem(404, "not_found");
        }
    }
}
