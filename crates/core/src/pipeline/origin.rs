//! Pipelines that come from a repository: made, retired when their file is gone, back when it is, and detached.

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

/// As [`create`], for one that was found in a repository.
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

/// Its definition is gone from the repository: nothing new starts.
pub fn retire(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    if pipeline.retired_at.is_some() {
        return Decision::calm(pipeline.clone());
    }
    let event = about(EventKind::PipelineUpdated, pipeline).with("retired", true);
    put(touched(Pipeline { retired_at: Some(now), ..pipeline.clone() }, now), event)
}

/// Its definition is back.
pub fn revive(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    if pipeline.retired_at.is_none() {
        return Decision::calm(pipeline.clone());
    }
    let event = about(EventKind::PipelineUpdated, pipeline).with("retired", false);
    put(touched(Pipeline { retired_at: None, ..pipeline.clone() }, now), event)
}

/// Its repository goes; the definition stays and can be changed by hand from here on.
pub fn detach(pipeline: &Pipeline, now: Timestamp) -> Decision<Pipeline> {
    let event = about(EventKind::PipelineUpdated, pipeline).with("detached", true);
    put(touched(Pipeline { origin: None, retired_at: None, ..pipeline.clone() }, now), event)
}
