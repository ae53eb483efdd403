//! Analysis by a language model. A mock of the model providers (`@copilotkit/aimock`) responds correctly, incorrectly,
//! late or not at all.

use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::{AtWork, Harbour, World, data};
use crate::git::Origin;
use crate::npm::{self, Served};
use crate::world::{call, get};

const ORG: &str = super::ORG;
const KEY: &str = "sk-test-0123456789abcdef";

/// A mock of model providers, stopped on drop.
struct Mock {
    served: Served,
    _answers: tempfile::TempDir,
}

impl Mock {
    /// Starts the mock. Each entry of `answers` is a string and the response to messages that contain it. `flags` make
    /// the mock misbehave. Returns `None` if the mock is not installed.
    fn start(answers: &[(&str, String)], flags: &[&str]) -> Option<Self> {
        let program = npm::file("@copilotkit/aimock/dist/cli.js")?;
        let dir = tempfile::tempdir().unwrap();
        let fixtures: Vec<Value> = answers
            .iter()
            .map(|(words, said)| json!({"match": {"userMessage": words}, "response": {"content": said}}))
            .collect();
        std::fs::write(dir.path().join("said.json"), json!({"fixtures": fixtures}).to_string()).unwrap();
        let answers = dir.path().display().to_string();
        let args = [&["-p", "PORT", "-f", &answers], flags].concat();
        Some(Self { served: Served::start(&program, &args), _answers: dir })
    }
}

async fn harbour() -> Harbour {
    let config = AppConfig {
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let world = World::with(config).await;
    let at_work = AtWork::begin(&world.app);
    Harbour { world, at_work, outside: tempfile::tempdir().unwrap() }
}

impl Harbour {
    async fn uses(&self, mock: &Mock, provider: &str, more: Value) {
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
        let put = call("PUT", &format!("{ORG}/analysis-settings")).by(self.ada()).json(&body);
        let put = self.send(put).await;
        assert_eq!(put.status, 200, "{}", put.text);
    }

    /// Runs a deployment that fails, and returns the analysis of the failure.
    async fn failure(&self) -> Value {
        let failed = self.start("4f2a1c9").await;
        self.end_of(&failed).await;
        let asked = self.ask(&failed).await;
        self.looked_into(asked["id"].as_str().unwrap()).await
    }
}

/// A name, the answers and flags of the mock, and additional analysis settings.
type Case<'a> = (&'a str, &'a [(&'a str, String)], &'a [&'a str], Value);

