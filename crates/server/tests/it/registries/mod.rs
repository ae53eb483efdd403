//! Registries: they are added through the API, built by background jobs from real repositories, and used in
//! definitions.

mod artifact_access;
mod builds;
mod definition_use;
mod hostile;
mod interruptions;
mod resource;

use berth_server::jobs;
use serde_json::{Value, json};

use super::git::OriginRepository;
use super::world::{TestRequest, TestResponse, TestWorld, call, get, post};

pub(super) const REGISTRIES: &str = "/api/v1/organizations/acme/step-registries";

/// A start script that responds to every call with the content of `answer.json`.
const START_SCRIPT: &str = r#"while [ $# -gt 1 ]; do
  case "$1" in --output) output=$2 ;; esac
  shift
done
cat answer.json > "$output"
"#;

/// Writes a registry of shell scripts with these step types.
pub(super) fn write_registry(origin: &OriginRepository, steps: &[&str]) {
    let schema =
        json!({"type": "object", "properties": {"target": {"type": "string", "description": "where"}}});
    let step = |own: &&str| {
        json!({"stepType": own, "name": format!("{own} it"), "shortDescription": "does it",
               "longDescription": "Does it **well**.", "yamlExample": "type: x", "paramsJsonSchema": schema})
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    let answer = json!({"status": "SUCCESS", "data": {"metadata": steps}});
    origin.write("berth-registry.yaml", "build: sh build.sh\nstart: sh start.sh\n");
    origin.write("build.sh", "echo building\n");
    origin.write("start.sh", START_SCRIPT);
    origin.write("answer.json", &answer.to_string());
}

/// A repository with one commit that contains a registry.
pub(super) fn create_origin(steps: &[&str]) -> OriginRepository {
    let origin = OriginRepository::new();
    write_registry(&origin, steps);
    origin.commit("first");
    origin
}

pub(super) async fn add_registry(world: &TestWorld, name: &str, origin: &OriginRepository) -> String {
    let body = json!({"name": name, "url": origin.url().as_str()});
    let made = world.send(post(REGISTRIES).with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"]["id"].as_str().unwrap().to_owned()
}

/// Adds the registry at `origin` and builds it.
pub(super) async fn add_and_build(world: &TestWorld, name: &str, origin: &OriginRepository) -> String {
    let id = add_registry(world, name, origin).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    id
}

/// Requests a sync and runs it.
pub(super) async fn sync_registry(world: &TestWorld, key: &str) {
    let asked = world.send(post(&format!("{REGISTRIES}/{key}/sync")).with_account(&world.ada)).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    jobs::tick(world.app.jobs()).await.unwrap();
}

pub(super) async fn get_registry(world: &TestWorld, path: &str) -> TestResponse {
    world.send(get(&format!("{REGISTRIES}/{path}")).with_account(&world.ada)).await
}

pub(super) async fn read_registry(world: &TestWorld, path: &str) -> Value {
    let reply = get_registry(world, path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

pub(super) fn patch(key: &str) -> TestRequest {
    call("PATCH", &format!("{REGISTRIES}/{key}"))
}

pub(super) async fn read_build_log(world: &TestWorld, key: &str, number: i64) -> String {
    let shown = read_registry(world, &format!("{key}/builds/{number}/logs")).await;
    let entries = shown["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Kinds of events about registries, oldest first.
pub(super) async fn registry_event_kinds(world: &TestWorld) -> Vec<String> {
    world.event_kinds().await.into_iter().filter(|kind| kind.starts_with("registry_")).collect()
}

/// Resolves a step type, as if it were used in a definition. Returns the commit and the step type within the registry,
/// or the error.
pub(super) async fn resolve_step_type(world: &TestWorld, text: &'static str) -> String {
    let org = super::audit_export::acme_org_id(world).await;
    let offers = world
        .app
        .store()
        .read(Some(org), move |db| berth_store::tables::registry::resolve_types(db, std::iter::once(text)));
    match &offers.await.unwrap()[text] {
        Ok(offer) => format!("{} {}", offer.pinned.commit, offer.pinned.step_type),
        Err(why) => why.clone(),
    }
}
