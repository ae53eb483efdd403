//! Reads the tree into the model.
//!
//! Reading is lenient: an unreadable part is reported and replaced by a placeholder, so that the rest is still checked.
//! The definition is only returned if there are no errors.

mod environment;
mod stage;
mod step;

use std::collections::BTreeMap;

use berth_core::name::{DisplayName, EnvName, InvalidName};
use berth_core::pipeline::grammar::{Label, is_branch};
use berth_core::pipeline::limits::{
    ENVIRONMENTS_MAX, LIST_ITEMS_MAX, NOTIFICATIONS_MAX, PATTERN_BYTES_MAX, STAGES_MAX, STEPS_MAX,
};
use berth_core::pipeline::model::{Analysis, Definition, Environment, Notification, Stage, Step};
use berth_core::webhook;
use berth_core::wording::quoted;
use globset::GlobBuilder;

use self::environment::environment;
use self::stage::{StageDefaults, stage};
use self::step::{Previous, step};
use super::cursor::{Cursor, Fields, Read, Site};
use super::report::Problem;

/// A definition whose references have not been checked yet.
pub(super) struct Draft<'a> {
    head: Head,
    pub(super) build: Vec<Site<'a, Step>>,
    pub(super) stages: Vec<Site<'a, Stage>>,
    pub(super) steps: Vec<Site<'a, Step>>,
    pub(super) environments: Vec<Site<'a, (EnvName, Environment)>>,
}

struct Head {
    name: DisplayName,
    tracks: Option<String>,
    paths: Vec<String>,
    analysis: Analysis,
    notifications: Vec<Notification>,
}

pub(super) fn document<'a>(root: &Cursor<'a>) -> Option<Draft<'a>> {
    let file = root.fields(&["version", "pipeline"])?;
    version(&file);
    let fields = file.require("pipeline")?.fields(&[
        "name",
        "tracks",
        "paths",
        "build",
        "stage_defaults",
        "stages",
        "steps",
        "ephemeral_environments",
        "analysis",
        "notifications",
    ])?;
    let head = Head {
        name: name(&fields)?,
        tracks: fields.get("tracks").and_then(|at| branch(&at)),
        paths: fields.list::<Glob>("paths", "globs").into_iter().map(|Glob(pattern)| pattern).collect(),
        analysis: analysis(&fields).unwrap_or_default(),
        notifications: notifications(&fields),
    };
    let defaults = fields.get("stage_defaults").and_then(|at| StageDefaults::read(&at)).unwrap_or_default();
    let stages = items(&fields, "stages", STAGES_MAX);
    let draft = Draft {
        head,
        build: steps(&fields, "build"),
        stages: stages
            .into_iter()
            .filter_map(|at| Some(Site { value: stage(&at, &defaults)?, at }))
            .collect(),
        steps: steps(&fields, "steps"),
        environments: environments(&fields),
    };
    something_to_do(&fields, &draft);
    Some(draft)
}

impl Draft<'_> {
    pub(super) fn tracks(&self) -> Option<&str> {
        self.head.tracks.as_deref()
    }

    pub(super) fn into_definition(self) -> Definition {
        fn values<T>(sites: Vec<Site<'_, T>>) -> impl Iterator<Item = T> {
            sites.into_iter().map(|site| site.value)
        }
        Definition {
            name: self.head.name,
            tracks: self.head.tracks,
            paths: self.head.paths,
            build: values(self.build).collect(),
            stages: values(self.stages).collect(),
            steps: values(self.steps).collect(),
            ephemeral_environments: values(self.environments).collect::<BTreeMap<_, _>>(),
            analysis: self.head.analysis,
            notifications: self.head.notifications,
        }
    }
}

fn version(file: &Fields<'_>) {
    let Some(at) = file.require("version") else { return };
    if !matches!(&at.node.value, super::tree::Value::Number { text, .. } if text == "1") {
        at.add(
            Problem::error(
                "unsupported_version",
                "this version of the format is unknown; write `version: 1`",
            )
            .suggesting("1"),
        );
    }
}

/// A missing name is reported and replaced, so that the rest is still read.
fn name(fields: &Fields<'_>) -> Option<DisplayName> {
    fields.required("name").or_else(|| DisplayName::parse("unnamed").ok())
}

fn items<'a>(fields: &Fields<'a>, field: &str, items_max: usize) -> Vec<Cursor<'a>> {
    fields.get(field).and_then(|at| at.items(field, items_max)).unwrap_or_default()
}

