//! Pipelines defined in a repository: created, retired when their file is removed, revived when it is back, detached.

use crate::decision::{Change, Decision, Record, Refusal};
use crate::event::EventKind;
use crate::id::RepositoryId;
use crate::pipeline::state::{Create, Pipeline, about, create, put, touched};
use crate::time::Timestamp;

/// The file that defines a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub repository: RepositoryId,
    pub path: String,
}

/// Like [`create`], for a pipeline found in a repository.
pub fn create_from(
    cmd: Create,
    origin: Origin,
    holder: Option<&Pipeline>,
    now: Timestamp,
) -> Result<Decision<Pipeline>, Refusal> {
    let mut decision = create(cmd, holder, now)?;
    decision.answer.origin = Some(origin);
    decision.changes = vec![Change::Put(Record::Pipeline(Box::new(decision.answer.clone())))];
    Ok(decision)
}

/// Retires a pipeline whose definition was removed from the repository: no new deployments start.
pub fn retire(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    if pipeline.retired_at.is_some() {
        return Decision::calm(pipeline.clone());
    }
    let event = about(EventKind::PipelineUpdated, pipeline).with("retired", true);
    put(touched(Pipeline { retired_at: Some(now), ..pipeline.clone() }, now), event)
}

/// Revives a pipeline whose definition is back.
pub fn revive(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    if pipeline.retired_at.is_none() {
        return Decision::calm(pipeline.clone());
    }
    let event = about(EventKind::PipelineUpdated, pipeline).with("retired", false);
    put(touched(Pipeline { retired_at: None, ..pipeline.clone() }, now), event)
}

/// Detaches a pipeline from a removed repository. The definition stays and can be edited directly.
pub fn detach(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    let event = about(EventKind::PipelineUpdated, pipeline).with("detached", true);
    put(touched(Pipeline { origin: None, retired_at: None, ..pipeline.clone() }, now), event)
}
