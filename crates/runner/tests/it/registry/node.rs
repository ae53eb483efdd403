//! Tests of Node registries, which are started through npm and get their task in an argument.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use berth_core::registry::CustomStepResponse;
use berth_runner::registry::{
    BuiltRegistry, RegistryBuildRequest, RegistryCallOutcome, RegistryCallRequest, build, call,
    execution_task,
};
use berth_runner::{Confinement, SandboxMode};
use berth_testkit::outcome;
use serde_json::{Value, json};

/// Runs npm. Returns `None` if it is not installed.
fn run_npm(arguments: &[&str]) -> Option<String> {
    let output = Command::new("npm").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn build_registry(dir: &Path, files: &[(&str, &str)]) -> BuiltRegistry {
    for (name, text) in files {
        let path = dir.join("source").join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(&path, text).expect("file");
    }
    let confinement = Confinement::choose(SandboxMode::Local, &[], &[]).expect("a sandbox");
    let request = RegistryBuildRequest {
        source: dir.join("source"),
        scratch: dir.join("scratch"),
        timeout: Duration::from_secs(240),
        bytes_max: 1024 * 1024 * 1024,
        is_stopping: &|| false,
        confinement: &confinement,
        writable: Vec::new(),
        env: BTreeMap::new(),
    };
    let mut printed = Vec::new();
    let built = build(&request, &mut |bytes: &[u8]| printed.extend_from_slice(bytes));
    built.unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&printed)))
}

fn call_registry(dir: &Path, built: &BuiltRegistry, task: &Value) -> (CustomStepResponse, String) {
    let mut printed = Vec::new();
    let confinement = Confinement::choose(SandboxMode::Local, &[], &[]).expect("a sandbox");
    let request = RegistryCallRequest {
        registry: &dir.join("source"),
        start: &built.start,
        input: built.input,
        task,
        scratch: &dir.join("scratch"),
        workspace: &dir.join("scratch"),
        timeout: Duration::from_secs(60),
        is_stopping: &|| false,
        confinement: &confinement,
        env: &BTreeMap::new(),
    };
    let called = call(&request, &mut |bytes: &[u8]| printed.extend_from_slice(bytes)).expect("called");
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let RegistryCallOutcome::Answered { answer, .. } = called else { panic!("{called:?}\n{printed}") };
    (CustomStepResponse::parse(&answer).unwrap_or_else(|told| panic!("{told}\n{printed}")), printed)
}

const MAIN: &str = r#"
const fs = require("fs"), path = require("path");
const arg = (name) => process.argv[process.argv.indexOf(name) + 1];
const task = JSON.parse(arg("--input"));
const log = (message) => fs.appendFileSync(path.join(arg("--log-dir"), arg("--execution-id") + ".jsonl"),
  JSON.stringify({ timestamp: new Date().toISOString(), level: "info", message }) + "\n");
const write = (answer) => fs.writeFileSync(arg("--output"), JSON.stringify(answer, null, 2));
if (task.job === "SYNTHESIZE-METADATA") {
  const schema = { type: "object", properties: { target: { type: "string" } }, required: ["target"] };
  write({ status: "SUCCESS", data: { metadata: [{ stepType: "DEPLOY", name: "Deploy", paramsJsonSchema: schema }] } });
} else {
  log(`deploys ${task.params.target}`);
  write({ status: "SUCCESS", data: { target: task.params.target, cwd: process.cwd(), tool: process.argv[2] } });
}
// Keep the process alive. Only the answer file counts.
if (task.params && task.params.hang) setInterval(() => {}, 1000);
"#;

