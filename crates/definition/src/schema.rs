//! JSON Schema of the definition format, for completion and validation in editors.
//!
//! The schema accepts everything that the parser accepts, and more: it cannot express references, time zones or globs.
//! A test compares its fields with the fields that the parser reads.

use berth_core::access::Role;
use berth_core::pipeline::checkout::CHECKOUT_PATHS_MAX;
use berth_core::pipeline::container::{ImagePullPolicy, SERVICE_READY_S_MAX, SERVICES_MAX};
use berth_core::pipeline::limits::{
    APPROVALS_MAX, AUDIENCE_CHARS_MAX, DURATION_S_MAX, ENVIRONMENTS_MAX, LIST_ITEMS_MAX, MAP_ENTRIES_MAX,
    NAME_CHARS_MAX, NOTIFICATIONS_MAX, RETRY_ATTEMPTS_MAX, RETRY_BACKOFF_S_MAX, SECRET_NAME_CHARS_MAX,
    STAGES_MAX, STEP_TIMEOUT_S_MAX, STEPS_MAX,
};
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::pipeline::window::WindowDay;
use berth_core::step::NetworkAccess;
use serde_json::{Map, Value, json};

use crate::step::{BUILTINS, StepSpec};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
/// A duration such as `90s`, `10m` or `1h30m`: at least one unit, larger units first.
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
const TEMPLATE: &str = r"\$\{\{";
const ID: &str = "^[a-z0-9][a-z0-9_-]*$";
const MEMBER: &str = "^[A-Za-z_][A-Za-z0-9_-]*$";
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const LABEL: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const SLUG: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// The schema, in JSON Schema draft 2020-12.
pub fn schema() -> Value {
    json!({
        "$schema": DRAFT,
        "title": "Berth pipeline",
        "description": "A pipeline definition, usually at .berth/<slug>/pipeline.yaml.",
        "type": "object",
        "additionalProperties": false,
        "required": ["version", "pipeline"],
        "properties": {
            "version": { "const": 1, "description": "Version of the format." },
            "pipeline": { "$ref": "#/$defs/pipeline" },
        },
        "$defs": {
            "pipeline": pipeline(),
            "stage_defaults": stage_defaults(),
            "stage": stage(),
            "step": step(),
            "environment": environment(),
            "requires": requires(),
            "window": window(),
            "vars": vars(),
            "skip": list(&word(ID), "Ids of steps to skip here."),
            "on_failure": with_default("none", choice(&["none", "rollback"], "What to do if the stage fails. `rollback` rolls back to the last successful deployment of the stage.")),
            "duration": { "type": "string", "pattern": DURATION, "description": "A duration, such as 90s, 10m, 1h30m or 7d." },
        },
    })
}

fn pipeline() -> Value {
    let steps = |about: &str| json!({ "type": "array", "maxItems": STEPS_MAX, "items": reference("step"), "description": about });
    let mut schema = object(
        "What to build, where to deploy it and how.",
        &json!({
            "name": text("Display name."),
            "tracks": text("Branch whose new commits start deployments."),
            "paths": list(&json!({ "type": "string" }), "Globs from the root of the repository. A new commit starts a deployment only if a matching file changed."),
            "build": steps("Runs once per commit and definition; its outputs and artifacts are used by every stage and environment."),
            "stage_defaults": reference("stage_defaults"),
            "stages": {
                "type": "array", "maxItems": STAGES_MAX, "items": reference("stage"),
                "description": "Stages in order. Each runs the same steps with its own `vars` and `skip`.",
            },
            "steps": steps("Steps that every stage and environment runs."),
            "ephemeral_environments": {
                "type": "object", "maxProperties": ENVIRONMENTS_MAX, "propertyNames": word(SLUG),
                "additionalProperties": { "anyOf": [reference("environment"), { "type": "null" }] },
                "description": "Ephemeral environments by name. Members claim them for exclusive use.",
            },
            "analysis": object("Which failures are analysed automatically.", &json!({ "on_failure": with_default(false, flag("Failed deployments are analysed.")) })),
            "notifications": {
                "type": "array", "maxItems": NOTIFICATIONS_MAX,
                "items": with_required(object("Webhooks to notify.", &json!({
                    "webhook": with_description(word(LABEL), "Name of the webhook."),
                    "events": list(&json!({ "type": "string" }), "Event kinds, such as deployment_failed."),
                })), &["webhook", "events"]),
                "description": "Webhooks to notify.",
            },
        }),
    );
    schema["anyOf"] = json!([{ "required": ["stages"] }, { "required": ["ephemeral_environments"] }]);
    with_required(schema, &["name", "steps"])
}

