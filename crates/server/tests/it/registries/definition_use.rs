//! Using registries in definitions, and removing registries that are in use.

use serde_json::json;

use super::super::world::{TestWorld, call, post};
use super::*;

async fn create_pipeline(world: &TestWorld, slug: &str, types: &[&str]) {
    let steps: String = types
        .iter()
        .enumerate()
        .map(|(at, named)| format!("    - {{name: Step {at}, type: \"{named}\"}}\n"))
        .collect();
    let definition =
        format!("version: 1\npipeline:\n  name: {slug}\n  stages:\n    - name: staging\n  steps:\n{steps}");
    let body = json!({"slug": slug, "definition": definition});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

fn delete(path: &str) -> TestRequest {
    call("DELETE", &format!("{REGISTRIES}/{path}"))
}

#[tokio::test]
async fn registry_in_use_is_deleted_only_with_force() {
    let world = TestWorld::new().await;
    let (first, second) = (create_origin(&["deploy", "check"]), create_origin(&["other"]));
    add_and_build(&world, "tools", &first).await;
    add_and_build(&world, "unused", &second).await;
    create_pipeline(&world, "shop", &["tools/deploy@main", "tools/deploy"]).await;
    create_pipeline(&world, "blog", &["CUSTOM:CHECK"]).await;

    let slugs = |list: &Value| {
        let users = list.as_array().unwrap().iter();
        users.map(|it| it["slug"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(slugs(&read_registry(&world, "tools").await["usedBy"]), ["shop", "blog"]);
    let steps = read_registry(&world, "tools/steps").await;
    assert_eq!(
        (slugs(&steps[0]["usedBy"]), slugs(&steps[1]["usedBy"])),
        (vec!["blog".into()], vec!["shop".into()])
    );
    assert_eq!(read_registry(&world, "unused").await["usedBy"], json!([]));

    let refused = world.send(delete("tools").with_account(&world.ada)).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("2 pipelines use its steps, for example shop, blog"), "{}", refused.text);
    assert_eq!(slugs(&refused.body["usedBy"]), ["shop", "blog"]);
    assert_eq!(world.send(delete("unused").with_account(&world.ada)).await.status, 200);

    let gone = world.send(delete("tools?force=true").with_account(&world.ada)).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert!(gone.body["data"]["deletedAt"].is_string());
    get_registry(&world, "tools").await.assert_problem(404, "not_found");
    assert!(resolve_step_type(&world, "tools/deploy").await.starts_with("there is no registry \"tools\""));
    // There is nothing left to sync, and the name can be used again.
    jobs::tick(world.app.jobs()).await.unwrap();
    add_and_build(&world, "tools", &first).await;
    let again = read_registry(&world, "tools").await;
    assert_eq!(
        (&again["status"], slugs(&again["usedBy"])),
        (&json!("ready"), vec!["shop".into(), "blog".into()])
    );
}

#[tokio::test]
async fn step_type_of_two_registries_must_be_qualified() {
    let world = TestWorld::new().await;
    let (first, second) = (create_origin(&["CUSTOM:Deploy"]), create_origin(&["deploy", "check"]));
    add_and_build(&world, "tools", &first).await;
    let commit = first.git(&["rev-parse", "HEAD"]);
    assert_eq!(resolve_step_type(&world, "CUSTOM:DEPLOY").await, format!("{commit} CUSTOM:Deploy"));
    add_and_build(&world, "more", &second).await;
    assert_eq!(
        resolve_step_type(&world, "CUSTOM:DEPLOY").await,
        "more than one registry has a step \"deploy\": write tools/deploy or more/deploy"
    );
    assert!(resolve_step_type(&world, "custom:check").await.ends_with(" check"));
    assert_eq!(
        resolve_step_type(&world, "CUSTOM:CHEK").await,
        "no registry has a step \"chek\"; did you mean `check`?"
    );
}

#[tokio::test]
async fn registry_users_follow_changed_and_deleted_pipelines() {
    let world = TestWorld::new().await;
    add_and_build(&world, "tools", &create_origin(&["deploy"])).await;
    create_pipeline(&world, "shop", &["tools/deploy"]).await;
    create_pipeline(&world, "blog", &["tools/deploy"]).await;
    let removed = call("DELETE", "/api/v1/organizations/acme/pipelines/blog");
    assert_eq!(world.send(removed.with_account(&world.ada)).await.status, 200);
    let refused = world.send(delete("tools").with_account(&world.ada)).await;
    assert!(
        refused.text.contains("the pipeline shop uses its steps; change its definition"),
        "{}",
        refused.text
    );
    let put = call("PUT", "/api/v1/organizations/acme/pipelines/shop/definition");
    let body = json!({"definition": super::super::world::DEFINITION});
    let changed = world.send(put.with_account(&world.ada).json(&body)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(read_registry(&world, "tools").await["usedBy"], json!([]));
    assert_eq!(world.send(delete("tools").with_account(&world.ada)).await.status, 200);
}