fn steps<'a>(fields: &Fields<'a>, field: &str) -> Vec<Site<'a, Step>> {
    let mut previous = Previous::default();
    items(fields, field, STEPS_MAX)
        .into_iter()
        .filter_map(|at| Some(Site { value: step(&at, &mut previous)?, at }))
        .collect()
}

fn environments<'a>(fields: &Fields<'a>) -> Vec<Site<'a, (EnvName, Environment)>> {
    let entries =
        fields.get("ephemeral_environments").and_then(|at| at.entries("environments", ENVIRONMENTS_MAX));
    let mut found = Vec::new();
    for (key, at) in entries.unwrap_or_default() {
        let read = environment(&at);
        match EnvName::parse(key) {
            Ok(name) => found.extend(read.map(|environment| Site { value: (name, environment), at })),
            Err(InvalidName(why)) => {
                at.add_at_key(Problem::error(
                    "invalid_name",
                    format!("the environment name {} {why}", quoted(key)),
                ));
            }
        }
    }
    found
}

fn something_to_do(fields: &Fields<'_>, draft: &Draft<'_>) {
    let absent = |name: &str| fields.at.get(name).is_none();
    if draft.stages.is_empty()
        && draft.environments.is_empty()
        && absent("stages")
        && absent("ephemeral_environments")
    {
        let message = "there is nowhere to deploy to; add `stages` or `ephemeral_environments`";
        fields.at.add_at_key(Problem::error("nothing_to_deploy_to", message));
    }
    if draft.steps.is_empty() && fields.at.get("steps").is_none_or(|at| at.children().is_empty()) {
        fields.at.add_at_key(Problem::error(
            "no_steps",
            "there is nothing to do; add at least one step under `steps`",
        ));
    }
    for empty in ["stages", "ephemeral_environments"] {
        let both_empty = draft.stages.is_empty() && draft.environments.is_empty();
        if let Some(at) = fields.at.get(empty).filter(|at| both_empty && at.children().is_empty()) {
            at.add_at_key(Problem::error(
                "nothing_to_deploy_to",
                format!("`{empty}` is empty; there is nowhere to deploy to"),
            ));
        }
    }
}

pub(super) fn branch(at: &Cursor<'_>) -> Option<String> {
    const NO_BRANCH: InvalidName = InvalidName("is not a branch name");
    at.parsed("invalid_name", |text| if is_branch(text) { Ok(text.to_owned()) } else { Err(NO_BRANCH) })
}

/// A pattern for changed files.
struct Glob(String);

impl Read for Glob {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let text = at.text()?;
        let compiled = GlobBuilder::new(text).literal_separator(true).build();
        match compiled {
            _ if text.len() > PATTERN_BYTES_MAX => {
                at.error("bad_glob", format!("a glob may be at most {PATTERN_BYTES_MAX} bytes long"));
                None
            }
            _ if text.is_empty() || text.starts_with('/') => {
                at.error("bad_glob", "a glob is matched against paths from the root of the repository, like `services/shop/**`");
                None
            }
            Ok(_) => Some(Glob(text.to_owned())),
            Err(error) => {
                at.error("bad_glob", format!("{} is not a valid glob: {}", quoted(text), error.kind()));
                None
            }
        }
    }
}

fn analysis(fields: &Fields<'_>) -> Option<Analysis> {
    let analysis = fields.get("analysis")?.fields(&["on_failure"])?;
    Some(Analysis { on_failure: analysis.read("on_failure").unwrap_or_default() })
}

fn notifications(fields: &Fields<'_>) -> Vec<Notification> {
    let each = items(fields, "notifications", NOTIFICATIONS_MAX);
    each.iter()
        .filter_map(|at| {
            let fields = at.fields(&["webhook", "events"])?;
            let events = fields.require("events").and_then(|at| at.items("events", LIST_ITEMS_MAX));
            let events = events.unwrap_or_default().iter().filter_map(event).collect();
            Some(Notification { webhook: fields.required::<Label>("webhook")?, events })
        })
        .collect()
}

fn event(at: &Cursor<'_>) -> Option<String> {
    let text = at.text()?;
    if webhook::is_known(text) {
        return Some(text.to_owned());
    }
    let problem = Problem::error("unknown_value", format!("there is no event {}", quoted(text)));
    at.add(problem.among(at.report(), text, webhook::known()));
    None
}