fn stage_defaults() -> Value {
    object(
        "Defaults for all stages. Do not apply to environments.",
        &json!({
            "vars": reference("vars"),
            "requires": reference("requires"),
            "window": reference("window"),
            "on_failure": reference("on_failure"),
        }),
    )
}

fn stage() -> Value {
    let fields = json!({
        "name": with_description(word(SLUG), "Name of the stage."),
        "vars": reference("vars"),
        "skip": reference("skip"),
        "requires": reference("requires"),
        "window": reference("window"),
        "on_failure": reference("on_failure"),
    });
    with_required(object("A stage of the pipeline.", &fields), &["name"])
}

fn environment() -> Value {
    let on = |kinds: &[&str]| choice(kinds, "Event that triggers it.");
    object(
        "An ephemeral environment.",
        &json!({
            "triggers": list(&with_required(object("What can claim the environment, in addition to the API.", &json!({
                "on": on(&["api", "pull_request"]),
                "target_branches": list(&json!({ "type": "string" }), "Target branches of the pull requests. Defaults to any."),
                "when": object("For `pull_request`: which pull requests claim the environment. Defaults to all.", &json!({
                    "labels": list(&json!({ "type": "string" }), "Labels that the pull request must have, all of them."),
                    "draft": flag("`false` leaves out drafts; `true` selects only drafts."),
                })),
            })), &["on"]), "What can claim the environment, in addition to the API."),
            "release": list(&with_required(object("What ends a session, in addition to the API.", &json!({
                "on": on(&["api", "pr_closed", "timeout"]),
                "after_idle": duration(DURATION_S_MAX, "For `timeout`: time without a deployment after which the session ends."),
            })), &["on"]), "What ends a session, in addition to the API."),
            "on_release": with_default("none", choice(&["none", "deploy_tracked"], "What to do when a session ends.")),
            "ttl": duration(DURATION_S_MAX, "Default length of a session."),
            "labels": list(&word(LABEL), "Labels that `claim-any` selects environments by."),
            "owner": { "type": "string", "pattern": "^team:[a-z0-9]", "description": "Team that is responsible for the environment (`team:qa`). Its members are notified when a claim has to wait." },
            "queue": object("In which order waiting claims are granted.", &json!({
                "order": with_default("arrival", choice(&["arrival", "class"], "`class`: people before CI (service accounts), CI before agents, and by arrival within each.")),
                "ageing": with_default("30m", duration(DURATION_S_MAX, "For `class`: a waiting claim moves up a class each time it has waited for this long.")),
            })),
            "vars": reference("vars"),
            "skip": reference("skip"),
        }),
    )
}

fn requires() -> Value {
    object(
        "Approvals required before the stage starts.",
        &json!({
            "approvals": { "type": "integer", "minimum": 1, "maximum": APPROVALS_MAX, "default": 1, "description": "Number of people who must approve." },
            "from": list(
                &json!({ "anyOf": [{ "enum": Role::ALL.map(Role::as_str) }, { "type": "string", "pattern": "^team:[a-z0-9]|@" }] }),
                "Eligible roles, teams (`team:sre`) and e-mail addresses. Defaults to every member who may approve.",
            ),
            "self_approval": with_default(true, flag("Whether people who wrote, committed or co-authored part of the change, or started or retried the deployment, may approve it.")),
            "timeout": duration(DURATION_S_MAX, "How long to wait for the approvals."),
        }),
    )
}

fn window() -> Value {
    let fields = json!({
        "timezone": text("IANA time zone, such as Europe/Vienna."),
        "days": list(&json!({ "enum": WindowDay::ALL.map(|(name, _)| name) }), "Defaults to every day."),
        "hours": { "type": "string", "pattern": "^[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}$", "description": "Like \"09:00-17:00\"; defaults to the whole day." },
        "except": list(
            &json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}(/[0-9]{4}-[0-9]{2}-[0-9]{2})?$" }),
            "Days on which the window stays closed: 2026-12-24 or 2026-12-24/2027-01-01.",
        ),
    });
    with_required(object("When the stage may be deployed to.", &fields), &["timezone"])
}

fn vars() -> Value {
    json!({
        "type": "object", "maxProperties": MAP_ENTRIES_MAX, "propertyNames": word(MEMBER),
        "additionalProperties": { "type": ["string", "number", "boolean"] },
        "description": "Values for ${{ vars.<name> }}.",
    })
}

