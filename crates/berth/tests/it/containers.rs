//! Steps in containers, from the definition to the response of the API, with a real Podman.

use std::time::Duration;

use berth_testkit::podman::{IMAGE, PodmanService};
use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, wait_until};

const ORG: &str = "/api/v1/organizations/acme";
const ENVIRONMENT: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
const PATIENCE: Duration = Duration::from_secs(120);

struct ContainerServer {
    server: TestServer,
    home: TestHome,
    podman: PodmanService,
}

impl ContainerServer {
    /// Returns `None` if this machine cannot run containers.
    fn start() -> Option<Self> {
        let (podman, home) = (PodmanService::start()?, TestHome::new());
        let server = serve(&home, &podman);
        Some(Self { server, home, podman })
    }

    fn create_pipeline(&self, steps: &str) {
        let definition = format!(
            "version: 1\npipeline:\n  name: Shop\n  ephemeral_environments: {{ qa-1: {{ ttl: 1h }} }}\n  steps:\n{steps}"
        );
        let body = json!({"slug": "shop", "definition": definition});
        let made = self.server.api.post(&format!("{ORG}/pipelines"), &body);
        assert_eq!(made.status, 201, "{}", made.text());
    }

    /// Claims the environment and returns the deployment's path.
    fn claim(&self, path: &str) -> String {
        let claimed = self
            .server
            .api
            .post(&format!("{ENVIRONMENT}/{path}"), &json!({"commitId": "4f2a1c9", "context": "test"}));
        let id = claimed.json()["data"]["deploymentId"].as_str().map(str::to_owned);
        format!("{ORG}/deployments/{}", id.unwrap_or_else(|| panic!("{}", claimed.text())))
    }

    fn wait_for_end(&self, deployment: &str) -> Value {
        wait_until(PATIENCE, "end of the deployment", || {
            let found = self.server.api.get(deployment).json()["data"].clone();
            Some(found).filter(|it| it["finishedAt"].is_string())
        })
    }

    fn log(&self, deployment: &str, step: &str) -> String {
        self.server.api.get(&format!("{deployment}/steps/{step}/logs?raw=true")).text()
    }
}

fn serve(home: &TestHome, podman: &PodmanService) -> TestServer {
    let mut command = home.serve_command();
    command.env("BERTH_RUNNER__CONTAINERS__SOCKET", podman.socket());
    TestServer::start(&mut command, &home.token)
}

fn steps_of(deployment: &Value) -> Vec<Value> {
    let stages = deployment["stages"].as_array().into_iter().flatten();
    stages.flat_map(|stage| stage["steps"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn container_step_runs_with_pinned_image_and_masked_secret() {
    let Some(it) = ContainerServer::start() else { return };
    let secret = json!({"name": "TOKEN", "value": "hunter22-hunter22"});
    assert_eq!(it.server.api.post(&format!("{ORG}/secrets"), &secret).status, 201);
    it.create_pipeline(&format!(
        "    - name: Test\n      id: test\n      type: script\n      container: {{ image: '{IMAGE}', network: none, memory: 64MiB }}\n      \
         env: {{ TOKEN: '${{{{ secrets.TOKEN }}}}' }}\n      outputs: [version]\n      params:\n        run: |\n          \
         echo \"token $TOKEN\"\n          echo version=7 >>\"$BERTH_OUTPUT\"\n    \
         - name: Again\n      id: again\n      type: script\n      container: {{ image: '{IMAGE}', network: none }}\n      \
         env: {{ VERSION: '${{{{ steps.test.version }}}}' }}\n      params: {{ run: 'echo \"version $VERSION\"' }}\n"
    ));
    let deployment = it.claim("sessions");
    let done = it.wait_for_end(&deployment);
    assert_eq!(done["status"], "succeeded", "{done}\n{}", it.log(&deployment, "test"));
    let (first, second) = (it.log(&deployment, "test"), it.log(&deployment, "again"));
    assert!(first.ends_with("token ***\n") && second.ends_with("version 7\n"), "{first}{second}");
    let steps = steps_of(&done);
    let attempts: Vec<&Value> = steps.iter().map(|step| &step["attempts"][0]).collect();
    let image = attempts[0]["images"][0].as_str().expect("an image");
    assert!(image.starts_with(&format!("{IMAGE}@sha256:")), "{image}");
    for attempt in &attempts {
        assert_eq!((&attempt["isolation"], &attempt["network"]), (&json!("container"), &json!("none")));
        assert_eq!(attempt["images"], json!([image]));
    }
    let events = it.server.api.get(&format!("{ORG}/events?limit=100")).json();
    let kinds = events["data"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| event["kind"] == "image_pinned" || event["type"] == "image_pinned");
    assert_eq!(kinds.count(), 1, "{events}");
    assert_eq!(it.podman.containers(), Vec::<String>::new());
}

#[test]
fn takeover_and_kill_of_the_server_leave_no_container() {
    let Some(it) = ContainerServer::start() else { return };
    it.create_pipeline(&format!(
        "    - name: Test\n      id: test\n      type: script\n      container: {{ image: '{IMAGE}', network: none }}\n      params: {{ run: 'echo ready; sleep 1000' }}\n"
    ));
    let first = it.claim("sessions");
    wait_until(PATIENCE, "the step runs", || it.log(&first, "test").contains("ready").then_some(()));
    let before = it.podman.containers();
    assert_eq!(before.len(), 1);
    let second = it.claim("force-claim");
    assert_eq!(it.wait_for_end(&first)["status"], "cancelled");
    wait_until(PATIENCE, "the next step runs", || it.log(&second, "test").contains("ready").then_some(()));
    let after = it.podman.containers();
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    let ContainerServer { mut server, home, podman } = it;
    server.process.kill();
    assert_eq!(podman.containers(), after, "a container outlives the server");
    let server = serve(&home, &podman);
    assert!(!podman.containers().contains(&after[0]), "removed before the server serves");
    server.stop();
    assert_eq!(podman.containers(), Vec::<String>::new());
}
