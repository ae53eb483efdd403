//! Builds assignments. An assignment contains everything a runner needs to execute an attempt, with all expressions
//! evaluated. This is the only module that combines the plan, step outputs and secret values.

use std::collections::BTreeMap;

use berth_api::runner::{
    AttemptAssignment, AttemptRef, CallInput, ContainerAssignment, CustomCall, HolderFence, ImagePull,
    SecretText, ServiceAssignment,
};
use berth_core::deployment::run::SourceCommit;
use berth_core::expression::{Context, ExpressionContexts, fill, fill_value, references, templates};
use berth_core::pipeline::container::{
    ContainerOptions, CpuLimit, ImagePullPolicy, MemoryLimit, SERVICE_READY_S, StepServices,
};
use berth_core::pipeline::model::StepType;
use berth_core::registry::{InputMode, PinnedStep};
use serde_json::{Map, Value};

use super::grant::GrantedAttempt;
use crate::wire::network;

/// Builds the assignment of a granted attempt. The error text is shown to users; it says why the step cannot start and
/// contains no secret values.
pub(super) fn assign(granted: &GrantedAttempt) -> Result<AttemptAssignment, String> {
    let step = &granted.run.steps[granted.at];
    let planned = &granted.plan.stages[step.stage].steps[step.index];
    let texts = planned.templates();
    let contexts = contexts(granted, &texts);
    let mut env = BTreeMap::new();
    for (name, text) in &planned.env {
        let value = fill(text, &contexts).map_err(|error| format!("env {name}: {error}"))?;
        env.insert(name.to_string(), value);
    }
    let params = fill_value(&Value::Object(planned.params.clone()), &contexts);
    let params = match params.map_err(|error| format!("params: {error}"))? {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    let mut secret_files = BTreeMap::new();
    for (name, secret) in &planned.secret_files {
        let value = granted.secrets.get(secret).ok_or_else(|| format!("there is no secret {secret}"))?;
        secret_files.insert(name.to_string(), SecretText::new(value.reveal().to_owned()));
    }
    let registry_credential = planned
        .registry_credential()
        .map(|name| granted.secrets.get(&name).ok_or_else(|| format!("there is no secret {name}")))
        .transpose()?;
    let kubeconfig = planned
        .kubeconfig()
        .map(|name| granted.secrets.get(&name).ok_or_else(|| format!("there is no secret {name}")))
        .transpose()?;
    let container =
        planned.container.as_ref().map(|it| container(it, &planned.services, &contexts)).transpose()?;
    let mut masked: Vec<_> = granted.secrets.values().map(|value| value.reveal().to_owned()).collect();
    // Also mask the values that expressions derive from secrets.
    for text in texts {
        masked.extend(secret_values(text, &contexts));
    }
    masked.sort_unstable();
    masked.dedup();
    Ok(AttemptAssignment {
        attempt: AttemptRef {
            organization_id: granted.org.to_string(),
            deployment_id: granted.run.deployment.to_string(),
            step_id: step.id.to_string(),
            number: granted.attempt.number,
            nonce: granted.attempt.nonce.clone(),
        },
        step: step.step.to_string(),
        step_name: planned.name.clone(),
        kind: match &planned.kind {
            StepType::Builtin(builtin) => builtin.as_str().to_owned(),
            StepType::Custom(text) => text.clone(),
        },
        custom: planned.custom.as_ref().map(|pinned| call(granted, pinned)),
        params,
        env,
        secret_files,
        masked: masked.into_iter().map(SecretText::new).collect(),
        facts: granted.facts.clone(),
        outputs: planned.outputs.iter().map(ToString::to_string).collect(),
        artifacts: planned.artifacts.iter().map(|(name, it)| (name.to_string(), it.path.clone())).collect(),
        needs_artifacts: planned.needs_artifacts.iter().map(ToString::to_string).collect(),
        has_source: granted.plan.source.is_some() && !planned.checkout.is_none(),
        source_key: granted.plan.source.as_ref().map(|source| source_key(source, granted.is_untrusted)),
        source_paths: planned.checkout.paths().to_vec(),
        timeout_s: remaining_seconds(granted),
        network: network(planned.network),
        granted_ms_ago: granted_ms_ago(granted),
        holder: granted.holder.map(|(environment, fence)| HolderFence {
            environment_id: environment.to_string(),
            fence: fence.number(),
            session_id: granted.facts.get("BERTH_SESSION_ID").cloned(),
        }),
        container,
        registry_credential: registry_credential.map(|value| SecretText::new(value.reveal().to_owned())),
        kubeconfig: kubeconfig.map(|value| SecretText::new(value.reveal().to_owned())),
        is_untrusted: granted.is_untrusted,
    })
}

/// Returns what the files of a checkout depend on. Those of untrusted commits lack submodules that need a credential.
fn source_key(source: &SourceCommit, is_untrusted: bool) -> String {
    let trust = if is_untrusted { "untrusted" } else { "trusted" };
    format!("{}/{}/{trust}", source.repository, source.commit)
}

fn container(
    options: &ContainerOptions,
    services: &StepServices,
    contexts: &ExpressionContexts,
) -> Result<ContainerAssignment, String> {
    let image = |text: &str, what: &str| fill(text, contexts).map_err(|error| format!("{what}: {error}"));
    let mut assigned = BTreeMap::new();
    for (name, service) in services {
        let mut env = BTreeMap::new();
        for (variable, text) in &service.env {
            let value = fill(text, contexts);
            let value = value.map_err(|error| format!("services {name} env {variable}: {error}"))?;
            env.insert(variable.to_string(), value);
        }
        let service = ServiceAssignment {
            image: image(&service.image, &format!("services {name} image"))?,
            env,
            ready_port: service.ready.as_ref().map(|ready| ready.tcp),
            ready_within_s: service.ready.as_ref().map_or(SERVICE_READY_S, |ready| ready.within.as_secs()),
        };
        assigned.insert(name.to_string(), service);
    }
    Ok(ContainerAssignment {
        image: image(&options.image, "container image")?,
        pull: match options.pull {
            ImagePullPolicy::IfMissing => ImagePull::IfMissing,
            ImagePullPolicy::Always => ImagePull::Always,
            ImagePullPolicy::Never => ImagePull::Never,
        },
        user: options.user.clone(),
        memory_bytes: options.memory.map(MemoryLimit::as_bytes),
        milli_cpus: options.cpus.map(CpuLimit::as_milli),
        services: assigned,
    })
}

/// Returns the values that expressions in `texts` may refer to. If there are no expressions, returns an empty map,
/// which avoids collecting the outputs of all previous steps.
fn contexts(granted: &GrantedAttempt, texts: &[&str]) -> ExpressionContexts {
    let has_some = |text: &&str| templates(text).map_or(true, |found| !found.is_empty());
    if !texts.iter().any(has_some) {
        return ExpressionContexts::default();
    }
    let stage = granted.run.steps[granted.at].stage;
    let mut contexts = granted.plan.contexts_for(&granted.run, stage);
    let secrets = granted.secrets.iter();
    let revealed: Map<String, Value> =
        secrets.map(|(name, value)| (name.to_string(), value.reveal().into())).collect();
    contexts.insert("secrets".into(), Value::Object(revealed));
    contexts
}

/// Returns the remaining part of the step's timeout. A custom step may be called several times within one attempt, and
/// all its calls share the timeout.
fn remaining_seconds(granted: &GrantedAttempt) -> u64 {
    let step = &granted.run.steps[granted.at];
    let left = match &step.memory {
        Some(memory) => memory.by.seconds_since(granted.now),
        None => granted.plan.step(step).timeout_seconds(),
    };
    left.max(1).unsigned_abs()
}

/// Returns the milliseconds since the grant. Returns zero for the second and later calls of an attempt, because only
/// the first call's grant time is recorded.
fn granted_ms_ago(granted: &GrantedAttempt) -> u64 {
    let micros = granted.now.as_micros() - granted.attempt.granted_at.as_micros();
    if granted.attempt.calls > 1 { 0 } else { u64::try_from(micros / 1_000).unwrap_or(0) }
}

fn call(granted: &GrantedAttempt, pinned: &PinnedStep) -> CustomCall {
    let memory = granted.run.steps[granted.at].memory.as_ref();
    CustomCall {
        digest: pinned.digest.clone(),
        start: pinned.start.clone(),
        input: match pinned.input {
            InputMode::Argument => CallInput::Argument,
            InputMode::File => CallInput::File,
        },
        step_type: pinned.step_type.clone(),
        polling_state: memory.and_then(|memory| memory.state.clone()),
        approved_by: memory.and_then(|memory| memory.approved_by.clone()),
        log_bytes: 0,
    }
}

/// Returns the values of all expressions in `text` that reference a secret.
fn secret_values(text: &str, contexts: &ExpressionContexts) -> Vec<String> {
    let found = templates(text).unwrap_or_default();
    let mentions = |inner: &str| {
        let references = references(inner).unwrap_or_default();
        references.iter().any(|reference| reference.context == Context::Secrets)
    };
    let secret = found.into_iter().filter(|template| mentions(&text[template.inner.clone()]));
    let values = secret.filter_map(|template| fill(&text[template.whole], contexts).ok());
    // A comparison with a secret evaluates to `true` or `false`. Masking these words would garble the log.
    values.filter(|value| !matches!(value.as_str(), "" | "true" | "false")).collect()
}