fn step() -> Value {
    let variables = |value: &Value, about: &str| {
        json!({
            "type": "object", "maxProperties": MAP_ENTRIES_MAX, "propertyNames": word(VARIABLE),
            "additionalProperties": value, "description": about,
        })
    };
    let mut types: Vec<Value> =
        BUILTINS.iter().map(|spec| json!({ "const": spec.name, "description": spec.summary })).collect();
    types.push(json!({
        "type": "string", "pattern": "(/|^[Cc][Uu][Ss][Tt][Oo][Mm]:)",
        "description": "A step of a registry: <registry>/<step> or CUSTOM:<TYPE>.",
    }));
    let fields = json!({
        "name": text("Display name."),
        "id": with_description(word(ID), "Id that other steps refer to. Defaults to the name as a slug."),
        "type": { "anyOf": types, "description": "Step type." },
        "needs": list(&word(ID), "Ids of steps to wait for. Defaults to the previous step."),
        "needs_artifacts": list(&word(MEMBER), "Artifacts of other steps to place in the workspace."),
        "env": variables(&json!({ "type": ["string", "number", "boolean"] }), "Environment variables. Values may contain ${{ … }}."),
        "secret_files": variables(&json!({ "type": "string", "maxLength": SECRET_NAME_CHARS_MAX, "pattern": VARIABLE }), "Secret names by variable. The variable holds the path of a file with the secret."),
        "id_token": with_required(object("An ID token that other services accept instead of a stored credential.", &json!({
            "audience": { "type": "string", "minLength": 1, "maxLength": AUDIENCE_CHARS_MAX, "pattern": "^[!-~]+$", "description": "The service that the token is for, without expressions." },
            "file": with_description(word(VARIABLE), "Variable that holds the path of a file with the token."),
        })), &["audience", "file"]),
        "params": { "type": "object", "maxProperties": MAP_ENTRIES_MAX, "description": "Parameters of the step type." },
        "outputs": list(&word(MEMBER), "Names of outputs that the step writes to $BERTH_OUTPUT as name=value."),
        "artifacts": {
            "type": "object", "maxProperties": MAP_ENTRIES_MAX, "propertyNames": word(MEMBER),
            "additionalProperties": with_required(object("A file or directory that other steps use with `needs_artifacts`.", &json!({ "path": text("Path below the workspace.") })), &["path"]),
            "description": "Artifacts for other steps.",
        },
        "timeout": duration(STEP_TIMEOUT_S_MAX, "Time limit, after which the step fails."),
        "retry": with_required(object("Retries after a failure. For an unknown outcome, see `on_lost`.", &json!({
            "attempts": { "type": "integer", "minimum": 1, "maximum": RETRY_ATTEMPTS_MAX, "description": "Maximum number of attempts, including the first." },
            "backoff": duration(RETRY_BACKOFF_S_MAX, "Delay before the next attempt."),
        })), &["attempts"]),
        "on_lost": choice(&["ask", "retry", "fail"], "What to do if the outcome is unknown. Defaults to `retry` if the step is idempotent, otherwise to the default of the step type."),
        "idempotent": flag("Whether the step is safe to run again, so that a lost attempt is retried. Defaults to the step type."),
        "runs_on": list(&word(LABEL), "Labels that the runner must have."),
        "container": with_required(object("The container that the step runs in.", &json!({
            "image": image("Image, such as node:22. May contain ${{ … }}. All attempts of a deployment use the same digest."),
            "user": { "type": ["string", "integer"], "description": "User in the container, as a name or as uid:gid. Defaults to the image's user." },
            "network": with_default("bridge", choice(&NetworkAccess::OF_CONTAINERS.map(NetworkAccess::as_str), "`bridge` for a network of its own, `none` for loopback only, `host` for the network of the runner's machine, which the runner must allow. Defaults to `none` if the organization's default is `none`.")),
            "memory": { "type": "string", "pattern": "^[0-9]+(KiB|MiB|GiB)$", "description": "Memory limit, such as 512MiB." },
            "cpus": { "type": "number", "minimum": 0.01, "maximum": 1024, "description": "CPU limit." },
            "pull": with_default("if_missing", choice(&ImagePullPolicy::ALL.map(|(name, _)| name), "When to pull the image.")),
            "credential": { "type": "string", "maxLength": SECRET_NAME_CHARS_MAX, "pattern": VARIABLE, "description": "Name of the secret for the image's registry: `USER:PASSWORD`." },
        })), &["image"]),
        "services": {
            "type": "object", "maxProperties": SERVICES_MAX, "propertyNames": word("^[a-z][a-z0-9-]*$"),
            "additionalProperties": with_required(object("A container next to the step, reachable under its name.", &json!({
                "image": image("Image of the service. May contain ${{ … }}."),
                "env": variables(&json!({ "type": ["string", "number", "boolean"] }), "Environment variables. Values may contain ${{ … }}."),
                "ready": with_required(object("When the step may start.", &json!({
                    "tcp": { "type": "integer", "minimum": 1, "maximum": u16::MAX, "description": "Port that must accept connections." },
                    "within": with_default("1m", duration(SERVICE_READY_S_MAX, "Time limit, after which the step fails.")),
                })), &["tcp"]),
            })), &["image"]),
            "description": "Services of a step in a container, such as a database.",
        },
        "network": choice(&NetworkAccess::ALL.map(NetworkAccess::as_str), "Network access: `host` for the network of the runner's machine, `none` for loopback only. Defaults to the organization's setting."),
        "checkout": {
            "anyOf": [choice(&["none"], "An empty workspace."), with_required(object("Only some files.", &json!({
                "paths": { "type": "array", "minItems": 1, "maxItems": CHECKOUT_PATHS_MAX, "items": { "type": "string" }, "description": "Files and directories, relative to the root of the repository." },
            })), &["paths"])],
            "description": "Which files of the commit are in the workspace: `none`, or `paths: [services/shop]`. Defaults to all.",
        },
        "if": { "type": ["string", "boolean"], "description": "An expression. The step is skipped if it is false." },
    });
    let mut schema = with_required(object("A step.", &fields), &["name", "type"]);
    schema["allOf"] = BUILTINS.iter().map(|spec| params(spec)).collect();
    schema
}

