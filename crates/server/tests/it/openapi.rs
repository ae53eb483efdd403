//! The committed OpenAPI document and the generated tables of the docs are what the code says.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_api::problem::Code;
use berth_core::access::{Action, Role};
use expect_test::expect_file;

use super::world::{World, get};

#[tokio::test]
async fn openapi_json_is_generated_from_the_handlers() {
    let world = World::new().await;
    expect_file!["../../../../openapi.json"].assert_eq(&berth_server::http::openapi::pretty(&world.app));
    let served = world.send(get("/api/v1/openapi.json")).await;
    assert_eq!(served.body["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, item) in served.body["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            described.insert((method.to_uppercase(), path.clone()));
        }
    }
    let routed = world.edge.routes().iter().map(|route| (route.method.clone(), route.path.clone()));
    assert_eq!(described, routed.collect());
}

#[tokio::test]
async fn openapi_operation_ids_are_unique() {
    let world = World::new().await;
    let document = world.send(get("/api/v1/openapi.json")).await.body;
    let items = document["paths"].as_object().unwrap().values();
    let ids: Vec<_> = items
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len());
}

#[test]
fn openapi_docs_of_roles_are_generated_from_the_table() {
    let mut page = String::from(
        "# Roles and permissions\n\nGenerated from the code by `cargo xtask openapi`.\n\n\
         | permission | what it allows | viewer | deployer | admin | owner |\n|---|---|---|---|---|---|\n",
    );
    for action in Action::ALL {
        let marks = Role::ALL.map(|role| if role.may(*action) { "yes" } else { "" }).join(" | ");
        writeln!(page, "| `{action}` | {} | {marks} |", action.summary()).unwrap();
    }
    expect_file!["../../../../docs/permissions.md"].assert_eq(&page);
}

#[test]
fn openapi_docs_of_problems_are_generated_from_the_codes() {
    let mut page = String::from(
        "# Problem codes\n\nGenerated from the code by `cargo xtask openapi`. Codes are only ever added.\n\n\
         | status | code | meaning |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        writeln!(page, "| {} | `{}` | {} |", code.status(), code.as_str(), code.explanation()).unwrap();
    }
    expect_file!["../../../../docs/errors.md"].assert_eq(&page);
}
