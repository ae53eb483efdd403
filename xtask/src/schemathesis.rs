//! `cargo xtask schemathesis`: fuzzes a demo server with requests generated from the OpenAPI document. A response that
//! the document does not allow is a failure, and so is any 5xx.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::demo_server::{DemoServer, wait};
use crate::python;
use crate::tool::{TaskResult, cargo, run as run_command};

const VERSION: &str = "4.32.5";
const EXAMPLES_DEFAULT: u32 = 20;
/// A fixed seed, so that failures are reproducible and an unrelated change does not reveal new ones.
const SEED: &str = "20260101";
/// Timeout for a run with the default number of examples.
const RUN_MAX: Duration = Duration::from_secs(360);

/// Disabled checks:
///
/// - `positive_data_acceptance`: a request with a valid shape can still be rejected, for example with a cursor the
///   server did not issue, an invalid definition or a wrong password.
///
/// `negative_data_rejection` stays on. Inputs that are accepted on purpose are not sent: unknown query parameters
/// are ignored by design (`allow-extra-parameters`), and optional bodies are documented as such.
const CHECKS_LEFT_OUT: &str = "positive_data_acceptance";

const DEFINITION: &str = "version: 1\npipeline:\n  name: Doomed\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: dummy\n  ephemeral_environments:\n    qa-1: {}\n";
/// An environment that exists in the demo's first pipeline and in the one that may be deleted (see [`FuzzObjects`]).
const ENVIRONMENT: &str = "qa-1";

/// Runs the task from the command line.
pub(crate) fn task(args: &[String]) -> TaskResult {
    let examples = match args {
        [] => Ok(EXAMPLES_DEFAULT),
        [flag, number] if flag == "--max-examples" => number.parse().map_err(|_| ()),
        _ => Err(()),
    };
    let examples = examples.map_err(|()| "usage: cargo xtask schemathesis [--max-examples N]")?;
    let program = install()?;
    run_command(&mut cargo(["build", "--quiet", "-p", "berth"]))?;
    fuzz_demo(&program, &own_dir()?.with_file_name("berth"), examples)
}

/// Starts a demo server with this binary and fuzzes it.
pub(crate) fn fuzz_demo(program: &Path, berth: &Path, examples: u32) -> TaskResult {
    let dir = own_dir()?;
    let served = DemoServer::start(berth, &dir.join("berth.log"))?;
    let fuzzed = fuzz(&served, program, &dir, examples);
    let stopped = served.stop();
    println!("{}", fuzzed?);
    stopped
}

/// Returns the directory of Schemathesis and its files, next to this program.
fn own_dir() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    let dir = own.with_file_name("schemathesis");
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(dir)
}

/// Installs Schemathesis in its own virtual environment, unless this version is already installed.
pub(crate) fn install() -> Result<PathBuf, String> {
    let venv = &own_dir()?.join("venv");
    python::install(venv, &[("schemathesis", VERSION)])?;
    Ok(venv.join("bin/schemathesis"))
}

/// Runs Schemathesis. Returns the last line of its output on success; an error contains all output.
fn fuzz(served: &DemoServer, program: &Path, dir: &Path, examples: u32) -> Result<String, String> {
    let doomed = FuzzObjects::make(served)?;
    let held = ClaimedEnvironment::make(served, served.announced_text("/organizations/0/pipelines/0/id")?)?;
    let config = dir.join("schemathesis.toml");
    let text = render_configuration(served, &doomed, &held)?;
    std::fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;

    // Delete examples stored by earlier runs: they would be tried first, so that runs would differ.
    for memory in [".hypothesis", ".schemathesis"] {
        let _ = std::fs::remove_dir_all(dir.join(memory));
    }
    let said = dir.join("said.txt");
    let to_file = || File::create(&said).map_err(|error| format!("cannot write {}: {error}", said.display()));
    let mut command = Command::new(program);
    command.arg("--no-color").arg("--config-file").arg(&config).arg("run");
    command.arg(format!("{}/openapi.json", served.announced_text("/baseUrl")?));
    // Use one worker: two would change the order of requests, and trigger a threading bug of CPython 3.11 ("AST
    // constructor recursion depth mismatch").
    command.args(["--seed", SEED, "--workers", "1", "--continue-on-failure", "--request-timeout", "30"]);
    command.args(["--exclude-checks", CHECKS_LEFT_OUT, "--max-examples", &examples.to_string()]);
    // Pass the token in the environment, because other users can read command lines.
    command.env("BERTH_TOKEN", served.announced_text("/organizations/0/apiToken")?).current_dir(dir);
    let file = to_file()?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = command
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|error| format!("cannot run schemathesis: {error}"))?;
    let limit = RUN_MAX * examples.div_ceil(EXAMPLES_DEFAULT);
    let ended = wait(&mut child, limit)?;
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let said = std::fs::read_to_string(&said).unwrap_or_default();
    match ended {
        None => return Err(format!("{said}\nschemathesis did not finish within {} s", limit.as_secs())),
        Some(status) if !status.success() => return Err(format!("{said}\nschemathesis found failures")),
        Some(_) => {}
    }
    // If a request had revoked the run's own permissions, all later responses would have been 401.
    let me =
        served.send_request("/me", None).map_err(|why| format!("the run revoked its own access: {why}"))?;
    if me.pointer("/data/organizations/0/role").and_then(Value::as_str) != Some("owner") {
        return Err(format!("the run removed its own role: {me}"));
    }
    let tested = said.lines().find(|line| line.contains(" generated")).unwrap_or_default().trim();
    Ok(format!("    schemathesis: {tested}"))
}

