//! Builds images with buildah and pushes them.
//!
//! buildah is a process of the runner outside of the sandbox of steps, because it creates containers itself. The engine
//! is not used: Podman 4 continues a build after its client has gone, but a step that is reported as stopped must have no process left.
//!
//! The image gets no name on this machine. It is pushed by its id from a storage that steps and other pipelines do not use
//! (see [`build_storage`](super::build_storage)), so it cannot be taken for another image.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::runner::{FailureCause, Isolation, Network, StepRunOutcome};
use berth_core::pipeline::image::{ImageReference, is_digest};
use berth_core::wording::quote;
use serde_json::{Value, json};

use super::build_inputs::BuildInputs;
use super::build_storage::BuildStorage;
use super::image::split_credential;
use super::require_engine;
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::environment::PATH;
use crate::attempt::exit::{MemoryState, failure_outcome};
use crate::attempt::{RunningAttempt, StepResult, failed_outcome, invalid_outcome};
use crate::executor::{HaltReason, NoMonitor};
use crate::process;
use crate::sandbox::{Confinement, StepSandbox};
use crate::settings::SandboxMode;

const DEFAULT_FILE: &str = "Containerfile";
/// Variables of the runner that buildah needs to find its configuration.
const VARIABLES: [&str; 5] =
    ["HOME", "XDG_RUNTIME_DIR", "CONTAINERS_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF"];

/// Builds the image that the step's params describe. The output `digest` is the digest in the registry or, if the image
/// is not pushed, its id.
pub(crate) fn build_image(attempt: &RunningAttempt<'_>) -> StepResult {
    let engine = require_engine(attempt)?;
    if attempt.assignment.network == Network::None {
        return Err(invalid_outcome(
            "a build needs the network for base images and `ADD`, and the step has `network: none`".into(),
        ));
    }
    let tags = read_tags(attempt)?;
    let dirs = attempt.workspace_dirs()?;
    if let Some(why) = attempt.stop_reason() {
        return Err(attempt.stopped_outcome(&why));
    }
    attempt.isolation.set(Isolation::Container);
    let storage = engine.builds.reserve(attempt.assignment);
    let storage = storage.map_err(|error| {
        StepRunOutcome::never_started(format!("cannot prepare the storage of the build: {error}"))
    })?;
    let build = ImageBuild { attempt, dirs, program: &engine.options.buildah, storage };
    let built = build.build_and_push(&tags);
    drop(build);
    engine.builds.shrink(&engine.options.buildah);
    let digest = built?;
    attempt.log.write_line(&format!("[berth] digest {digest}"));
    Ok(BTreeMap::from([("digest".to_owned(), digest)]))
}

fn read_tags(attempt: &RunningAttempt<'_>) -> Result<Vec<ImageReference>, StepRunOutcome> {
    let params = &attempt.assignment.params;
    let texts = params.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut tags = Vec::new();
    for text in texts {
        let tag = ImageReference::parse_destination(text);
        tags.push(tag.map_err(|why| invalid_outcome(format!("the tag {} {why}", quote(text))))?);
    }
    let Some(first) = tags.first() else { return Err(invalid_outcome("the param `tags` is missing".into())) };
    let has_credential = attempt.assignment.registry_credential.is_some();
    if params.contains_key("credential") && !has_credential {
        return Err(invalid_outcome("the param `credential` must be the name of a secret".into()));
    }
    if has_credential && tags.iter().any(|tag| tag.registry() != first.registry()) {
        return Err(invalid_outcome(
            "the credential is for one registry, but `tags` names several; use one step for each".into(),
        ));
    }
    Ok(tags)
}

struct ImageBuild<'a> {
    attempt: &'a RunningAttempt<'a>,
    dirs: &'a AttemptDirs,
    program: &'a Path,
    storage: BuildStorage<'a>,
}

