//! Creates the run from its plan and starts its first stage.

use super::draft::Draft;
use super::plan::{Plan, StageKind};
use super::state::{Run, StageRun, StageStatus, StepRun, StepStatus};
use crate::decision::Decision;
use crate::environment::Moment;
use crate::id::{DeploymentId, PipelineId, StepRunId};
use crate::time::Timestamp;

use std::collections::BTreeMap;
use std::sync::Arc;

/// Build results of an earlier deployment of the same commit and definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    pub by: DeploymentId,
    /// By the position of the step in the build.
    pub steps: BTreeMap<usize, Left>,
}

/// The outputs of a step, and the digests of its artifacts by name.
pub type Left = (BTreeMap<String, String>, BTreeMap<String, String>);

#[derive(Debug, Clone)]
pub struct Begin {
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    pub built: Option<Built>,
}

pub fn begin(plan: &Plan, cmd: Begin, moment: &Moment) -> Decision<()> {
    let mut stages = Vec::with_capacity(plan.stages.len());
    let mut steps = Vec::new();
    for (stage, planned) in plan.stages.iter().enumerate() {
        stages.push(StageRun {
            name: planned.name.clone(),
            kind: planned.kind,
            status: StageStatus::Pending,
            tries: 0,
            started_at: None,
            finished_at: None,
            failure: None,
            cancel: None,
            reused_from: None,
        });
        for (index, step) in planned.steps.iter().enumerate() {
            let id = StepRunId::from_parts(moment.now, drawn(moment, steps.len()));
            steps.push(Arc::new(StepRun {
                id,
                stage,
                index,
                step: step.id.clone(),
                status: StepStatus::Pending,
                tries: 0,
                failures: 0,
                losses: 0,
                false_starts: 0,
                not_before: None,
                live: None,
                memory: None,
                outputs: BTreeMap::new(),
                artifacts: BTreeMap::new(),
                failure: None,
                started_at: None,
                finished_at: None,
            }));
        }
    }
    let run = Run { deployment: cmd.deployment, pipeline: cmd.pipeline, version: 0, stages, steps };
    let mut draft = Draft::of(&run, plan, moment.now);
    if let Some(built) = cmd.built {
        reuse(&mut draft, built, moment.now);
    }
    draft.all_changed();
    draft.finish(())
}

/// Marks the build as done with the results of the earlier deployment.
fn reuse(draft: &mut Draft<'_>, built: Built, now: Timestamp) {
    let Some(stage) = draft.run.stages.iter().position(|it| it.kind == StageKind::Build) else { return };
    let it = draft.stage(stage);
    (it.status, it.reused_from) = (StageStatus::Succeeded, Some(built.by));
    (it.started_at, it.finished_at) = (Some(now), Some(now));
    let mut left = built.steps;
    let ats: Vec<usize> = draft.run.of_stage(stage).collect();
    for at in ats {
        let step = draft.step(at);
        match left.remove(&step.index) {
            Some((outputs, artifacts)) => {
                step.status = StepStatus::Succeeded;
                (step.outputs, step.artifacts) = (outputs, artifacts);
            }
            // The step was skipped then, and its condition has not changed since.
            None => step.status = StepStatus::Skipped,
        }
    }
}

/// Derives the entropy of the next id from the decision's entropy and a counter.
fn drawn(moment: &Moment, count: usize) -> crate::id::Entropy {
    let mut entropy = moment.entropy;
    let [high, low] = u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes();
    entropy[8] ^= high;
    entropy[9] ^= low;
    entropy
}
