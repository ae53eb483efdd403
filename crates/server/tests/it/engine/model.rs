//! Analysis by a language model. A mock of the model providers (`@copilotkit/aimock`) responds correctly, incorrectly,
//! late or not at all.

use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::{JobsWithRunner, PipelineFixture, TestWorld, expect_data};
use crate::git::OriginRepository;
use crate::npm::{self, NodeServer};
use crate::world::{call, get};

const ORG: &str = super::ORG;
const KEY: &str = "sk-test-0123456789abcdef";

/// A mock of model providers, stopped on drop.
struct ModelMock {
    served: NodeServer,
    _answers: tempfile::TempDir,
}

impl ModelMock {
    /// Starts the mock. Each entry of `answers` is a string and the response to messages that contain it. `flags` make
    /// the mock misbehave. Returns `None` if the mock is not installed.
    fn start(answers: &[(&str, String)], flags: &[&str]) -> Option<Self> {
        let program = npm::package_file("@copilotkit/aimock/dist/cli.js")?;
        let dir = tempfile::tempdir().unwrap();
        let fixtures: Vec<Value> = answers
            .iter()
            .map(|(words, said)| json!({"match": {"userMessage": words}, "response": {"content": said}}))
            .collect();
        std::fs::write(dir.path().join("said.json"), json!({"fixtures": fixtures}).to_string()).unwrap();
        let answers = dir.path().display().to_string();
        let args = [&["-p", "PORT", "-f", &answers], flags].concat();
        Some(Self { served: NodeServer::start(&program, &args), _answers: dir })
    }
}

async fn start_with_local_egress() -> PipelineFixture {
    let config = AppConfig {
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let world = TestWorld::with_config(config).await;
    let running_jobs = JobsWithRunner::start(&world.app);
    PipelineFixture { world, running_jobs, outside: tempfile::tempdir().unwrap() }
}

impl PipelineFixture {
    async fn configure_model(&self, mock: &ModelMock, provider: &str, more: Value) {
        let secret = json!({"name": "MODEL_KEY", "value": KEY});
        self.post("/secrets", &secret).await;
        let base = match provider {
            "openai" => format!("{}/v1", mock.served.url),
            _ => mock.served.url.clone(),
        };
        let mut body = json!({
            "provider": provider, "baseUrl": base, "model": "test-model", "apiKeySecret": "MODEL_KEY",
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let put = call("PUT", &format!("{ORG}/analysis-settings")).with_account(self.ada()).json(&body);
        let put = self.send(put).await;
        assert_eq!(put.status, 200, "{}", put.text);
    }

    /// Runs a deployment that fails, and returns the analysis of the failure.
    async fn analyze_failure(&self) -> Value {
        let failed = self.start_deployment("4f2a1c9").await;
        self.wait_for_end(&failed).await;
        let asked = self.request_analysis(&failed).await;
        self.wait_for_analysis(asked["id"].as_str().unwrap()).await
    }
}

/// A name, the answers and flags of the mock, and additional analysis settings.
type ModelCase<'a> = (&'a str, &'a [(&'a str, String)], &'a [&'a str], Value);

