//! Deployments from git: pushes, source code, definitions and names of commits.

use serde_json::{Value, json};

use super::{Harbour, data};
use crate::git::Origin;

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
fn origin(ledger: &str, extra: &str) -> Origin {
    let origin = Origin::new();
    origin.write(FILE, &definition(ledger, extra));
    deploys(&origin, "blue");
    origin.git(&["add", "--chmod=+x", "deploy.sh"]);
    origin.commit("blue");
    origin
}

fn deploys(origin: &Origin, word: &str) {
    origin.write("deploy.sh", &format!("#!/bin/sh\necho {word} $BERTH_STAGE\n"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = origin.path().join("deploy.sh");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Harbour {
    async fn register(&self, origin: &Origin) -> String {
        let made = self.post("/repositories", &json!({"url": origin.url().as_str()})).await;
        data(&made, 201)["id"].as_str().unwrap().to_owned()
    }

    async fn sync(&self, id: &str) {
        assert_eq!(self.post(&format!("/repositories/{id}/sync"), &json!({})).await.status, 202);
    }

    /// Waits until the pipeline has `count` deployments and returns the newest.
    async fn newest(&self, count: usize) -> Value {
        let deadline = std::time::Instant::now() + super::PATIENCE;
        loop {
            let seen = self
                .send(crate::world::get(&format!("{}/pipelines/shop/deployments", super::ORG)).by(self.ada()))
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
    let harbour = Harbour::open().await;
    let ledger = harbour.file("ledger");
    let origin = origin(&ledger, "");
    let repository = harbour.register(&origin).await;
    let first = harbour.newest(1).await;
    assert_eq!((&first["trigger"], &first["number"]), (&json!("push"), &json!(1)));
    let ended = harbour.end_of(first["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    deploys(&origin, "green");
    let green = origin.commit("green");
    harbour.sync(&repository).await;
    let second = harbour.newest(2).await;
    assert_eq!(second["commitId"], green.as_str());
    assert_eq!(harbour.end_of(second["id"].as_str().unwrap()).await["status"], "succeeded");
    assert_eq!(harbour.written("ledger"), "blue staging\ngreen staging\n");

    // Deploys to an environment: an older commit by its short hash, and a branch that the mirror has not fetched yet.
    let short = &ended["resolvedCommitId"].as_str().unwrap()[..10];
    let (session, old) = harbour.claim(short).await;
    let old = harbour.end_of(&old).await;
    assert_eq!((&old["status"], &old["resolvedCommitId"]), (&json!("succeeded"), &ended["resolvedCommitId"]));
    origin.git(&["checkout", "--quiet", "-b", "feature/dark"]);
    deploys(&origin, "dark");
    origin.commit("dark");
    let deploy = format!("/pipelines/shop/ephemeral-environments/qa-1/sessions/{session}/deploy");
    let dark = data(&harbour.post(&deploy, &json!({"commitId": "feature/dark"})).await, 202);
    assert_eq!(harbour.end_of(dark["id"].as_str().unwrap()).await["status"], "succeeded");
    assert_eq!(harbour.written("ledger"), "blue staging\ngreen staging\nblue qa-1\ndark qa-1\n");

    let missing = data(&harbour.post(&deploy, &json!({"commitId": "0123456789abcdef"})).await, 202);
    let missing = harbour.end_of(missing["id"].as_str().unwrap()).await;
    assert_eq!((&missing["status"], &missing["cause"]), (&json!("failed"), &json!("commit_not_found")));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_to_other_paths_starts_no_deployment() {
    let harbour = Harbour::open().await;
    let origin = origin(&harbour.file("ledger"), "  paths: ['deploy.sh']\n");
    let repository = harbour.register(&origin).await;
    let first = harbour.newest(1).await;
    harbour.end_of(first["id"].as_str().unwrap()).await;
    origin.write("README", "nothing to deploy");
    let docs = origin.commit("docs");
    harbour.sync(&repository).await;
    let head = |it: &Value| it["head"] == docs.as_str();
    while !head(&harbour.see(&format!("/repositories/{repository}")).await) {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    deploys(&origin, "red");
    let red = origin.commit("red");
    harbour.sync(&repository).await;
    assert_eq!(harbour.newest(2).await["commitId"], red.as_str());
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_show_their_commit_and_how_far_they_are_behind() {
    let harbour = Harbour::open().await;
    let origin = origin(&harbour.file("ledger"), "  paths: ['deploy.sh']\n");
    let repository = harbour.register(&origin).await;
    let first = harbour.newest(1).await;
    let ended = harbour.end_of(first["id"].as_str().unwrap()).await;
    let commit = ended["resolvedCommitId"].as_str().unwrap();
    let (_, inside) = harbour.claim(&commit[..10]).await;
    harbour.end_of(&inside).await;
    let now = harbour.see("/deployed").await;
    assert_eq!((&now[0]["slug"], &now[0]["stages"][0]["current"]["behindBy"]), (&json!("shop"), &json!(0)));

    origin.write("README", "nothing to deploy");
    origin.commit("docs");
    origin.write("README", "still nothing");
    let head = origin.commit("docs again");
    harbour.sync(&repository).await;
    let deadline = std::time::Instant::now() + super::PATIENCE;
    let now = loop {
        let now = harbour.see("/deployed").await;
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
    let pipeline = harbour.see("/pipelines/shop").await;
    assert_eq!(pipeline["stages"][0]["current"]["behindBy"], 2);
    let measured = harbour.see("/insights").await;
    assert_eq!(measured["leadTime"]["fromCommit"], 1, "{measured}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ambiguous_short_hash_is_refused_everywhere() {
    let harbour = Harbour::open().await;
    let origin = origin(&harbour.file("ledger"), "");
    let both = origin.alike();
    harbour.register(&origin).await;
    let first = harbour.newest(1).await;
    harbour.end_of(first["id"].as_str().unwrap()).await;
    let (session, deployment) = harbour.claim(both[0].as_str()).await;
    harbour.end_of(&deployment).await;

    let environment = "/pipelines/shop/ephemeral-environments/qa-1";
    let short = &both[0].as_str()[..4];
    for (path, member) in [
        (format!("{environment}/sessions"), "commitId"),
        (format!("{environment}/force-claim"), "commitId"),
        (format!("{environment}/sessions/{session}/deploy"), "commitId"),
        ("/pipelines/shop/deployments".into(), "commitId"),
        ("/pipelines/shop/deployments".into(), "ref"),
    ] {
        let refused = harbour.post(&path, &json!({member: short})).await;
        refused.is(422, "commit_ambiguous");
        assert_eq!(refused.body["errors"][0]["pointer"], format!("/{member}"));
        let candidates = refused.body["candidates"].as_array().unwrap();
        assert!(both.iter().all(|sha| candidates.contains(&json!(sha.as_str()))), "{candidates:?}");
    }
    let seen = harbour.see(&format!("{environment}/sessions/{session}")).await;
    assert_eq!((&seen["status"], &seen["deploymentCount"]), (&json!("active"), &json!(1)));

    // If a branch has the same name as an ambiguous short hash, the branch is used.
    origin.git(&["branch", short, both[1].as_str()]);
    let deploy = format!("{environment}/sessions/{session}/deploy");
    let deployed = harbour.post(&deploy, &json!({"commitId": format!("refs/heads/{short}")})).await;
    let ended = harbour.end_of(data(&deployed, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["resolvedCommitId"], both[1].as_str());
    let deployed = harbour.post(&deploy, &json!({"commitId": short})).await;
    let ended = harbour.end_of(data(&deployed, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["resolvedCommitId"], both[1].as_str());

    // Deployments can be found by the resolved commit or a prefix of it, ignoring case.
    for commit in [both[1].as_str(), &both[1].as_str()[..12], &both[1].as_str()[..12].to_uppercase()] {
        let found = harbour.see(&format!("/deployments?session={session}&commit={commit}")).await;
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), 2, "{commit}");
        assert!(found.iter().all(|it| it["resolvedCommitId"] == both[1].as_str()));
    }
    harbour.close().await;
}