/// Objects that the fuzzer may change and delete without affecting the caller or its token.
struct FuzzObjects {
    organization: String,
    pipeline: String,
    user: String,
    invitation: String,
    token: String,
    secret: String,
    repository: String,
    registry: String,
    webhook: String,
    held: ClaimedEnvironment,
}

impl FuzzObjects {
    fn make(served: &DemoServer) -> Result<Self, String> {
        let org = format!("/organizations/{}", served.announced_text("/organizations/0/slug")?);
        let id = |path: &str, body: Value| {
            let made = served.send_request(&format!("{org}{path}"), Some(&body))?;
            let id = made.pointer("/data/id").and_then(Value::as_str).map(str::to_owned);
            id.ok_or_else(|| format!("POST {path} returned no id"))
        };
        let pipeline = id("/pipelines", json!({"slug": "doomed", "definition": DEFINITION}))?;
        Ok(Self {
            // A demo refuses new organizations, and has a second one.
            organization: served.announced_text("/organizations/1/slug")?.to_owned(),
            held: ClaimedEnvironment::make(served, &pipeline)?,
            pipeline,
            user: id(
                "/members",
                json!({"email": "doomed@acme.test", "role": "deployer", "kind": "service"}),
            )?,
            invitation: id("/invitations", json!({"email": "invited@acme.test", "role": "viewer"}))?,
            token: id("/api-tokens", json!({"name": "doomed"}))?,
            secret: id("/secrets", json!({"name": "DOOMED", "value": "doomed-value"}))?,
            repository: id("/repositories", json!({"url": "/srv/git/doomed.git"}))?,
            registry: id("/step-registries", json!({"name": "doomed", "url": "/srv/git/doomed.git"}))?,
            webhook: id(
                "/webhooks",
                json!({"name": "doomed", "url": "https://hooks.invalid/doomed", "kinds": ["*"]}),
            )?,
        })
    }
}

/// A claimed environment with a deployment and a queue ticket.
struct ClaimedEnvironment {
    session: String,
    deployment: String,
    ticket: String,
}

impl ClaimedEnvironment {
    fn make(served: &DemoServer, pipeline: &str) -> Result<Self, String> {
        let org = served.announced_text("/organizations/0/slug")?;
        let path = format!(
            "/organizations/{org}/pipelines/{pipeline}/ephemeral-environments/{ENVIRONMENT}/sessions"
        );
        let claimed = served.send_request(&path, Some(&json!({"commitId": "9fceb02"})))?;
        let waits = served.send_request(&path, Some(&json!({"queue": true})))?;
        let id = |answer: &Value, pointer: &str| {
            let found = answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| format!("a claim returned no {pointer}"))
        };
        Ok(Self {
            session: id(&claimed, "/data/sessionId")?,
            deployment: id(&claimed, "/data/deploymentId")?,
            ticket: id(&waits, "/data/ticketId")?,
        })
    }
}

