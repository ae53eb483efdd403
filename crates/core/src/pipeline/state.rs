//! The state of a pipeline and its transitions: create, redefine, stop, resume, delete.
//!
//! Transitions are idempotent: stopping a stopped pipeline changes nothing and appends no event.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::{Actor, EventKind, EventSubject, NewEvent};
use crate::id::PipelineId;
use crate::name::{DisplayName, EnvName, Reason, Slug};
use crate::pipeline::grammar::SecretName;
use crate::pipeline::model::{EnvironmentDefinition, NotificationRule, PipelineDefinition};
use crate::pipeline::origin::DefinitionOrigin;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub id: PipelineId,
    pub slug: Slug,
    pub name: DisplayName,
    pub status: PipelineActivity,
    pub definition_hash: String,
    pub outline: DefinitionOutline,
    /// The file in a repository that contains the definition; `None` if it was sent through the API.
    pub origin: Option<DefinitionOrigin>,
    /// The last processed head of the tracked branch. A separate SQL statement updates it; writing the record does not.
    pub head: Option<String>,
    /// Set once the definition file was removed from its repository; no new deployments start from then on.
    pub retired_at: Option<Timestamp>,
    /// Increases by one with every change; sent in `ETag` and compared with `If-Match`.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PipelineActivity {
    Active,
    Stopped { by: Actor, at: Timestamp, reason: Option<Reason> },
}

/// The parts of a definition that are needed without parsing it, for example in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionOutline {
    pub name: DisplayName,
    pub tracks: Option<String>,
    /// Glob patterns; a push starts a deployment only if a matching file changed.
    #[serde(default)]
    pub paths: Vec<String>,
    pub stages: Vec<String>,
    pub environments: Vec<String>,
    /// Names of the secrets that the definition uses.
    #[serde(default)]
    pub secrets: BTreeSet<SecretName>,
    /// Where notifications are sent, and for which events.
    #[serde(default)]
    pub notifications: Vec<NotificationRule>,
    /// The custom step types that the definition uses, as written.
    #[serde(default)]
    pub custom_types: BTreeSet<String>,
}

impl DefinitionOutline {
    pub fn from_definition(definition: &PipelineDefinition) -> Self {
        Self {
            name: definition.name.clone(),
            tracks: definition.tracks.clone(),
            paths: definition.paths.clone(),
            stages: definition.stages.iter().map(|stage| stage.name.to_string()).collect(),
            environments: definition.ephemeral_environments.keys().map(ToString::to_string).collect(),
            secrets: definition.secrets_used().into_iter().map(|found| found.name).collect(),
            notifications: definition.notifications.clone(),
            custom_types: definition.custom_types(),
        }
    }
}

/// A definition that has passed all checks and can be stored in a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDefinition {
    pub hash: String,
    pub outline: DefinitionOutline,
    pub environments: BTreeMap<EnvName, EnvironmentDefinition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreatePipelineCommand {
    pub id: PipelineId,
    pub slug: Slug,
    pub name: Option<DisplayName>,
    pub definition: CheckedDefinition,
}

