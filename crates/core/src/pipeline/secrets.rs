//! Which secrets a definition uses, and where. Whether those secrets exist is checked by the server.

use serde::Serialize;
use serde_json::{Map, Value};

use super::container::ContainerOptions;
use super::grammar::{SecretName, StepId};
use super::model::{PipelineDefinition, StepDefinition, StepType};
use crate::expression::{self, Context};
use crate::step::BuiltinStepType;
use crate::wording::escape_pointer;

/// The param of `kubernetes_apply` that names a secret.
pub(crate) const KUBECONFIG: &str = "kubeconfig";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SecretUse {
    pub name: SecretName,
    pub phase: StepPhase,
    pub step: StepId,
    /// JSON pointer to the value that uses the secret; see `berth_definition::diagnostics_at`.
    pub pointer: String,
}

/// When a step runs: build steps once per commit, other steps in every stage and environment that does not skip them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    Build,
    Stages,
}

impl PipelineDefinition {
    /// All uses of secrets, sorted by the secret's name.
    pub fn secrets_used(&self) -> Vec<SecretUse> {
        let mut uses = Vec::new();
        for (phase, field, steps) in
            [(StepPhase::Build, "build", &self.build), (StepPhase::Stages, "steps", &self.steps)]
        {
            for (index, step) in steps.iter().enumerate() {
                let found = secrets_in_step(step, &format!("/pipeline/{field}/{index}"));
                uses.extend(found.into_iter().map(|(name, pointer)| SecretUse {
                    name,
                    phase,
                    step: step.id.clone(),
                    pointer,
                }));
            }
        }
        uses.sort();
        uses.dedup();
        uses
    }
}

fn secrets_in_step(step: &StepDefinition, pointer: &str) -> Vec<(SecretName, String)> {
    let mut found: Vec<_> = step
        .secret_files
        .iter()
        .map(|(variable, secret)| (secret.clone(), format!("{pointer}/secret_files/{variable}")))
        .collect();
    for (variable, value) in &step.env {
        collect_from_text(value, &format!("{pointer}/env/{variable}"), &mut found);
    }
    for (name, value) in &step.params {
        collect_from_value(value, &format!("{pointer}/params/{}", escape_pointer(name)), &mut found);
    }
    if let Some(container) = &step.container {
        collect_from_text(&container.image, &format!("{pointer}/container/image"), &mut found);
    }
    for (service, it) in &step.services {
        let pointer = format!("{pointer}/services/{service}");
        collect_from_text(&it.image, &format!("{pointer}/image"), &mut found);
        for (variable, value) in &it.env {
            collect_from_text(value, &format!("{pointer}/env/{variable}"), &mut found);
        }
    }
    if let Some(credential) = registry_credential(&step.kind, &step.params, step.container.as_ref()) {
        let part = if step.container.is_some() { "container" } else { "params" };
        found.push((credential, format!("{pointer}/{part}/credential")));
    }
    let kubeconfig = kubeconfig(&step.kind, &step.params);
    found.extend(kubeconfig.map(|secret| (secret, format!("{pointer}/params/{KUBECONFIG}"))));
    found
}

/// The secret that registries ask for: `container.credential`, or the param `credential` of an `image_build`.
pub(crate) fn registry_credential(
    kind: &StepType,
    params: &Map<String, Value>,
    container: Option<&ContainerOptions>,
) -> Option<SecretName> {
    match (container, kind) {
        (Some(container), _) => container.credential.clone(),
        (None, StepType::Builtin(BuiltinStepType::ImageBuild)) => {
            SecretName::parse(params.get("credential")?.as_str()?).ok()
        }
        (None, _) => None,
    }
}

/// The secret with the credentials of a `kubernetes_apply`.
pub(crate) fn kubeconfig(kind: &StepType, params: &Map<String, Value>) -> Option<SecretName> {
    match kind {
        StepType::Builtin(BuiltinStepType::KubernetesApply) => {
            SecretName::parse(params.get(KUBECONFIG)?.as_str()?).ok()
        }
        StepType::Builtin(_) | StepType::Custom(_) => None,
    }
}

/// The recursion is bounded because the depth of the YAML is limited.
fn collect_from_value(value: &Value, pointer: &str, found: &mut Vec<(SecretName, String)>) {
    match value {
        Value::String(text) => collect_from_text(text, pointer, found),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_from_value(item, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_from_value(value, &format!("{pointer}/{}", escape_pointer(name)), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(crate) fn collect_from_text(text: &str, pointer: &str, found: &mut Vec<(SecretName, String)>) {
    for template in expression::templates(text).unwrap_or_default() {
        let references = expression::references(&text[template.inner]).unwrap_or_default();
        let secrets = references.iter().filter(|reference| reference.context == Context::Secrets);
        let names = secrets.filter_map(|reference| SecretName::parse(reference.member(0)?).ok());
        found.extend(names.map(|name| (name, pointer.to_owned())));
    }
}
