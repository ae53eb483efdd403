//! Reads the YAML tree into the model.
//!
//! Reading is lenient: a part that cannot be read is reported and replaced by a placeholder, so that the rest is still
//! checked. The definition is only returned if there are no errors.

mod container;
mod environment;
mod id_token;
mod stage;
mod step;

use std::collections::BTreeMap;

use berth_core::name::{DisplayName, EnvName, InvalidName};
use berth_core::pipeline::grammar::{Label, is_branch};
use berth_core::pipeline::limits::{
    ENVIRONMENTS_MAX, LIST_ITEMS_MAX, NOTIFICATIONS_MAX, PATTERN_BYTES_MAX, STAGES_MAX, STEPS_MAX,
};
use berth_core::pipeline::model::{
    AnalysisOptions, EnvironmentDefinition, NotificationRule, PipelineDefinition, StageDefinition,
    StepDefinition,
};
use berth_core::webhook;
use berth_core::wording::quote;
use globset::GlobBuilder;

use self::environment::read_environment;
use self::stage::{StageDefaults, stage};
use self::step::{PreviousStep, step};
use super::cursor::{FieldReader, LocatedValue, NodeCursor, ReadNode};
use super::report::DefinitionProblem;

/// A definition whose references have not been checked yet.
pub(super) struct DefinitionDraft<'a> {
    head: DraftHeader,
    pub(super) build: Vec<LocatedValue<'a, StepDefinition>>,
    pub(super) stages: Vec<LocatedValue<'a, StageDefinition>>,
    pub(super) steps: Vec<LocatedValue<'a, StepDefinition>>,
    pub(super) environments: Vec<LocatedValue<'a, (EnvName, EnvironmentDefinition)>>,
}

struct DraftHeader {
    name: DisplayName,
    tracks: Option<String>,
    paths: Vec<String>,
    analysis: AnalysisOptions,
    notifications: Vec<NotificationRule>,
}

pub(super) fn read_document<'a>(root: &NodeCursor<'a>) -> Option<DefinitionDraft<'a>> {
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
    let head = DraftHeader {
        name: name(&fields)?,
        tracks: fields.get("tracks").and_then(|at| branch(&at)),
        paths: fields
            .list::<PathGlob>("paths", "globs")
            .into_iter()
            .map(|PathGlob(pattern)| pattern)
            .collect(),
        analysis: analysis(&fields).unwrap_or_default(),
        notifications: notifications(&fields),
    };
    let defaults = fields.get("stage_defaults").and_then(|at| StageDefaults::read(&at)).unwrap_or_default();
    let stages = items(&fields, "stages", STAGES_MAX);
    let draft = DefinitionDraft {
        head,
        build: steps(&fields, "build"),
        stages: stages
            .into_iter()
            .filter_map(|at| Some(LocatedValue { value: stage(&at, &defaults)?, at }))
            .collect(),
        steps: steps(&fields, "steps"),
        environments: environments(&fields),
    };
    check_not_empty(&fields, &draft);
    Some(draft)
}

impl DefinitionDraft<'_> {
    pub(super) fn tracks(&self) -> Option<&str> {
        self.head.tracks.as_deref()
    }

    pub(super) fn into_definition(self) -> PipelineDefinition {
        fn values<T>(sites: Vec<LocatedValue<'_, T>>) -> impl Iterator<Item = T> {
            sites.into_iter().map(|site| site.value)
        }
        PipelineDefinition {
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

fn version(file: &FieldReader<'_>) {
    let Some(at) = file.require("version") else { return };
    if !matches!(&at.node.value, super::tree::YamlValue::Number { text, .. } if text == "1") {
        at.add(
            DefinitionProblem::error(
                "unsupported_version",
                "this version of the format is unknown; write `version: 1`",
            )
            .with_suggestion("1"),
        );
    }
}

/// Reads the pipeline's name. A missing name is reported and replaced by a placeholder, so that reading continues.
fn name(fields: &FieldReader<'_>) -> Option<DisplayName> {
    fields.read_required("name").or_else(|| DisplayName::parse("unnamed").ok())
}

fn items<'a>(fields: &FieldReader<'a>, field: &str, items_max: usize) -> Vec<NodeCursor<'a>> {
    fields.get(field).and_then(|at| at.items(field, items_max)).unwrap_or_default()
}

