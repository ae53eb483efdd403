//! Deployments from git: pushes, source code, definitions and names of commits.

use berth_engine::git::CommitHash;
use serde_json::{Value, json};

use super::{PipelineFixture, expect_data};
use crate::git::OriginRepository;
use crate::git::submodules::{add_submodule, relative_url};

const FILE: &str = ".berth/shop/pipeline.yaml";

fn definition(ledger: &str, extra: &str) -> String {
    format!(
        "version: 1
pipeline:
  name: Shop
  tracks: main
{extra}  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - name: Deploy
      type: script
      params: {{ run: './deploy.sh >> {ledger}' }}
"
    )
}

/// A repository whose `deploy.sh` prints its version.
fn create_origin(ledger: &str, extra: &str) -> OriginRepository {
    let origin = OriginRepository::new();
    origin.write(FILE, &definition(ledger, extra));
    write_deploy_script(&origin, "blue");
    origin.git(&["add", "--chmod=+x", "deploy.sh"]);
    origin.commit("blue");
    origin
}

fn write_deploy_script(origin: &OriginRepository, version: &str) {
    origin.write("deploy.sh", &format!("#!/bin/sh\necho {version} $BERTH_STAGE\n"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = origin.path().join("deploy.sh");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl PipelineFixture {
    async fn register_repository(&self, origin: &OriginRepository) -> String {
        let made = self.post("/repositories", &json!({"url": origin.url().as_str()})).await;
        expect_data(&made, 201)["id"].as_str().unwrap().to_owned()
    }

    async fn sync_repository(&self, id: &str) {
        assert_eq!(self.post(&format!("/repositories/{id}/sync"), &json!({})).await.status, 202);
    }

    /// Waits until the pipeline has `count` deployments and returns the newest.
    async fn wait_for_nth_deployment(&self, count: usize) -> Value {
        let deadline = std::time::Instant::now() + super::PATIENCE;
        loop {
            let seen = self
                .send(
                    crate::world::get(&format!("{}/pipelines/shop/deployments", super::ORG))
                        .with_account(self.ada()),
                )
                .await;
            let list = seen.body["data"].as_array().cloned().unwrap_or_default();
            if list.len() == count {
                return list[0].clone();
            }
            assert!(std::time::Instant::now() < deadline, "{}", seen.text);
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_deploys_the_sources_of_its_commit() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    let origin = create_origin(&ledger, "");
    let repository = fixture.register_repository(&origin).await;
    let first = fixture.wait_for_nth_deployment(1).await;
    assert_eq!((&first["trigger"], &first["number"]), (&json!("push"), &json!(1)));
    let ended = fixture.wait_for_end(first["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    write_deploy_script(&origin, "green");
    let green = origin.commit("green");
    fixture.sync_repository(&repository).await;
    let second = fixture.wait_for_nth_deployment(2).await;
    assert_eq!(second["commitId"], green.as_str());
    assert_eq!(fixture.wait_for_end(second["id"].as_str().unwrap()).await["status"], "succeeded");
    assert_eq!(fixture.read_file("ledger"), "blue staging\ngreen staging\n");

    // Deploys to an environment: an older commit by its short hash, and a branch that the mirror has not fetched yet.
    let short = &ended["resolvedCommitId"].as_str().unwrap()[..10];
    let (session, old) = fixture.claim(short).await;
    let old = fixture.wait_for_end(&old).await;
    assert_eq!((&old["status"], &old["resolvedCommitId"]), (&json!("succeeded"), &ended["resolvedCommitId"]));
    origin.git(&["checkout", "--quiet", "-b", "feature/dark"]);
    write_deploy_script(&origin, "dark");
    origin.commit("dark");
    let deploy = format!("/pipelines/shop/ephemeral-environments/qa-1/sessions/{session}/deploy");
    let dark = expect_data(&fixture.post(&deploy, &json!({"commitId": "feature/dark"})).await, 202);
    assert_eq!(fixture.wait_for_end(dark["id"].as_str().unwrap()).await["status"], "succeeded");
    assert_eq!(fixture.read_file("ledger"), "blue staging\ngreen staging\nblue qa-1\ndark qa-1\n");

    let missing = expect_data(&fixture.post(&deploy, &json!({"commitId": "0123456789abcdef"})).await, 202);
    let missing = fixture.wait_for_end(missing["id"].as_str().unwrap()).await;
    assert_eq!((&missing["status"], &missing["cause"]), (&json!("failed"), &json!("commit_not_found")));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_to_other_paths_starts_no_deployment() {
    let fixture = PipelineFixture::start().await;
    let origin = create_origin(&fixture.file_path("ledger"), "  paths: ['deploy.sh']\n");
    let repository = fixture.register_repository(&origin).await;
    let first = fixture.wait_for_nth_deployment(1).await;
    fixture.wait_for_end(first["id"].as_str().unwrap()).await;
    origin.write("README", "nothing to deploy");
    let docs = origin.commit("docs");
    fixture.sync_repository(&repository).await;
    let head = |it: &Value| it["head"] == docs.as_str();
    while !head(&fixture.fetch(&format!("/repositories/{repository}")).await) {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    write_deploy_script(&origin, "red");
    let red = origin.commit("red");
    fixture.sync_repository(&repository).await;
    assert_eq!(fixture.wait_for_nth_deployment(2).await["commitId"], red.as_str());
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_show_their_commit_and_how_far_they_are_behind() {
    let fixture = PipelineFixture::start().await;
    let origin = create_origin(&fixture.file_path("ledger"), "  paths: ['deploy.sh']\n");
    let repository = fixture.register_repository(&origin).await;
    let first = fixture.wait_for_nth_deployment(1).await;
    let ended = fixture.wait_for_end(first["id"].as_str().unwrap()).await;
    let commit = ended["resolvedCommitId"].as_str().unwrap();
    let (_, inside) = fixture.claim(&commit[..10]).await;
    fixture.wait_for_end(&inside).await;
    let now = fixture.fetch("/deployed").await;
    assert_eq!((&now[0]["slug"], &now[0]["stages"][0]["current"]["behindBy"]), (&json!("shop"), &json!(0)));

    origin.write("README", "nothing to deploy");
    origin.commit("docs");
    origin.write("README", "still nothing");
    let head = origin.commit("docs again");
    fixture.sync_repository(&repository).await;
    let deadline = std::time::Instant::now() + super::PATIENCE;
    let now = loop {
        let now = fixture.fetch("/deployed").await;
        if now[0]["head"] == head.as_str() && now[0]["stages"][0]["current"]["behindBy"].is_u64() {
            break now;
        }
        assert!(std::time::Instant::now() < deadline, "{now}");
    };
    let stage = &now[0]["stages"][0]["current"];
    assert_eq!((&stage["behindBy"], &stage["commitId"]), (&json!(2), &json!(commit)));
    assert_eq!((&stage["deploymentId"], &stage["by"]["type"]), (&first["id"], &json!("system")));
    let qa = &now[0]["environments"][0];
    assert_eq!((&qa["envName"], &qa["holder"]["name"]), (&json!("qa-1"), &json!("ada")));
    assert_eq!((&qa["current"]["commitId"], &qa["current"]["behindBy"]), (&json!(commit), &json!(2)));
    assert_eq!(qa["current"]["deploymentId"], json!(inside));
    let pipeline = fixture.fetch("/pipelines/shop").await;
    assert_eq!(pipeline["stages"][0]["current"]["behindBy"], 2);
    let measured = fixture.fetch("/insights").await;
    assert_eq!(measured["leadTime"]["fromCommit"], 1, "{measured}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ambiguous_short_hash_is_refused_everywhere() {
    let fixture = PipelineFixture::start().await;
    let origin = create_origin(&fixture.file_path("ledger"), "");
    let both = origin.create_similar_commits();
    fixture.register_repository(&origin).await;
    let first = fixture.wait_for_nth_deployment(1).await;
    fixture.wait_for_end(first["id"].as_str().unwrap()).await;
    let (session, deployment) = fixture.claim(both[0].as_str()).await;
    fixture.wait_for_end(&deployment).await;

    let environment = "/pipelines/shop/ephemeral-environments/qa-1";
    let short = &both[0].as_str()[..4];
    for (path, member) in [
        (format!("{environment}/sessions"), "commitId"),
        (format!("{environment}/force-claim"), "commitId"),
        (format!("{environment}/sessions/{session}/deploy"), "commitId"),
        ("/pipelines/shop/deployments".into(), "commitId"),
        ("/pipelines/shop/deployments".into(), "ref"),
    ] {
        let refused = fixture.post(&path, &json!({member: short})).await;
        refused.assert_problem(422, "commit_ambiguous");
        assert_eq!(refused.body["errors"][0]["pointer"], format!("/{member}"));
        let candidates = refused.body["candidates"].as_array().unwrap();
        assert!(both.iter().all(|sha| candidates.contains(&json!(sha.as_str()))), "{candidates:?}");
    }
    let seen = fixture.fetch(&format!("{environment}/sessions/{session}")).await;
    assert_eq!((&seen["status"], &seen["deploymentCount"]), (&json!("active"), &json!(1)));

    // If a branch has the same name as an ambiguous short hash, the branch is used.
    origin.git(&["branch", short, both[1].as_str()]);
    let deploy = format!("{environment}/sessions/{session}/deploy");
    let deployed = fixture.post(&deploy, &json!({"commitId": format!("refs/heads/{short}")})).await;
    let ended = fixture.wait_for_end(expect_data(&deployed, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["resolvedCommitId"], both[1].as_str());
    let deployed = fixture.post(&deploy, &json!({"commitId": short})).await;
    let ended = fixture.wait_for_end(expect_data(&deployed, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["resolvedCommitId"], both[1].as_str());

    // Deployments can be found by the resolved commit or a prefix of it, ignoring case.
    for commit in [both[1].as_str(), &both[1].as_str()[..12], &both[1].as_str()[..12].to_uppercase()] {
        let found = fixture.fetch(&format!("/deployments?session={session}&commit={commit}")).await;
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), 2, "{commit}");
        assert!(found.iter().all(|it| it["resolvedCommitId"] == both[1].as_str()));
    }
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_checkout_has_the_files_of_submodules() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    let lib = OriginRepository::new();
    lib.write("version", "lib 1.0\n");
    let pinned = lib.commit("1.0");
    lib.write("version", "lib 2.0\n");
    lib.commit("2.0");
    let origin = create_origin(&ledger, "");
    add_submodule(&origin, "libs/shared", &relative_url(&lib), &pinned);
    origin.write("deploy.sh", "#!/bin/sh\ncat libs/shared/version\n");
    origin.commit("use the library");
    let repository = fixture.register_repository(&origin).await;
    let first = fixture.wait_for_nth_deployment(1).await;
    let ended = fixture.wait_for_end(first["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(fixture.read_file("ledger"), "lib 1.0\n");

    // The step fails if a submodule cannot be fetched, and says which one.
    let nowhere = CommitHash::parse(&"1".repeat(40)).unwrap();
    add_submodule(&origin, "libs/gone", &relative_url(&lib), &nowhere);
    origin.commit("not pushed");
    fixture.sync_repository(&repository).await;
    let second = fixture.wait_for_nth_deployment(2).await;
    let ended = fixture.wait_for_end(second["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    let path = format!("{}/deployments/{}", super::ORG, second["id"].as_str().unwrap());
    let seen = fixture.send(crate::world::get(&path).with_account(fixture.ada())).await;
    assert!(seen.text.contains("submodule libs/gone: its remote has no commit 1111"), "{}", seen.text);
    fixture.shut_down().await;
}
