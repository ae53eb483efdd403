//! Pipelines whose definition is a file in a repository: created when the file appears, retired when it is removed,
//! revived when it returns, and detached when the repository is removed.

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::EventKind;
use crate::id::RepositoryId;
use crate::pipeline::state::{CreatePipelineCommand, Pipeline, create, pipeline_event, put, touch};
use crate::time::Timestamp;

/// The file in a repository that defines a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionOrigin {
    pub repository: RepositoryId,
    pub path: String,
}

/// Like [`create`], for a pipeline whose definition was found in a repository.
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

/// Retires a pipeline whose definition file was removed from its repository: no new deployments start.
pub fn retire(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    if pipeline.retired_at.is_some() {
        return RuleDecision::without_changes(pipeline.clone());
    }
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("retired", true);
    put(touch(Pipeline { retired_at: Some(now), ..pipeline.clone() }, now), event)
}

/// Revives a retired pipeline whose definition file is back.
pub fn revive(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    if pipeline.retired_at.is_none() {
        return RuleDecision::without_changes(pipeline.clone());
    }
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("retired", false);
    put(touch(Pipeline { retired_at: None, ..pipeline.clone() }, now), event)
}

/// Detaches a pipeline from its repository, which was removed from Berth. The definition is kept and can then be edited
/// through the API.
pub fn detach(pipeline: &Pipeline, now: Timestamp) -> RuleDecision<Pipeline> {
    let event = pipeline_event(EventKind::PipelineUpdated, pipeline).with("detached", true);
    put(touch(Pipeline { origin: None, retired_at: None, ..pipeline.clone() }, now), event)
}
