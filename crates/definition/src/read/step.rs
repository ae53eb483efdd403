//! Reads build steps and regular steps.

use std::collections::BTreeMap;

use berth_core::expression;
use berth_core::name::DisplayName;
use berth_core::pipeline::checkout::{CHECKOUT_PATHS_MAX, CheckoutScope};
use berth_core::pipeline::grammar::{ArtifactName, EnvVarName, SecretName, StepId, is_reserved};
use berth_core::pipeline::limits::{
    MAP_ENTRIES_MAX, PATH_BYTES_MAX, RETRY_ATTEMPTS_MAX, RETRY_BACKOFF_S_MAX, STEP_TIMEOUT_S_MAX,
};
use berth_core::pipeline::model::{
    Artifact, IdTokenRequest, RetryPolicy, StepCondition, StepDefinition, StepType,
};
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::registry::TypeRef;
use berth_core::step::{NetworkAccess, OnLost};
use berth_core::wording::quote;
use serde_json::{Map, Value as Json};

use super::{container, id_token};
use crate::cursor::{FieldReader, NodeCursor, ReadNode, parse_key};
use crate::report::DefinitionProblem;
use crate::step::spec::PLANNED;
use crate::step::{BUILTINS, StepSpec};
use crate::tree::YamlValue;

/// The previous step in the list, which a step without `needs` depends on.
#[derive(Default)]
pub(super) struct PreviousStep {
    id: Option<StepId>,
    count: usize,
}

pub(super) fn step(at: &NodeCursor<'_>, previous: &mut PreviousStep) -> Option<StepDefinition> {
    let fields = at.fields(&[
        "name",
        "id",
        "type",
        "needs",
        "needs_artifacts",
        "env",
        "secret_files",
        "id_token",
        "params",
        "outputs",
        "artifacts",
        "timeout",
        "retry",
        "on_lost",
        "idempotent",
        "runs_on",
        "network",
        "checkout",
        "container",
        "services",
        "if",
    ])?;
    previous.count += 1;
    let name = fields.read_required::<DisplayName>("name").or_else(|| DisplayName::parse("unnamed").ok())?;
    let id = id(&fields, &name, previous.count)?;
    let kind = fields.read_required::<StepType>("type").unwrap_or(StepType::Custom(String::new()));
    let spec = match kind {
        StepType::Builtin(builtin) => Some(StepSpec::for_type(builtin)),
        StepType::Custom(_) => None,
    };
    let idempotent = fields.read("idempotent").unwrap_or(spec.is_some_and(|spec| spec.idempotent));
    let by_nature = spec.map_or(OnLost::Ask, |spec| spec.on_lost);
    let on_lost = fields.read("on_lost").unwrap_or(if idempotent { OnLost::Retry } else { by_nature });
    let needs = match fields.get("needs") {
        Some(_) => fields.list("needs", "step ids"),
        None => previous.id.take().into_iter().collect(),
    };
    previous.id = Some(id.clone());
    let (env, secret_files) = (env(&fields), secret_files(&fields));
    for twice in secret_files.keys().filter(|name| env.contains_key(*name)) {
        let message =
            format!("the variable `{twice}` is set in `env` and in `secret_files`; keep one of them");
        fields
            .at
            .descend(&format!("/secret_files/{twice}"))
            .add_at_key(DefinitionProblem::error("duplicate_variable", message));
    }
    let id_token = id_token::read(&fields, &kind);
    let container::ContainerPart { container, network, services } = container::read(&fields, &kind);
    if let Some(IdTokenRequest { file, .. }) = &id_token
        && (env.contains_key(file) || secret_files.contains_key(file))
    {
        let message =
            format!("the variable `{file}` is also set in `env` or `secret_files`; choose another name");
        fields.at.descend("/id_token/file").error("duplicate_variable", message);
    }
    Some(StepDefinition {
        name,
        id,
        kind,
        needs,
        needs_artifacts: fields.list("needs_artifacts", "artifacts"),
        env,
        secret_files,
        id_token,
        params: params(&fields),
        outputs: fields.list("outputs", "outputs"),
        artifacts: fields
            .get("artifacts")
            .map(|at| at.named_entries("artifacts", parse_key(ArtifactName::parse), Artifact::read))
            .unwrap_or_default(),
        timeout: fields.get("timeout").and_then(|at| at.duration(1, STEP_TIMEOUT_S_MAX)),
        retry: fields.read("retry"),
        on_lost,
        idempotent,
        runs_on: fields.list("runs_on", "labels"),
        network,
        checkout: fields.read("checkout").unwrap_or_default(),
        container,
        services,
        condition: fields.get("if").and_then(|at| condition(&at)),
    })
}

/// The id of a step. If it cannot be read, a placeholder, so that other steps can still be checked.
fn id(fields: &FieldReader<'_>, name: &DisplayName, count: usize) -> Option<StepId> {
    let fallback = || StepId::parse(&format!("step-{count}")).ok();
    if fields.at.get("id").is_some() {
        return fields.read("id").or_else(fallback);
    }
    StepId::from_name(name.as_str()).or_else(|| {
        fields
            .at
            .error("missing_field", "no id can be made from this name; add an `id` of letters and digits");
        fallback()
    })
}

