//! Pipelines defined in a repository: created, retired when their file is removed, revived when it is back, detached.

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::EventKind;
use crate::id::RepositoryId;
use crate::pipeline::state::{CreatePipelineCommand, Pipeline, create, pipeline_event, put, touch};
use crate::time::Timestamp;

/// The file that defines a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionOrigin {
    pub repository: RepositoryId,
    pub path: String,
}

/// Like [`create`], for a pipeline found in a repository.
pub fn create_from(
    cmd: CreatePipelineCommand,
    origin: DefinitionOrigin,
    holder: Option<&Pipeline>,
    now: Timestamp,
) -> Result<RuleDecision<Pipeline>, CommandRefusal> {
    let mut decision = create(cmd, holder, now)?;
    decision.answer.origin = Some(origin);
    decision.changes = vec![RecordChange::Put(DomainRecord::Pipeline(Box::new(decision.answer.clone())))];
    Ok(decision)
}

/// Retires a pipeline whose definition was removed from the repository: no new deployments start.
pub fn retire(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    if pipeline.retired_at.is_some() {
        return RuleDecision::without_changes(pipeline.clone());
    }
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("retired", true);
    put(touch(Pipeline { retired_at: Some(now), ..pipeline.clone() }, now), event)
}

/// Revives a pipeline whose definition is back.
pub fn revive(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    if pipeline.retired_at.is_none() {
        return RuleDecision::without_changes(pipeline.clone());
    }
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("retired", false);
    put(touch(Pipeline { retired_at: None, ..pipeline.clone() }, now), event)
}

/// Detaches a pipeline from a removed repository. The definition stays and can be edited directly.
pub fn detach(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("detached", true);
    put(touch(Pipeline { origin: None, retired_at: None, ..pipeline.clone() }, now), event)
}