/// Writes the configuration. Most paths get ids of existing objects, the rest get generated ones. Operations that
/// delete or demote use the objects of [`FuzzObjects`], not the ones that the fuzzer has just created. The check that a
/// created object can be found is therefore off for these operations.
fn render_configuration(
    served: &DemoServer,
    doomed: &FuzzObjects,
    held: &ClaimedEnvironment,
) -> Result<String, String> {
    let mut text = String::from(
        "headers = { Authorization = \"Bearer ${BERTH_TOKEN}\" }\n\
         generation.allow-extra-parameters = false\n\
         # HTTP strips blanks from the ends of a header value before the server sees them.\n\
         generation.exclude-header-characters = \"\\t\"\n\
         warnings = false\n",
    );
    let org = served.announced_text("/organizations/0/slug")?;
    let pipeline = served.announced_text("/organizations/0/pipelines/0/id")?;
    let slug = served.announced_text("/organizations/0/pipelines/0/slug")?;
    let mut dictionary = |name: &str, values: &[&str]| {
        let _ = write!(text, "\n[dictionaries.{name}]\nvalues = {values:?}\n");
    };
    dictionary("organizations", &[org]);
    dictionary("pipelines", &[pipeline, slug]);
    dictionary("environments", &[ENVIRONMENT]);
    dictionary("sessions", &[&held.session]);
    dictionary("tickets", &[&held.ticket]);
    dictionary("deployments", &[&held.deployment]);
    // The demo has no approvals here, but a well-formed id gets further than a random string.
    dictionary("approvals", &["apr_00000000000000000000000000"]);
    dictionary("runners", &["embedded"]);
    dictionary("steps", &["deploy"]);
    dictionary("stages", &[ENVIRONMENT, "staging"]);
    dictionary("codes", &["not_found", "invalid_request"]);
    let _ = write!(
        text,
        "\n[parameters]\n\
         \"path.orgId\" = {{ dictionary = \"organizations\", probability = 0.9 }}\n\
         \"path.pipelineId\" = {{ dictionary = \"pipelines\", probability = 0.8 }}\n\
         \"path.envName\" = {{ dictionary = \"environments\", probability = 0.8 }}\n\
         \"path.sessionId\" = {{ dictionary = \"sessions\", probability = 0.8 }}\n\
         \"path.ticketId\" = {{ dictionary = \"tickets\", probability = 0.8 }}\n\
         \"path.deploymentId\" = {{ dictionary = \"deployments\", probability = 0.8 }}\n\
         \"path.approvalId\" = {{ dictionary = \"approvals\", probability = 0.8 }}\n\
         \"path.runnerId\" = {{ dictionary = \"runners\", probability = 0.8 }}\n\
         \"path.stepId\" = {{ dictionary = \"steps\", probability = 0.8 }}\n\
         \"path.stage\" = {{ dictionary = \"stages\", probability = 0.8 }}\n\
         \"path.code\" = {{ dictionary = \"codes\", probability = 0.5 }}\n\
         # No long polls: they only delay the responses.\n\
         \"query.wait\" = 0\n\
         # With `revokeTokens`, it would revoke the token of the run.\n\
         \n[[operations]]\n\
         include-operation-id = \"logOutEverywhere\"\n\
         enabled = false\n\
         \n[[operations]]\n\
         include-method = [\"DELETE\", \"PATCH\"]\n\
         checks.ensure_resource_availability.enabled = false\n\
         exclude-path = [\"/api/v1/organizations/{{orgId}}\", \"/api/v1/instance/organizations/{{orgId}}\"]\n\
         parameters = {{ \"path.orgId\" = {org:?}, \"path.pipelineId\" = {:?}, \"path.userId\" = {:?}, \"path.invitationId\" = {:?}, \"path.tokenId\" = {:?}, \"path.secretId\" = {:?}, \"path.repositoryId\" = {:?}, \"path.registryId\" = {:?}, \"path.webhookId\" = {:?}, \"path.envName\" = {ENVIRONMENT:?}, \"path.sessionId\" = {:?}, \"path.ticketId\" = {:?} }}\n",
        doomed.pipeline,
        doomed.user,
        doomed.invitation,
        doomed.token,
        doomed.secret,
        doomed.repository,
        doomed.registry,
        doomed.webhook,
        doomed.held.session,
        doomed.held.ticket
    );
    let _ = write!(
        text,
        "\n[[operations]]\n\
         include-method = [\"DELETE\", \"PATCH\"]\n\
         include-path = \"/api/v1/instance/organizations/{{orgId}}\"\n\
         checks.ensure_resource_availability.enabled = false\n\
         parameters = {{ \"path.orgId\" = {:?} }}\n",
        doomed.organization
    );
    Ok(text)
}