fn said(root_cause: &str, line: usize) -> String {
    json!({
        "rootCause": root_cause, "category": "command", "confidence": "high",
        "evidence": [{"firstLine": line, "lastLine": line}], "advice": "Install it.",
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_answer_is_used_and_its_request_is_stored() {
    let Some(mock) = Mock::start(&[("It ended as", said("The tool is not installed.", 1))], &[]) else {
        return;
    };
    for provider in ["openai", "anthropic"] {
        let harbour = harbour().await;
        harbour.uses(&mock, provider, json!({})).await;
        harbour.failing("", "no-such-tool-at-all").await;
        let seen = harbour.failure().await;
        assert_eq!(seen["analyser"], format!("{provider}/test-model"), "{seen}");
        assert_eq!(seen["rootCause"], "The tool is not installed.");
        assert_eq!(seen["evidence"][0]["supported"], true, "{seen}");
        assert!(seen["evidence"][0]["text"].as_str().unwrap().contains("no-such-tool-at-all"), "{seen}");
        let sent = &seen["requests"][0];
        assert!(sent["body"].as_str().unwrap().contains("no-such-tool-at-all"), "{sent}");
        assert!(!seen.to_string().contains(KEY), "the key is in no answer");
        let events = harbour.send(get(&format!("{ORG}/events?kind=analysis_model_asked")).by(harbour.ada()));
        let events = events.await;
        assert_eq!(events.body["data"][0]["data"]["promptHash"], sent["hash"], "{}", events.text);

        let again = harbour.failure().await;
        assert_eq!(again["reusedFrom"], seen["id"], "{again}");
        assert_eq!(
            (&again["rootCause"], again["requests"].as_array().unwrap().len()),
            (&seen["rootCause"], 0)
        );
        harbour.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_model_answer_is_sanitized_and_checked() {
    let hostile = said("See [here](https://evil.test/) ![x](https://evil.test/x.png)\u{202e}", 9_999);
    let Some(mock) = Mock::start(&[("It ended as", hostile)], &[]) else { return };
    let harbour = harbour().await;
    harbour.uses(&mock, "openai", json!({})).await;
    harbour.failing("", "no-such-tool-at-all").await;
    let seen = harbour.failure().await;
    assert_eq!((&seen["rootCause"], &seen["confidence"]), (&json!("See here"), &json!("low")), "{seen}");
    assert_eq!(
        (&seen["evidence"][0]["supported"], &seen["evidence"][0]["text"]),
        (&json!(false), &json!(""))
    );
    assert!(seen["suggestedFix"].is_null());
    harbour.close().await;
}

const DEPLOY: &str =
    "#!/bin/sh\nset -e\nexport KEY=hunter2-hunter2-hunter2\necho deploying\nno-such-tool-at-all\n";
const MENDED: &str = "diff --git a/deploy.sh b/deploy.sh\n--- a/deploy.sh\n+++ b/deploy.sh\n@@ -4,2 +4,2 @@\n echo deploying\n-no-such-tool-at-all\n+true\n";
const AUTOMATION: &str = "diff --git a/.github/workflows/x.yml b/.github/workflows/x.yml\nnew file mode 100644\n--- /dev/null\n+++ b/.github/workflows/x.yml\n@@ -0,0 +1 @@\n+on: push\n";

/// A model answer that suggests this diff.
fn suggesting(diff: &str) -> String {
    let mut said: Value = serde_json::from_str(&said("The tool is not installed.", 1)).unwrap();
    said["diff"] = json!(diff);
    said.to_string()
}

/// A repository with a script that fails. The name of the case is part of the failing command.
fn repository(case: &str) -> Origin {
    let origin = Origin::new();
    let definition = format!(
        "version: 1\npipeline:\n  name: Shop\n  tracks: main\n  stages: [{{ name: staging }}]\n  steps:\n    - {{ name: Deploy, type: script, params: {{ run: 'sh deploy.sh .env {case}' }} }}\n"
    );
    origin.write(".berth/shop/pipeline.yaml", &definition);
    origin.write("deploy.sh", DEPLOY);
    origin.write(".env", "PRIVATE=nobody-reads-this\n");
    origin.write("unnamed.sh", "echo nobody-names-this\n");
    origin.commit("a script that needs a tool");
    origin
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_gets_the_named_files_and_its_diff_is_checked() {
    let leaking = MENDED.replace("+true", "+echo hunter2-hunter2-hunter2");
    let misfit = MENDED.replace("-no-such-tool-at-all", "-another-tool");
    let cases = [
        ("case-good", MENDED, None),
        ("case-automation", AUTOMATION, Some("continuous integration")),
        ("case-misfit", misfit.as_str(), Some("does not fit the commit")),
        ("case-leaking", leaking.as_str(), Some("value of a secret")),
        ("case-nonsense", "just delete everything", Some("cannot be read")),
    ];
    let answers: Vec<_> = cases.iter().map(|(case, diff, _)| (*case, suggesting(diff))).collect();
    let Some(mock) = Mock::start(&answers, &[]) else { return };
    for (case, diff, refused) in cases {
        let harbour = harbour().await;
        let secret = json!({"name": "DEPLOY_KEY", "value": "hunter2-hunter2-hunter2"});
        assert_eq!(harbour.post("/secrets", &secret).await.status, 201);
        harbour.uses(&mock, "anthropic", json!({})).await;
        let origin = repository(case);
        data(&harbour.post("/repositories", &json!({"url": origin.url().as_str()})).await, 201);
        let failed = harbour.first_deployment().await;
        harbour.end_of(&failed).await;
        let path = format!("/deployments/{failed}/analyses");
        let would = data(&harbour.post(&path, &json!({"preview": true})).await, 200);
        let asked = harbour.ask(&failed).await;
        let seen = harbour.looked_into(asked["id"].as_str().unwrap()).await;
        assert_eq!(seen["analyser"], "anthropic/test-model", "{seen}");
        for body in [&would["body"], &seen["requests"][0]["body"]] {
            let body = body.as_str().unwrap();
            assert!(body.contains("echo deploying") && body.contains("export KEY=***"), "{body}");
            for never in ["hunter2", "nobody-reads-this", "nobody-names-this"] {
                assert!(!body.contains(never), "{body}");
            }
        }
        if refused.is_none() {
            let vera = harbour.world.member("vera@acme.test", "viewer").await;
            let path = format!("{ORG}/analyses/{}", seen["id"].as_str().unwrap());
            let viewed = harbour.send(get(&path).by(&vera)).await.body["data"].clone();
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
        let proposed = harbour.post(&path, &json!({})).await;
        assert_eq!(proposed.status, if refused.is_none() { 202 } else { 409 }, "{}", proposed.text);
        harbour.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_model_answer_is_repaired_once() {
    let good = said("The tool is not installed.", 1);
    let answers =
        [("That is not valid by the schema", good), ("It ended as", "I think it broke.".to_owned())];
    let Some(mock) = Mock::start(&answers, &[]) else { return };
    let harbour = harbour().await;
    harbour.uses(&mock, "anthropic", json!({})).await;
    harbour.failing("", "no-such-tool-at-all").await;
    let seen = harbour.failure().await;
    assert_eq!(seen["analyser"], "anthropic/test-model", "{seen}");
    assert_eq!(seen["requests"].as_array().unwrap().len(), 2, "{seen}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_answer_when_the_model_fails() {
    let good = [("It ended as", said("The tool is not installed.", 1))];
    let never = [("It ended as", "no".to_owned()), ("That is not valid", "still no".to_owned())];
    let cases: [Case<'_>; 6] = [
        ("429", &good, &["--chaos-ratelimit", "1"], json!({})),
        ("500", &good, &["--chaos-drop", "1"], json!({})),
        ("malformed", &good, &["--chaos-malformed", "1"], json!({})),
        ("slow", &good, &["--chaos-latency", "20000"], json!({"timeoutSeconds": 1})),
        ("never what was asked for", &never, &[], json!({})),
        ("no budget", &good, &[], json!({"monthlyTokensMax": 0})),
    ];
    for (name, answers, flags, more) in cases {
        let Some(mock) = Mock::start(answers, flags) else { return };
        let harbour = harbour().await;
        harbour.uses(&mock, "openai", more).await;
        harbour.failing("", "no-such-tool-at-all").await;
        let seen = harbour.failure().await;
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
        harbour.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_preview_shows_the_request_without_sending_it() {
    let Some(mock) = Mock::start(&[("It ended as", said("Never asked.", 1))], &[]) else { return };
    let harbour = harbour().await;
    harbour.failing("", "no-such-tool-at-all").await;
    let failed = harbour.start("4f2a1c9").await;
    harbour.end_of(&failed).await;
    let path = format!("/deployments/{failed}/analyses");
    let preview = async || data(&harbour.post(&path, &json!({"preview": true})).await, 200);
    assert_eq!(preview().await, json!({"analyser": "rules", "url": null, "body": null}));
    harbour.uses(&mock, "openai", json!({})).await;
    let would = preview().await;
    assert_eq!(would["analyser"], "openai/test-model");
    assert!(would["body"].as_str().unwrap().contains("no-such-tool-at-all"), "{would}");
    assert!(!would.to_string().contains(KEY));
    assert!(harbour.analyses_of(&failed, 0).await.is_empty());
    let events =
        harbour.send(get(&format!("{ORG}/events?kind=analysis_model_asked")).by(harbour.ada())).await;
    assert_eq!(events.body["data"].as_array().unwrap().len(), 0, "{}", events.text);
    harbour.close().await;
}
