//! JSON Schema of the definition, for completion and validation in editors.
//!
//! It accepts everything that the checks accept and more: references, time zones and globs cannot be expressed in a
//! schema. A test compares its fields with those the parser reads.

use berth_core::access::Role;
use berth_core::pipeline::limits::{
    APPROVALS_MAX, DURATION_S_MAX, ENVIRONMENTS_MAX, LIST_ITEMS_MAX, MAP_ENTRIES_MAX, NAME_CHARS_MAX,
    NOTIFICATIONS_MAX, RETRY_ATTEMPTS_MAX, RETRY_BACKOFF_S_MAX, SECRET_NAME_CHARS_MAX, STAGES_MAX,
    STEP_TIMEOUT_S_MAX, STEPS_MAX,
};
use berth_core::pipeline::seconds::Seconds;
use berth_core::pipeline::window::Day;
use berth_core::step::Network;
use serde_json::{Map, Value, json};

use crate::step::{BUILTINS, StepSpec};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
/// `90s`, `10m`, `1h30m`: at least one unit, larger units first.
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
const TEMPLATE: &str = r"\$\{\{";
const ID: &str = "^[a-z0-9][a-z0-9_-]*$";
const MEMBER: &str = "^[A-Za-z_][A-Za-z0-9_-]*$";
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const LABEL: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const SLUG: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// The schema, in draft 2020-12.
pub fn schema() -> Value {
    json!({
        "$schema": DRAFT,
        "title": "Berth pipeline",
        "description": "A pipeline definition, usually at .berth/<slug>/pipeline.yaml.",
        "type": "object",
        "additionalProperties": false,
        "required": ["version", "pipeline"],
        "properties": {
            "version": { "const": 1, "description": "Of the format." },
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
            "skip": list(&word(ID), "Ids of steps that are left out here."),
            "on_failure": usual("none", choice(&["none", "rollback"], "What happens when the stage fails: `rollback` goes back to the last deployment that succeeded there.")),
            "duration": { "type": "string", "pattern": DURATION, "description": "A length of time: 90s, 10m, 1h30m, 7d." },
        },
    })
}

fn pipeline() -> Value {
    let steps = |about: &str| json!({ "type": "array", "maxItems": STEPS_MAX, "items": reference("step"), "description": about });
    let mut schema = object(
        "What is built, where it goes and how.",
        &json!({
            "name": text("The name for people."),
            "tracks": text("The branch whose new heads start deployments."),
            "paths": list(&json!({ "type": "string" }), "Globs from the root of the repository: a head starts a deployment only when one of these changed."),
            "build": steps("Runs once per commit and definition; its outputs and artifacts serve every stage and environment."),
            "stage_defaults": reference("stage_defaults"),
            "stages": {
                "type": "array", "maxItems": STAGES_MAX, "items": reference("stage"),
                "description": "In order; each runs the same steps with its own vars and skips.",
            },
            "steps": steps("What every stage and environment runs."),
            "ephemeral_environments": {
                "type": "object", "maxProperties": ENVIRONMENTS_MAX, "propertyNames": word(SLUG),
                "additionalProperties": { "anyOf": [reference("environment"), { "type": "null" }] },
                "description": "Environments that people claim for a while, by name.",
            },
            "analysis": object("What is looked into by itself.", &json!({ "on_failure": usual(false, flag("Failed deployments are analysed.")) })),
            "notifications": {
                "type": "array", "maxItems": NOTIFICATIONS_MAX,
                "items": required(object("Who is told of what.", &json!({
                    "webhook": described(word(LABEL), "The name of the webhook."),
                    "events": list(&json!({ "type": "string" }), "Kinds of events, like deployment_failed."),
                })), &["webhook", "events"]),
                "description": "Who is told of what.",
            },
        }),
    );
    schema["anyOf"] = json!([{ "required": ["stages"] }, { "required": ["ephemeral_environments"] }]);
    required(schema, &["name", "steps"])
}

fn stage_defaults() -> Value {
    object(
        "What every stage has that does not say otherwise. Not for environments.",
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
        "name": described(word(SLUG), "The name of the stage."),
        "vars": reference("vars"),
        "skip": reference("skip"),
        "requires": reference("requires"),
        "window": reference("window"),
        "on_failure": reference("on_failure"),
    });
    required(object("A place that deployments pass through.", &fields), &["name"])
}

fn environment() -> Value {
    let on = |kinds: &[&str]| choice(kinds, "What happened.");
    object(
        "An environment that people claim for a while.",
        &json!({
            "triggers": list(&required(object("What claims it; the API always does.", &json!({
                "on": on(&["api", "pull_request"]),
                "target_branches": list(&json!({ "type": "string" }), "Pull requests into these; any when left out."),
            })), &["on"]), "What claims it; the API always does."),
            "release": list(&required(object("What ends a session; the API always does.", &json!({
                "on": on(&["api", "pr_closed", "timeout"]),
                "after_idle": duration(DURATION_S_MAX, "For `timeout`: how long nothing was deployed."),
            })), &["on"]), "What ends a session; the API always does."),
            "on_release": usual("none", choice(&["none", "deploy_tracked"], "What happens when a session ends.")),
            "ttl": duration(DURATION_S_MAX, "How long a session lasts that names no end of its own."),
            "labels": list(&word(LABEL), "Words to choose environments by."),
            "vars": reference("vars"),
            "skip": reference("skip"),
        }),
    )
}