fn model_answer(root_cause: &str, line: usize) -> String {
    json!({
        "rootCause": root_cause, "category": "command", "confidence": "high",
        "evidence": [{"firstLine": line, "lastLine": line}], "advice": "Install it.",
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_answer_is_used_and_its_request_is_stored() {
    let Some(mock) = ModelMock::start(&[("It ended as", model_answer("The tool is not installed.", 1))], &[])
    else {
        return;
    };
    for provider in ["openai", "anthropic"] {
        let fixture = start_with_local_egress().await;
        fixture.configure_model(&mock, provider, json!({})).await;
        fixture.create_script_pipeline("", "no-such-tool-at-all").await;
        let seen = fixture.analyze_failure().await;
        assert_eq!(seen["analyser"], format!("{provider}/test-model"), "{seen}");
        assert_eq!(seen["rootCause"], "The tool is not installed.");
        assert_eq!(seen["evidence"][0]["supported"], true, "{seen}");
        assert!(seen["evidence"][0]["text"].as_str().unwrap().contains("no-such-tool-at-all"), "{seen}");
        let sent = &seen["requests"][0];
        assert!(sent["body"].as_str().unwrap().contains("no-such-tool-at-all"), "{sent}");
        assert!(!seen.to_string().contains(KEY), "the key is in no answer");
        let events =
            fixture.send(get(&format!("{ORG}/events?kind=analysis_model_asked")).with_account(fixture.ada()));
        let events = events.await;
        assert_eq!(events.body["data"][0]["data"]["promptHash"], sent["hash"], "{}", events.text);

        let again = fixture.analyze_failure().await;
        assert_eq!(again["reusedFrom"], seen["id"], "{again}");
        assert_eq!(
            (&again["rootCause"], again["requests"].as_array().unwrap().len()),
            (&seen["rootCause"], 0)
        );
        fixture.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_model_answer_is_sanitized_and_checked() {
    let hostile = model_answer("See [here](https://evil.test/) ![x](https://evil.test/x.png)\u{202e}", 9_999);
    let Some(mock) = ModelMock::start(&[("It ended as", hostile)], &[]) else { return };
    let fixture = start_with_local_egress().await;
    fixture.configure_model(&mock, "openai", json!({})).await;
    fixture.create_script_pipeline("", "no-such-tool-at-all").await;
    let seen = fixture.analyze_failure().await;
    assert_eq!((&seen["rootCause"], &seen["confidence"]), (&json!("See here"), &json!("low")), "{seen}");
    assert_eq!(
        (&seen["evidence"][0]["supported"], &seen["evidence"][0]["text"]),
        (&json!(false), &json!(""))
    );
    assert!(seen["suggestedFix"].is_null());
    fixture.shut_down().await;
}

const DEPLOY: &str =
    "#!/bin/sh\nset -e\nexport KEY=hunter2-hunter2-hunter2\necho deploying\nno-such-tool-at-all\n";
const FIXING_DIFF: &str = "diff --git a/deploy.sh b/deploy.sh\n--- a/deploy.sh\n+++ b/deploy.sh\n@@ -4,2 +4,2 @@\n echo deploying\n-no-such-tool-at-all\n+true\n";
const WORKFLOW_DIFF: &str = "diff --git a/.github/workflows/x.yml b/.github/workflows/x.yml\nnew file mode 100644\n--- /dev/null\n+++ b/.github/workflows/x.yml\n@@ -0,0 +1 @@\n+on: push\n";

/// A model answer that suggests this diff.
fn answer_with_diff(diff: &str) -> String {
    let mut said: Value = serde_json::from_str(&model_answer("The tool is not installed.", 1)).unwrap();
    said["diff"] = json!(diff);
    said.to_string()
}

/// A repository with a script that fails. The name of the case is part of the failing command.
fn create_failing_origin(case: &str) -> OriginRepository {
    let origin = OriginRepository::new();
    let definition = format!(
        "version: 1\npipeline:\n  name: Shop\n  tracks: main\n  stages: [{{ name: staging }}]\n  steps:\n    - {{ name: Deploy, type: script, params: {{ run: 'sh deploy.sh .env {case}' }} }}\n"
    );
    origin.write(".berth/shop/pipeline.yaml", &definition);
    origin.write("deploy.sh", DEPLOY);
    origin.write(".env", "PRIVATE=never-in-a-prompt\n");
    origin.write("unnamed.sh", "echo file-not-in-the-log\n");
    origin.commit("a script that needs a tool");
    origin
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_gets_the_named_files_and_its_diff_is_checked() {
    let leaking = FIXING_DIFF.replace("+true", "+echo hunter2-hunter2-hunter2");
    let misfit = FIXING_DIFF.replace("-no-such-tool-at-all", "-another-tool");
    let cases = [
        ("case-good", FIXING_DIFF, None),
        ("case-automation", WORKFLOW_DIFF, Some("continuous integration")),
        ("case-misfit", misfit.as_str(), Some("does not fit the commit")),
        ("case-leaking", leaking.as_str(), Some("value of a secret")),
        ("case-nonsense", "just delete everything", Some("cannot be read")),
    ];
    let answers: Vec<_> = cases.iter().map(|(case, diff, _)| (*case, answer_with_diff(diff))).collect();
    let Some(mock) = ModelMock::start(&answers, &[]) else { return };
    for (case, diff, refused) in cases {
        let fixture = start_with_local_egress().await;
        let secret = json!({"name": "DEPLOY_KEY", "value": "hunter2-hunter2-hunter2"});
        assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
        fixture.configure_model(&mock, "anthropic", json!({})).await;
        let origin = create_failing_origin(case);
        expect_data(&fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await, 201);
        let failed = fixture.wait_for_first_deployment().await;
        fixture.wait_for_end(&failed).await;
        let path = format!("/deployments/{failed}/analyses");
        let would = expect_data(&fixture.post(&path, &json!({"preview": true})).await, 200);
        let asked = fixture.request_analysis(&failed).await;
        let seen = fixture.wait_for_analysis(asked["id"].as_str().unwrap()).await;
        assert_eq!(seen["analyser"], "anthropic/test-model", "{seen}");
        for body in [&would["body"], &seen["requests"][0]["body"]] {
            let body = body.as_str().unwrap();
            assert!(body.contains("echo deploying") && body.contains("export KEY=***"), "{body}");
            for never in ["hunter2", "never-in-a-prompt", "file-not-in-the-log"] {
                assert!(!body.contains(never), "{body}");
            }
        }
        if refused.is_none() {
            let vera = fixture.world.create_member("vera@acme.test", "viewer").await;
            let path = format!("{ORG}/analyses/{}", seen["id"].as_str().unwrap());
            let viewed = fixture.send(get(&path).with_account(&vera)).await.body["data"].clone();
            assert_eq!(viewed["rootCause"], seen["rootCause"]);
            let source = [&viewed["requests"][0]["body"], &viewed["suggestedFix"]["diff"]];
            assert_eq!(source, [&Value::Null; 2], "a viewer sees no source: {viewed}");
        }
        let note = seen["note"].as_str().unwrap_or_default();
        assert!(note.contains(refused.unwrap_or_default()) && !note.contains("hunter2"), "{case}: {seen}");
        let expected = if refused.is_none() { json!(diff) } else { Value::Null };
        assert_eq!(seen["suggestedFix"]["diff"], expected, "{case}: {seen}");
        assert_eq!(seen["note"].is_null(), refused.is_none(), "{seen}");
        let path = format!("/analyses/{}/pull-request", seen["id"].as_str().unwrap());
        let proposed = fixture.post(&path, &json!({})).await;
        assert_eq!(proposed.status, if refused.is_none() { 202 } else { 409 }, "{}", proposed.text);
        fixture.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_model_answer_is_repaired_once() {
    let good = model_answer("The tool is not installed.", 1);
    let answers =
        [("That is not valid by the schema", good), ("It ended as", "I think it broke.".to_owned())];
    let Some(mock) = ModelMock::start(&answers, &[]) else { return };
    let fixture = start_with_local_egress().await;
    fixture.configure_model(&mock, "anthropic", json!({})).await;
    fixture.create_script_pipeline("", "no-such-tool-at-all").await;
    let seen = fixture.analyze_failure().await;
    assert_eq!(seen["analyser"], "anthropic/test-model", "{seen}");
    assert_eq!(seen["requests"].as_array().unwrap().len(), 2, "{seen}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_answer_when_the_model_fails() {
    let good = [("It ended as", model_answer("The tool is not installed.", 1))];
    let never = [("It ended as", "no".to_owned()), ("That is not valid", "still no".to_owned())];
    let cases: [ModelCase<'_>; 6] = [
        ("429", &good, &["--chaos-ratelimit", "1"], json!({})),
        ("500", &good, &["--chaos-drop", "1"], json!({})),
        ("malformed", &good, &["--chaos-malformed", "1"], json!({})),
        ("slow", &good, &["--chaos-latency", "20000"], json!({"timeoutSeconds": 1})),
        ("never what was asked for", &never, &[], json!({})),
        ("no budget", &good, &[], json!({"monthlyTokensMax": 0})),
    ];
    for (name, answers, flags, more) in cases {
        let Some(mock) = ModelMock::start(answers, flags) else { return };
        let fixture = start_with_local_egress().await;
        fixture.configure_model(&mock, "openai", more).await;
        fixture.create_script_pipeline("", "no-such-tool-at-all").await;
        let seen = fixture.analyze_failure().await;
        assert_eq!(
            (&seen["analyser"], &seen["category"]),
            (&json!("rules"), &json!("command")),
            "{name}: {seen}"
        );
        assert!(
            seen["note"].as_str().is_some_and(|note| note.contains("The built-in rules were used instead")),
            "{name}: {seen}"
        );
        let sent = seen["requests"].as_array().unwrap().len();
        assert_eq!(sent == 0, name == "no budget", "{name}: {seen}");
        assert!(sent <= 4, "{name}: {seen}");
        fixture.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_preview_shows_the_request_without_sending_it() {
    let Some(mock) = ModelMock::start(&[("It ended as", model_answer("Never asked.", 1))], &[]) else {
        return;
    };
    let fixture = start_with_local_egress().await;
    fixture.create_script_pipeline("", "no-such-tool-at-all").await;
    let failed = fixture.start_deployment("4f2a1c9").await;
    fixture.wait_for_end(&failed).await;
    let path = format!("/deployments/{failed}/analyses");
    let preview = async || expect_data(&fixture.post(&path, &json!({"preview": true})).await, 200);
    assert_eq!(preview().await, json!({"analyser": "rules", "url": null, "body": null}));
    fixture.configure_model(&mock, "openai", json!({})).await;
    let would = preview().await;
    assert_eq!(would["analyser"], "openai/test-model");
    assert!(would["body"].as_str().unwrap().contains("no-such-tool-at-all"), "{would}");
    assert!(!would.to_string().contains(KEY));
    assert!(fixture.wait_for_analyses(&failed, 0).await.is_empty());
    let events = fixture
        .send(get(&format!("{ORG}/events?kind=analysis_model_asked")).with_account(fixture.ada()))
        .await;
    assert_eq!(events.body["data"].as_array().unwrap().len(), 0, "{}", events.text);
    fixture.shut_down().await;
}