impl ImageBuild<'_> {
    fn build_and_push(&self, tags: &[ImageReference]) -> Result<String, StepRunOutcome> {
        let context = self.path_inside("context", ".", &self.dirs.workspace)?;
        let file = self.path_inside("file", DEFAULT_FILE, &context)?;
        let inputs = BuildInputs::copy(self.dirs, &context, &file).map_err(invalid_outcome)?;
        let auth_file = self.write_auth_file(&tags[0])?;
        if self.storage.has_containers() {
            let mut command = self.command();
            command.args(["rm", "--all"]);
            self.run(command)?;
        }
        let id = self.build(&context, &inputs, &auth_file)?;
        let mut digest = id.clone();
        if flag(self.attempt, "push") {
            for tag in tags {
                digest = self.push(&id, tag, &inputs, &auth_file)?;
            }
        }
        Ok(digest)
    }

    /// Builds the image and returns its id.
    fn build(
        &self,
        context: &Path,
        inputs: &BuildInputs,
        auth_file: &Path,
    ) -> Result<String, StepRunOutcome> {
        let id_file = self.dirs.dir.join("image-id");
        let mut command = self.command();
        command.args(["build", "--force-rm", "--iidfile"]).arg(&id_file);
        command.arg(if flag(self.attempt, "cache") { "--layers" } else { "--no-cache" });
        command.arg("--ignorefile").arg(&inputs.ignore_file);
        add_registry_arguments(&mut command, inputs, auth_file);
        let args = self.attempt.assignment.params.get("build_args").and_then(Value::as_object);
        for (name, value) in args.into_iter().flatten() {
            // A name with `=` would set another argument, and a name without a value would take a variable of the runner.
            if name.is_empty() || name.contains('=') {
                return Err(invalid_outcome(format!("{} is not the name of a build argument", quote(name))));
            }
            command.arg(format!("--build-arg={name}={}", value.as_str().unwrap_or_default()));
        }
        command.arg("--file").arg(&inputs.containerfile).arg("--").arg(context);
        self.run(command)?;
        self.read_digest(&id_file)
    }

    /// Pushes the image under a tag and returns its digest in the registry.
    fn push(
        &self,
        id: &str,
        tag: &ImageReference,
        inputs: &BuildInputs,
        auth_file: &Path,
    ) -> Result<String, StepRunOutcome> {
        self.attempt.log.write_line(&format!("[berth] pushing {tag}"));
        let digest_file = self.dirs.dir.join("image-digest");
        let mut command = self.command();
        command.args(["push", "--digestfile"]).arg(&digest_file);
        add_registry_arguments(&mut command, inputs, auth_file);
        // Without a transport, buildah would look for one in the tag.
        command.arg("--").arg(id).arg(format!("docker://{tag}"));
        self.run(command)?;
        self.read_digest(&digest_file)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        self.storage.add_arguments(&mut command);
        command.env_clear().env("PATH", PATH).env("TMPDIR", &self.dirs.tmp);
        command.env("BERTH_ATTEMPT_ID", &self.dirs.id);
        command.envs(VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.current_dir(&self.dirs.workspace);
        command
    }

    /// Runs buildah until it has exited and none of its processes is left.
    fn run(&self, command: Command) -> Result<(), StepRunOutcome> {
        let attempt = self.attempt;
        let outside = Confinement::choose(SandboxMode::Off, &[], &[])
            .map_err(|error| StepRunOutcome::never_started(error.to_string()))?;
        let sandbox = StepSandbox {
            confinement: &outside,
            network: Network::Host,
            tmp: &self.dirs.tmp,
            writable: Vec::new(),
            readable: Vec::new(),
            id: &self.dirs.id,
        };
        let ended = process::run(attempt, &sandbox, command, attempt.deadline, &mut NoMonitor);
        let ended = ended.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => invalid_outcome(format!(
                "this runner has no {}, which builds images; install buildah",
                self.program.display()
            )),
            _ if attempt.has_run.get() => StepRunOutcome::Interrupted,
            _ => StepRunOutcome::never_started(format!("cannot start buildah: {error}")),
        })?;
        match ended.halt {
            Some(HaltReason::Stopped(why)) => Err(attempt.stopped_outcome(&why)),
            Some(HaltReason::TimedOut) => Err(attempt.timeout_outcome()),
            Some(HaltReason::MonitorDone) | None => {
                failure_outcome(ended.status, MemoryState::Unlimited).map_or(Ok(()), Err)
            }
        }
    }

    /// Returns the canonical path of a param, which must be inside a directory, even if it leads through symlinks.
    fn path_inside(&self, param: &str, default: &str, dir: &Path) -> Result<PathBuf, StepRunOutcome> {
        let wanted = self.attempt.text_param(param).unwrap_or(default);
        let found = dir.join(wanted).canonicalize().ok();
        let found = found.filter(|path| path.starts_with(dir));
        found.ok_or_else(|| {
            let parent = if param == "file" { "context" } else { "workspace" };
            invalid_outcome(format!("the param `{param}` is {}, which is not in the {parent}", quote(wanted)))
        })
    }

    /// Writes the logins that buildah may use, in the format of `docker login`: the step's credential, on the tmpfs for
    /// secrets, or none. Without the file, buildah would use those of the runner's user.
    fn write_auth_file(&self, tag: &ImageReference) -> Result<PathBuf, StepRunOutcome> {
        let credential = self.attempt.assignment.registry_credential.as_ref();
        let auths = match credential.map(split_credential).transpose()? {
            Some((user, password)) => {
                json!({ (tag.registry()): { "auth": STANDARD.encode(format!("{user}:{password}")) } })
            }
            None => json!({}),
        };
        let text = json!({ "auths": auths }).to_string();
        let written = self.dirs.write_task_file(self.attempt.settings(), &text, credential.is_some());
        written.map_err(|detail| failed_outcome(FailureCause::Invalid, detail))
    }

    fn read_digest(&self, path: &Path) -> Result<String, StepRunOutcome> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let digest = text.trim();
        if !is_digest(digest) {
            return Err(failed_outcome(FailureCause::Invalid, "buildah reported no digest".into()));
        }
        Ok(digest.to_owned())
    }
}

/// Allows images of registries only, with the step's credential.
fn add_registry_arguments(command: &mut Command, inputs: &BuildInputs, auth_file: &Path) {
    command.arg("--signature-policy").arg(&inputs.policy).arg("--authfile").arg(auth_file);
}

fn flag(attempt: &RunningAttempt<'_>, name: &str) -> bool {
    match attempt.assignment.params.get(name) {
        Some(Value::Bool(value)) => *value,
        // If the value comes from an expression, it is a string.
        Some(Value::String(text)) => text != "false",
        _ => true,
    }
}