fn steps<'a>(fields: &FieldReader<'a>, field: &str) -> Vec<LocatedValue<'a, StepDefinition>> {
    let mut previous = PreviousStep::default();
    items(fields, field, STEPS_MAX)
        .into_iter()
        .filter_map(|at| Some(LocatedValue { value: step(&at, &mut previous)?, at }))
        .collect()
}

fn environments<'a>(fields: &FieldReader<'a>) -> Vec<LocatedValue<'a, (EnvName, EnvironmentDefinition)>> {
    let entries =
        fields.get("ephemeral_environments").and_then(|at| at.entries("environments", ENVIRONMENTS_MAX));
    let mut found = Vec::new();
    for (key, at) in entries.unwrap_or_default() {
        let read = read_environment(&at);
        match EnvName::parse(key) {
            Ok(name) => found.extend(read.map(|environment| LocatedValue { value: (name, environment), at })),
            Err(InvalidName(why)) => {
                at.add_at_key(DefinitionProblem::error(
                    "invalid_name",
                    format!("the environment name {} {why}", quote(key)),
                ));
            }
        }
    }
    found
}

fn check_not_empty(fields: &FieldReader<'_>, draft: &DefinitionDraft<'_>) {
    let absent = |name: &str| fields.at.get(name).is_none();
    if draft.stages.is_empty()
        && draft.environments.is_empty()
        && absent("stages")
        && absent("ephemeral_environments")
    {
        let message = "there is nowhere to deploy to; add `stages` or `ephemeral_environments`";
        fields.at.add_at_key(DefinitionProblem::error("nothing_to_deploy_to", message));
    }
    if draft.steps.is_empty() && fields.at.get("steps").is_none_or(|at| at.children().is_empty()) {
        fields.at.add_at_key(DefinitionProblem::error(
            "no_steps",
            "there is nothing to do; add at least one step under `steps`",
        ));
    }
    for empty in ["stages", "ephemeral_environments"] {
        let both_empty = draft.stages.is_empty() && draft.environments.is_empty();
        if let Some(at) = fields.at.get(empty).filter(|at| both_empty && at.children().is_empty()) {
            at.add_at_key(DefinitionProblem::error(
                "nothing_to_deploy_to",
                format!("`{empty}` is empty; there is nowhere to deploy to"),
            ));
        }
    }
}

pub(super) fn branch(at: &NodeCursor<'_>) -> Option<String> {
    const NO_BRANCH: InvalidName = InvalidName("is not a branch name");
    at.parse_text("invalid_name", |text| if is_branch(text) { Ok(text.to_owned()) } else { Err(NO_BRANCH) })
}

/// A glob pattern for the paths of changed files.
struct PathGlob(String);

impl ReadNode for PathGlob {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
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
            Ok(_) => Some(PathGlob(text.to_owned())),
            Err(error) => {
                at.error("bad_glob", format!("{} is not a valid glob: {}", quote(text), error.kind()));
                None
            }
        }
    }
}

fn analysis(fields: &FieldReader<'_>) -> Option<AnalysisOptions> {
    let analysis = fields.get("analysis")?.fields(&["on_failure"])?;
    Some(AnalysisOptions { on_failure: analysis.read("on_failure").unwrap_or_default() })
}

fn notifications(fields: &FieldReader<'_>) -> Vec<NotificationRule> {
    let each = items(fields, "notifications", NOTIFICATIONS_MAX);
    each.iter()
        .filter_map(|at| {
            let fields = at.fields(&["webhook", "events"])?;
            let events = fields.require("events").and_then(|at| at.items("events", LIST_ITEMS_MAX));
            let events = events.unwrap_or_default().iter().filter_map(event).collect();
            Some(NotificationRule { webhook: fields.read_required::<Label>("webhook")?, events })
        })
        .collect()
}

fn event(at: &NodeCursor<'_>) -> Option<String> {
    let text = at.text()?;
    if webhook::is_event_kind(text) {
        return Some(text.to_owned());
    }
    let problem = DefinitionProblem::error("unknown_value", format!("there is no event {}", quote(text)));
    at.add(problem.with_hint(at.report(), text, webhook::all_event_kinds()));
    None
}