fn requires() -> Value {
    object(
        "Who must agree before the stage begins.",
        &json!({
            "approvals": { "type": "integer", "minimum": 1, "maximum": APPROVALS_MAX, "default": 1, "description": "How many different people." },
            "from": list(
                &json!({ "anyOf": [{ "enum": Role::ALL.map(Role::as_str) }, { "type": "string", "pattern": "@" }] }),
                "Roles (this one or higher) and e-mail addresses; everybody who may approve when left out.",
            ),
            "self_approval": usual(true, flag("false: not by people who wrote, committed or co-authored part of the change, nor by those who started or retried the deployment.")),
            "timeout": duration(DURATION_S_MAX, "How long to wait for an answer."),
        }),
    )
}

fn window() -> Value {
    let fields = json!({
        "timezone": text("A name of the IANA database, like Europe/Vienna."),
        "days": list(&json!({ "enum": Day::ALL.map(|(name, _)| name) }), "Every day when left out."),
        "hours": { "type": "string", "pattern": "^[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}$", "description": "Like \"09:00-17:00\"; the whole day when left out." },
        "except": list(
            &json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}(/[0-9]{4}-[0-9]{2}-[0-9]{2})?$" }),
            "Days on which it stays shut: 2026-12-24 or 2026-12-24/2027-01-01.",
        ),
    });
    required(object("When the stage may be deployed to.", &fields), &["timezone"])
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
        "name": text("The name for people."),
        "id": described(word(ID), "What others call it; the name as a slug when left out."),
        "type": { "anyOf": types, "description": "What kind of step it is." },
        "needs": list(&word(ID), "Ids of steps to wait for; without it, the step before."),
        "needs_artifacts": list(&word(MEMBER), "Artifacts of other steps that it finds in its workspace."),
        "env": variables(&json!({ "type": ["string", "number", "boolean"] }), "Variables of its environment; the values may hold ${{ … }}."),
        "secret_files": variables(&json!({ "type": "string", "maxLength": SECRET_NAME_CHARS_MAX, "pattern": VARIABLE }), "Variable = name of a secret: the variable holds the path of a file with it."),
        "params": { "type": "object", "maxProperties": MAP_ENTRIES_MAX, "description": "Depend on the type." },
        "outputs": list(&word(MEMBER), "What it writes to $BERTH_OUTPUT as name=value."),
        "artifacts": {
            "type": "object", "maxProperties": MAP_ENTRIES_MAX, "propertyNames": word(MEMBER),
            "additionalProperties": required(object("A file or directory that other steps take with `needs_artifacts`.", &json!({ "path": text("Below the workspace.") })), &["path"]),
            "description": "What it leaves for other steps.",
        },
        "timeout": duration(STEP_TIMEOUT_S_MAX, "It fails when it takes longer."),
        "retry": required(object("After a failure; an unknown outcome is the business of `on_lost`.", &json!({
            "attempts": { "type": "integer", "minimum": 1, "maximum": RETRY_ATTEMPTS_MAX, "description": "The first try included." },
            "backoff": duration(RETRY_BACKOFF_S_MAX, "The pause before the next try."),
        })), &["attempts"]),
        "on_lost": choice(&["ask", "retry", "fail"], "When nobody knows whether it took effect. When left out: `retry` for what is idempotent, else as the type says."),
        "idempotent": flag("Safe to run again, so that a lost run is retried. When left out, as the type is by nature."),
        "runs_on": list(&word(LABEL), "Labels a runner must have."),
        "network": choice(&Network::ALL.map(Network::as_str), "What it reaches: `host` the same as its machine, `none` only itself. When left out, as the organization says."),
        "if": { "type": ["string", "boolean"], "description": "An expression; the step is left out when it is false." },
    });
    let mut schema = required(object("One thing to do.", &fields), &["name", "type"]);
    schema["allOf"] = BUILTINS.iter().map(|spec| params(spec)).collect();
    schema
}

/// The schema of `params`, conditional on the step type.
fn params(spec: &StepSpec) -> Value {
    let mut schema: Value = serde_json::from_str(spec.schema).unwrap_or_else(|_| json!({}));
    open(&mut schema);
    let mut then = json!({ "properties": { "params": schema } });
    let wanted = then["properties"]["params"]["required"].as_array().is_some_and(|names| !names.is_empty());
    if wanted {
        then["required"] = json!(["params"]);
    }
    json!({ "if": { "properties": { "type": { "const": spec.name } }, "required": ["type"] }, "then": then })
}

/// Replaces Berth's formats with patterns and allows an expression in place of every value but shell text.
fn open(schema: &mut Value) {
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

fn required(mut schema: Value, names: &[&str]) -> Value {
    schema["required"] = json!(names);
    schema
}

fn list(items: &Value, about: &str) -> Value {
    json!({ "type": "array", "maxItems": LIST_ITEMS_MAX, "items": items, "description": about })
}

fn word(pattern: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX, "pattern": pattern })
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

fn choice(words: &[&str], about: &str) -> Value {
    json!({ "enum": words, "description": about })
}

/// A pattern cannot express the maximum, so the description states it.
fn duration(seconds_max: u64, about: &str) -> Value {
    described(reference("duration"), &format!("{about} At most {}.", Seconds::from_secs(seconds_max)))
}

/// Adds the default.
fn usual(default: impl Into<Value>, mut schema: Value) -> Value {
    schema["default"] = default.into();
    schema
}

fn reference(name: &str) -> Value {
    let fields: Map<String, Value> =
        [("$ref".to_owned(), format!("#/$defs/{name}").into())].into_iter().collect();
    Value::Object(fields)
}