#[test]
fn node_registry_is_built_by_npm_and_called_directly() {
    if run_npm(&["--version"]).is_none() {
        outcome::skip("npm", "install Node 20 or newer");
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("directory");
    let package = json!({
        "name": "steps", "version": "1.0.0", "private": true,
        "scripts": {
            "build-step-registry": "mkdir -p dist node_modules/.bin && cp main.js dist/ && cp tool node_modules/.bin/steps && chmod +x node_modules/.bin/steps",
            "start-step-registry": "steps dist/main.js 'its own argument'",
        },
    });
    let tool = "#!/bin/sh\nexec node \"$@\"\n";
    let built = build_registry(
        dir.path(),
        &[("package.json", &package.to_string()), ("main.js", MAIN), ("tool", tool)],
    );
    assert_eq!(built.start, "steps dist/main.js 'its own argument'");
    assert_eq!(built.steps[0].key, "deploy");
    let params = json!({"target": "it's \"staging\" $HOME `x`\n", "hang": true});
    let params = params.as_object().expect("object");
    let (answer, printed) = call_registry(dir.path(), &built, &execution_task("DEPLOY", params, None, None));
    let CustomStepResponse::Succeeded { outputs } = answer else { panic!("{answer:?}") };
    assert_eq!(outputs["target"], "it's \"staging\" $HOME `x`\n");
    assert_eq!(outputs["tool"], "its own argument");
    assert!(outputs["cwd"].ends_with("/source"), "{outputs:?}");
    assert!(printed.starts_with("deploys it's"), "{printed}");
}

const SDK: &str = "@devramps/sdk-typescript";
/// Steps that use decorators, as in the SDK's documentation.
const STEPS: &str = r#"
import { PollingStep, SimpleStep, Step, StepOutputs, StepRegistry } from "@devramps/sdk-typescript";
import { z } from "zod";

const Params = z.object({ target: z.string(), replicas: z.number().default(2) });
type P = z.infer<typeof Params>;

@Step({ name: "Deploy", type: "DEPLOY", schema: Params })
class Deploy extends SimpleStep<P> {
  async run(params: P) {
    this.logger.info("deploys", { target: params.target });
    return StepOutputs.success({ target: params.target, replicas: params.replicas });
  }
}

@Step({ name: "Roll out", type: "ROLLOUT", schema: Params })
class Rollout extends PollingStep<P, { looks: number }> {
  async trigger() {
    return StepOutputs.triggered({ looks: 0 });
  }
  async poll(_: P, state: { looks: number }) {
    if (state.looks >= 2) return StepOutputs.success({ looks: state.looks });
    return StepOutputs.pollAgain({ looks: state.looks + 1 }, 150);
  }
}

StepRegistry.run([new Deploy(), new Rollout()]);
"#;

#[test]
fn node_registry_with_public_sdk_runs() {
    // If npm cannot download the SDK, this variable can contain the path of a packed copy.
    let copy = std::env::var("BERTH_TEST_STEP_SDK").ok();
    if copy.is_none() && run_npm(&["view", SDK, "version"]).is_none() {
        outcome::report_impossible(
            SDK,
            "the npm registry does not have it; BERTH_TEST_STEP_SDK can name a packed copy",
        );
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("directory");
    let package = json!({
        "name": "steps", "version": "1.0.0", "private": true,
        "scripts": { "build-step-registry": "tsc", "start-step-registry": "node dist/index.js" },
        "dependencies": {
            SDK: copy.map_or_else(|| "*".into(), |path| format!("file:{path}")),
            "zod": "^4.3.4", "typescript": "^5.9.0", "@types/node": "^22.0.0",
        },
    });
    let config = json!({
        "compilerOptions": {
            "target": "es2022", "module": "commonjs", "outDir": "dist", "rootDir": "src", "strict": true,
            "experimentalDecorators": true, "esModuleInterop": true, "skipLibCheck": true, "types": ["node"],
        },
        "include": ["src"],
    });
    let files = [
        ("package.json", package.to_string()),
        ("tsconfig.json", config.to_string()),
        ("src/index.ts", STEPS.to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let built = build_registry(dir.path(), &files);
    let keys: Vec<&str> = built.steps.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(keys, ["deploy", "rollout"]);
    assert!(
        berth_definition::custom_step::params_schema(&built.steps[0].schema)
            .expect("schema")
            .check(&json!({"target": "x"}), |_| false)
            .is_empty()
    );
    let params = json!({"target": "staging"});
    let params = params.as_object().expect("object");
    let own_type =
        |key: &str| built.steps.iter().find(|step| step.key == key).expect("step").step_type.clone();
    let (answer, printed) =
        call_registry(dir.path(), &built, &execution_task(&own_type("deploy"), params, None, None));
    let CustomStepResponse::Succeeded { outputs } = answer else { panic!("{answer:?}") };
    assert_eq!((outputs["target"].as_str(), outputs["replicas"].as_str()), ("staging", "2"));
    assert!(printed.starts_with("deploys"), "{printed}");
    let mut state = None;
    for expected in [Some(0), Some(1), Some(2), None] {
        let task = execution_task(&own_type("rollout"), params, None, state.as_ref());
        state = match call_registry(dir.path(), &built, &task).0 {
            CustomStepResponse::Waiting { state, .. } => Some(state),
            CustomStepResponse::Succeeded { outputs } => {
                assert_eq!(outputs["looks"], "2");
                None
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(state, expected.map(|looks| json!({"looks": looks})));
    }
    let (answer, _) = call_registry(dir.path(), &built, &execution_task("deploy", params, None, None));
    assert!(
        matches!(answer, CustomStepResponse::Failed { code: Some(code), .. } if code == "STEP_NOT_FOUND")
    );
}