/// Creates a pipeline. `holder` is the existing pipeline with the same slug, if any; the command is then refused.
pub fn create(
    cmd: CreatePipelineCommand,
    holder: Option<&Pipeline>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    if let Some(holder) = holder {
        let text = format!("a pipeline with the slug \"{}\" already exists: {}", cmd.slug, holder.id);
        return Err(CommandRefusal::AlreadyExists(text));
    }
    let pipeline = Pipeline {
        id: cmd.id,
        name: cmd.name.unwrap_or_else(|| cmd.definition.outline.name.clone()),
        slug: cmd.slug,
        status: PipelineActivity::Active,
        definition_hash: cmd.definition.hash,
        outline: cmd.definition.outline,
        origin: None,
        head: None,
        retired_at: None,
        version: 1,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let event = pipeline_event(EventKind::PipelineCreated, &pipeline)
        .with("definitionHash", pipeline.definition_hash.clone());
    Ok(put(pipeline, event))
}

/// Replaces the definition. Changes nothing if it is the same.
///
/// A name that was given at creation is kept; a name that came from the definition changes with it.
pub fn redefine(
    pipeline: &Pipeline,
    definition: CheckedDefinition,
    expected: Option<i64>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    check_version(pipeline, expected)?;
    if definition.hash == pipeline.definition_hash {
        return Ok(RuleDecision::without_changes(pipeline.clone()));
    }
    let follows = pipeline.name == pipeline.outline.name;
    let name = if follows { definition.outline.name.clone() } else { pipeline.name.clone() };
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline)
        .with("definitionHash", definition.hash.clone())
        .with("previousDefinitionHash", pipeline.definition_hash.clone());
    let next =
        Pipeline { name, definition_hash: definition.hash, outline: definition.outline, ..pipeline.clone() };
    Ok(put(touch(next, now), event))
}

/// Stops the pipeline: no step is granted and no deployment starts, but running steps may finish.
pub fn stop(
    pipeline: &Pipeline,
    by: Actor,
    reason: Option<Reason>,
    expected: Option<i64>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    check_version(pipeline, expected)?;
    match pipeline.status {
        PipelineActivity::Stopped { .. } => Ok(RuleDecision::without_changes(pipeline.clone())),
        PipelineActivity::Active => {
            let event = with_reason(pipeline_event(EventKind::PipelineStopped, pipeline), reason.as_ref());
            let next =
                Pipeline { status: PipelineActivity::Stopped { by, at: now, reason }, ..pipeline.clone() };
            Ok(put(touch(next, now), event))
        }
    }
}

pub fn resume(
    pipeline: &Pipeline,
    reason: Option<&Reason>,
    expected: Option<i64>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    check_version(pipeline, expected)?;
    match pipeline.status {
        PipelineActivity::Active => Ok(RuleDecision::without_changes(pipeline.clone())),
        PipelineActivity::Stopped { .. } => {
            let event = with_reason(pipeline_event(EventKind::PipelineResumed, pipeline), reason);
            let next = Pipeline { status: PipelineActivity::Active, ..pipeline.clone() };
            Ok(put(touch(next, now), event))
        }
    }
}

pub fn delete(
    pipeline: &Pipeline,
    expected: Option<i64>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    check_version(pipeline, expected)?;
    let event = pipeline_event(EventKind::PipelineDeleted, pipeline);
    let next = Pipeline { deleted_at: Some(now), ..pipeline.clone() };
    Ok(put(touch(next, now), event))
}

fn check_version(pipeline: &Pipeline, expected: Option<i64>) -> Result<(), CommandRefusal> {
    match expected {
        Some(version) if version != pipeline.version => {
            Err(CommandRefusal::PreconditionFailed { current: pipeline.version })
        }
        _ => Ok(()),
    }
}

pub(super) fn touch(pipeline: Pipeline, now: Timestamp) -> Pipeline {
    Pipeline { version: pipeline.version + 1, updated_at: now, ..pipeline }
}

pub(super) fn put(pipeline: Pipeline, event: NewEvent) -> RuleDecision<Pipeline> {
    RuleDecision {
        changes: vec![RecordChange::Put(DomainRecord::Pipeline(Box::new(pipeline.clone())))],
        events: vec![event],
        effects: Vec::new(),
        answer: pipeline,
    }
}

pub(super) fn pipeline_event(kind: EventKind, pipeline: &Pipeline) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("pipeline", pipeline.id, Some(pipeline.slug.as_str())))
}