impl ReadNode for StepType {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let text = at.text()?;
        if let Some(spec) = StepSpec::by_name(text) {
            return Some(StepType::Builtin(spec.kind));
        }
        if TypeRef::parse(text).is_some() {
            return Some(StepType::Custom(text.to_owned()));
        }
        let problem = if PLANNED.contains(&text) {
            DefinitionProblem::error(
                "not_yet",
                format!("the step type `{text}` is not available yet; use `script` instead"),
            )
        } else {
            let problem = DefinitionProblem::error(
                "unknown_step_type",
                format!("there is no step type {}", quote(text)),
            );
            problem.with_hint(at.report(), text, BUILTINS.iter().map(|spec| spec.name))
        };
        at.add(problem);
        None
    }
}

impl ReadNode for OnLost {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.choice(&[("ask", OnLost::Ask), ("retry", OnLost::Retry), ("fail", OnLost::Fail)])
    }
}

impl ReadNode for NetworkAccess {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.choice(&NetworkAccess::ALL.map(|network| (network.as_str(), network)))
    }
}

impl ReadNode for RetryPolicy {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["attempts", "backoff"])?;
        Some(RetryPolicy {
            attempts: fields.require("attempts")?.whole_number(1, RETRY_ATTEMPTS_MAX)?,
            backoff: match fields.get("backoff") {
                Some(at) => at.duration(0, RETRY_BACKOFF_S_MAX)?,
                None => DurationSeconds::from_secs(0),
            },
        })
    }
}

impl ReadNode for Artifact {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["path"])?;
        let at = fields.require("path")?;
        let path = workspace_path(&at, "dist/")?;
        Some(Artifact { path: path.to_owned() })
    }
}

impl ReadNode for CheckoutScope {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        if matches!(at.node.value, YamlValue::Text(_)) {
            return at.choice(&[("none", ())]).map(|()| CheckoutScope::None);
        }
        let at = at.fields(&["paths"])?.require("paths")?;
        let items = at.items("paths", CHECKOUT_PATHS_MAX)?;
        let read = |at: &NodeCursor<'_>| workspace_path(at, "services/shop").map(normalize_path);
        let paths: Vec<String> = items.iter().filter_map(read).collect();
        if items.is_empty() {
            at.error(
                "missing_field",
                "name at least one path, or use `checkout: none` for an empty workspace",
            );
        }
        (!paths.is_empty()).then_some(CheckoutScope::Paths(paths))
    }
}

/// Reads a path that does not lead out of the workspace.
fn workspace_path<'a>(at: &NodeCursor<'a>, example: &str) -> Option<&'a str> {
    let path = at.text()?;
    let is_inside =
        !path.starts_with('/') && path.split('/').all(|part| part != "..") && !path.contains('\\');
    if path.is_empty() || path.len() > PATH_BYTES_MAX || !is_inside {
        at.error(
            "bad_path",
            format!("{} must be a path inside the workspace, like `{example}`", quote(path)),
        );
        return None;
    }
    Some(path)
}

/// Removes `.` and empty parts: `./services//shop/` becomes `services/shop`.
fn normalize_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Environment variables are strings: unquoted `3`, `true` and `1.10` are passed as written.
pub(super) fn env(fields: &FieldReader<'_>) -> BTreeMap<EnvVarName, String> {
    let Some(at) = fields.get("env") else { return BTreeMap::new() };
    at.named_entries("variables", variable, |at| match &at.node.value {
        YamlValue::Text(text) | YamlValue::Number { text, .. } => Some(text.clone()),
        YamlValue::Bool(value) => Some(value.to_string()),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Map(_) => {
            at.wrong_type("text");
            None
        }
    })
}

fn secret_files(fields: &FieldReader<'_>) -> BTreeMap<EnvVarName, SecretName> {
    let Some(at) = fields.get("secret_files") else { return BTreeMap::new() };
    at.named_entries("variables", variable, SecretName::read)
}

/// A reserved name gets a message of its own; the general message would suggest that the name is misspelled.
pub(super) fn variable(name: &str) -> Result<EnvVarName, DefinitionProblem> {
    if is_reserved(name) {
        let message = format!(
            "the variable {} is reserved: it could change what runs. Choose another name",
            quote(name)
        );
        return Err(DefinitionProblem::error("reserved_env_name", message));
    }
    parse_key(EnvVarName::parse)(name)
}

fn params(fields: &FieldReader<'_>) -> Map<String, Json> {
    let Some(at) = fields.get("params") else { return Map::new() };
    let entries = at.entries("params", MAP_ENTRIES_MAX).unwrap_or_default();
    entries.into_iter().map(|(key, value)| (key.to_owned(), json(&value))).collect()
}

fn json(at: &NodeCursor<'_>) -> Json {
    match &at.node.value {
        YamlValue::Null => Json::Null,
        YamlValue::Bool(value) => Json::Bool(*value),
        YamlValue::Number { value, .. } => Json::Number(value.clone()),
        YamlValue::Text(text) => Json::String(text.clone()),
        YamlValue::List(_) => Json::Array(at.children().iter().map(json).collect()),
        YamlValue::Map(entries) => entries
            .iter()
            .map(|entry| entry.key.clone())
            .zip(at.children().iter().map(json))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// `if: vars.x == 'y'` and `if: ${{ vars.x == 'y' }}` are equivalent. A plain boolean is also allowed.
fn condition(at: &NodeCursor<'_>) -> Option<StepCondition> {
    let text = match &at.node.value {
        YamlValue::Bool(value) => return Some(StepCondition(value.to_string())),
        _ => at.raw_text()?,
    };
    Some(StepCondition(expression::condition(text).to_owned()))
}