/// The schema of `params`, which applies only to this step type.
fn params(spec: &StepSpec) -> Value {
    let mut schema: Value = serde_json::from_str(spec.schema).unwrap_or_else(|_| json!({}));
    allow_expressions(&mut schema);
    let mut then = json!({ "properties": { "params": schema } });
    let wanted = then["properties"]["params"]["required"].as_array().is_some_and(|names| !names.is_empty());
    if wanted {
        then["required"] = json!(["params"]);
    }
    json!({ "if": { "properties": { "type": { "const": spec.name } }, "required": ["type"] }, "then": then })
}

/// Replaces Berth's own formats with patterns, and allows an expression in place of every value except shell scripts
/// (`run`).
fn allow_expressions(schema: &mut Value) {
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    for (name, property) in properties.iter_mut() {
        formats(property);
        if name != "run" {
            let about = property["description"].take();
            if let Some(fields) = property.as_object_mut() {
                fields.remove("description");
            }
            let template = json!({ "type": "string", "pattern": TEMPLATE });
            *property = json!({ "anyOf": [property.take(), template], "description": about });
        }
    }
}

fn formats(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    match fields.remove("format").as_ref().and_then(Value::as_str) {
        Some("berth-duration") => {
            fields.insert("pattern".into(), DURATION.into());
        }
        Some("berth-url") => {
            fields.insert("pattern".into(), "^https?://".into());
        }
        _ => {}
    }
    if let Some(items) = fields.get_mut("items") {
        formats(items);
    }
}

fn object(about: &str, properties: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "description": about })
}

fn with_required(mut schema: Value, names: &[&str]) -> Value {
    schema["required"] = json!(names);
    schema
}

fn list(items: &Value, about: &str) -> Value {
    json!({ "type": "array", "maxItems": LIST_ITEMS_MAX, "items": items, "description": about })
}

fn word(pattern: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX, "pattern": pattern })
}

fn with_description(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": about })
}

fn image(about: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "pattern": "^[^-\\s]", "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

fn choice(words: &[&str], about: &str) -> Value {
    json!({ "enum": words, "description": about })
}

/// The schema of a duration. A pattern cannot express its maximum, so the description states it.
fn duration(seconds_max: u64, about: &str) -> Value {
    with_description(
        reference("duration"),
        &format!("{about} At most {}.", DurationSeconds::from_secs(seconds_max)),
    )
}

fn with_default(default: impl Into<Value>, mut schema: Value) -> Value {
    schema["default"] = default.into();
    schema
}

fn reference(name: &str) -> Value {
    let fields: Map<String, Value> =
        [("$ref".to_owned(), format!("#/$defs/{name}").into())].into_iter().collect();
    Value::Object(fields)
}