fn with_reason(event: NewEvent, reason: Option<&Reason>) -> NewEvent {
    match reason {
        Some(reason) => event.with("reason", reason.as_str()),
        None => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ActorType;
    use crate::id::UserId;

    const NOON: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);

    fn ada() -> Actor {
        let id = UserId::from_parts(NOON, [1; 10]);
        Actor { kind: ActorType::User, id: Some(id), name: "Ada".into(), token: None }
    }

    fn checked_definition(hash: &str) -> CheckedDefinition {
        let name = DisplayName::parse(&format!("Shop {hash}")).unwrap();
        CheckedDefinition {
            hash: hash.into(),
            outline: DefinitionOutline {
                name,
                tracks: None,
                paths: vec![],
                stages: vec![],
                environments: vec![],
                secrets: BTreeSet::new(),
                notifications: vec![],
                custom_types: BTreeSet::new(),
            },
            environments: BTreeMap::new(),
        }
    }

    fn shop() -> Pipeline {
        let slug = Slug::parse("shop").unwrap();
        let cmd = CreatePipelineCommand {
            id: PipelineId::from_parts(NOON, [2; 10]),
            slug,
            name: None,
            definition: checked_definition("h1"),
        };
        create(cmd, None, NOON).unwrap().answer
    }

    fn kinds(decision: &RuleDecision<Pipeline>) -> Vec<&'static str> {
        decision.events.iter().map(|event| event.kind.as_str()).collect()
    }

    #[test]
    fn create_with_existing_slug_is_refused() {
        let first = shop();
        let cmd = CreatePipelineCommand {
            id: first.id,
            slug: first.slug.clone(),
            name: None,
            definition: checked_definition("h1"),
        };
        assert!(matches!(create(cmd, Some(&first), NOON), Err(CommandRefusal::AlreadyExists(_))));
    }

    #[test]
    fn stop_and_resume_record_reason_and_are_idempotent() {
        let reason = Reason::parse("disk is full").unwrap();
        let stopped = stop(&shop(), ada(), Some(reason), None, NOON).unwrap();
        assert_eq!(kinds(&stopped), ["pipeline_stopped"]);
        assert_eq!(stopped.events[0].data["reason"], "disk is full");
        assert_eq!(stopped.answer.version, 2);

        let again = stop(&stopped.answer, ada(), None, None, NOON.plus_seconds(9)).unwrap();
        assert_eq!((kinds(&again), again.answer.clone()), (vec![], stopped.answer.clone()));

        let resumed = resume(&stopped.answer, None, None, NOON).unwrap();
        assert_eq!(kinds(&resumed), ["pipeline_resumed"]);
        assert_eq!(kinds(&resume(&resumed.answer, None, None, NOON).unwrap()), Vec::<&str>::new());
    }

    #[test]
    fn redefine_with_same_definition_changes_nothing() {
        let decision = redefine(&shop(), checked_definition("h1"), None, NOON).unwrap();
        assert!(decision.changes.is_empty() && decision.events.is_empty());
        assert_eq!(
            kinds(&redefine(&shop(), checked_definition("h2"), None, NOON).unwrap()),
            ["pipeline_updated"]
        );
    }

    #[test]
    fn redefine_updates_name_unless_given_at_creation() {
        let renamed = redefine(&shop(), checked_definition("h2"), None, NOON).unwrap().answer;
        assert_eq!(renamed.name.as_str(), "Shop h2");
        let given = Pipeline { name: DisplayName::parse("Ours").unwrap(), ..shop() };
        assert_eq!(
            redefine(&given, checked_definition("h2"), None, NOON).unwrap().answer.name.as_str(),
            "Ours"
        );
    }

    #[test]
    fn every_change_with_stale_version_is_refused() {
        let pipeline = shop();
        let stale = Some(pipeline.version + 1);
        let refused = CommandRefusal::PreconditionFailed { current: 1 };
        assert_eq!(stop(&pipeline, ada(), None, stale, NOON), Err(refused.clone()));
        assert_eq!(resume(&pipeline, None, stale, NOON), Err(refused.clone()));
        assert_eq!(delete(&pipeline, stale, NOON), Err(refused.clone()));
        assert_eq!(redefine(&pipeline, checked_definition("h2"), stale, NOON), Err(refused));
    }
}
