//! Access limited to parts of an organization: every route with existing resources, called by members whose grants
//! contain those resources, other resources, or too small a role. The cases are generated from the route table.

use berth_core::access::{Action, ActionLevel, Role};
use berth_server::http::{RouteAccess, RouteInfo};
use serde_json::json;

use super::api_operations::{ApiOperation, list_operations};
use super::resource_target::ResourceTarget;
use super::scoped_access::scoped_member;
use super::world::{TestResponse, TestWorld, get};

/// The roles that a grant on a part of an organization can give.
const SCOPED_ROLES: [Role; 5] = [Role::Viewer, Role::Tester, Role::Approver, Role::Deployer, Role::Admin];

/// The operations that require a permission, with the action.
async fn guarded(world: &TestWorld) -> Vec<(ApiOperation, Action)> {
    let routes = world.edge.routes().to_vec();
    let all = list_operations(world).await.into_iter();
    let action = |operation: &ApiOperation| {
        let is_its = |it: &&RouteInfo| (&it.method, &it.path) == (&operation.method, &operation.path);
        match routes.iter().find(is_its).unwrap().access {
            RouteAccess::Permission(action) => Some(action),
            _ => None,
        }
    };
    all.filter_map(|operation| action(&operation).map(|action| (operation, action))).collect()
}

/// Whether the path names a resource of the pipeline, not only the organization.
fn names_resource(operation: &ApiOperation) -> bool {
    operation.path_parameters().iter().any(|it| it != "{orgId}")
}

/// Asserts a refusal that names the permission, the scope and who can grant it.
fn assert_forbidden(reply: &TestResponse, action: Action, name: &str) {
    let got = (reply.status.as_u16(), reply.problem_code());
    assert_eq!(got, (403, "forbidden"), "{name}: {}", reply.text);
    assert_eq!(reply.body["permission"], action.as_str(), "{name}");
    assert!(reply.body["scope"].is_string(), "{name}");
    assert_eq!(reply.body["grantedBy"], json!(["ada"]), "{name}: {}", reply.text);
}

/// Whether the path names a resource of a pipeline, other than a secret or an event, which belong to the organization in
/// the fixture.
fn names_pipeline_resource(operation: &ApiOperation, action: Action) -> bool {
    action.level() != ActionLevel::Organization
        && names_resource(operation)
        && !["{secretId}", "{eventId}"].iter().any(|it| operation.path.contains(it))
}

#[tokio::test]
async fn member_with_grants_elsewhere_sees_nothing_of_a_pipeline() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    let outsider = scoped_member(
        world,
        "olga@acme.test",
        &[("admin", "pipeline:other"), ("admin", "environment:other/qa-*"), ("admin", "stage:other@staging")],
    )
    .await;
    for (operation, action) in guarded(world).await {
        let name = operation.name();
        let reply =
            target.send_request(&operation, &target.fill_path(&operation), Some(&outsider.token)).await;
        let status = reply.status.as_u16();
        assert!(status < 500, "{name}: {}", reply.text);
        // Refused for the tokens of this test, because they expire.
        let needs_login = name.ends_with("/me/forge-accounts");
        if action.level() == ActionLevel::Organization {
            assert_eq!(
                status == 403,
                needs_login && operation.method == "POST" || !Role::Member.may(action),
                "{name}: {}",
                reply.text
            );
        } else if names_resource(&operation) {
            assert_eq!((status, reply.problem_code()), (404, "not_found"), "{name}: {}", reply.text);
        } else if status == 200 {
            assert!(!reply.text.contains(&target.pipeline), "{name}: {}", reply.text);
        } else {
            // Creates something, or needs the permission in the whole organization.
            assert!([400, 403, 404].contains(&status), "{name}: {}", reply.text);
        }
    }
    let list = world.send(get("/api/v1/organizations/acme/pipelines").with_account(&outsider)).await;
    assert_eq!(list.body["data"], json!([]));
}

#[tokio::test]
async fn role_on_a_pipeline_allows_exactly_its_permissions_there() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    for role in SCOPED_ROLES {
        let email = format!("{role}-here@acme.test");
        let insider = scoped_member(
            world,
            &email,
            // The approval belongs to the pipeline `gated`.
            &[(role.as_str(), "pipeline:shop"), (role.as_str(), "pipeline:gated")],
        )
        .await;
        for (operation, action) in guarded(world).await {
            if !names_pipeline_resource(&operation, action) {
                continue;
            }
            let name = format!("{} as {role}", operation.name());
            let is_read = operation.method == "GET";
            // Writes that are allowed would change what the following requests see.
            if role.may(action) && !is_read {
                continue;
            }
            let reply =
                target.send_request(&operation, &target.fill_path(&operation), Some(&insider.token)).await;
            if role.may(action) {
                ResourceTarget::assert_reached(&operation, &reply, &name);
                continue;
            }
            assert_forbidden(&reply, action, &name);
        }
    }
}

#[tokio::test]
async fn role_on_environments_allows_exactly_its_permissions_there() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    for role in SCOPED_ROLES {
        let email = format!("{role}-env@acme.test");
        let insider = scoped_member(world, &email, &[(role.as_str(), "environment:shop/qa-*")]).await;
        for (operation, action) in guarded(world).await {
            if !names_pipeline_resource(&operation, action) {
                continue;
            }
            let name = format!("{} as {role}", operation.name());
            let is_read = operation.method == "GET";
            // The deployment of the fixture runs in the environment.
            let is_inside = ["{envName}", "{deploymentId}"].iter().any(|it| operation.path.contains(it));
            // Claims only environments that the caller may claim.
            if operation.path.ends_with("/claim-any") {
                continue;
            }
            if is_inside && role.may(action) && !is_read {
                continue;
            }
            let path = target.fill_path(&operation);
            let reply = target.send_request(&operation, &path, Some(&insider.token)).await;
            let status = reply.status.as_u16();
            if is_inside && role.may(action) {
                ResourceTarget::assert_reached(&operation, &reply, &name);
            } else if is_inside {
                assert_forbidden(&reply, action, &name);
            } else if !is_read && !operation.path.contains("{analysisId}") {
                assert!([403, 404].contains(&status), "{name}: {}", reply.text);
            }
        }
    }
}

#[tokio::test]
async fn role_on_stages_allows_exactly_its_permissions_there() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    for role in SCOPED_ROLES {
        let email = format!("{role}-stage@acme.test");
        // The approval of the fixture belongs to a stage of the pipeline `gated`; everything else is in `shop`.
        let insider = scoped_member(world, &email, &[(role.as_str(), "stage:gated@*")]).await;
        for (operation, action) in guarded(world).await {
            if !names_pipeline_resource(&operation, action) {
                continue;
            }
            let name = format!("{} as {role}", operation.name());
            let is_inside = operation.path.contains("{approvalId}");
            if is_inside && role.may(action) && operation.method != "GET" {
                continue;
            }
            let path = target.fill_path(&operation);
            let reply = target.send_request(&operation, &path, Some(&insider.token)).await;
            match (is_inside, role.may(action)) {
                (true, true) => assert_eq!(reply.status, 200, "{name}: {}", reply.text),
                (true, false) => assert_forbidden(&reply, action, &name),
                (false, _) => {
                    assert!([403, 404].contains(&reply.status.as_u16()), "{name}: {}", reply.text);
                }
            }
        }
    }
}
