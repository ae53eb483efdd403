//! Creates a run from its plan and starts its first stage.

use super::draft::RunDraft;
use super::plan::{Plan, StageType};
use super::state::{Run, StageRun, StageRunStatus, StepRun, StepRunStatus};
use crate::decision::RuleDecision;
use crate::environment::DecisionContext;
use crate::id::{DeploymentId, PipelineId, StepRunId};
use crate::time::Timestamp;

use std::collections::BTreeMap;
use std::sync::Arc;

/// The build results of an earlier deployment of the same commit and definition, to be reused.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildResults {
    pub by: DeploymentId,
    /// Keyed by the position of the step in the build.
    pub steps: BTreeMap<usize, BuildStepResults>,
}

/// A step's outputs, and the digests of its artifacts by name.
pub type BuildStepResults = (BTreeMap<String, String>, BTreeMap<String, String>);

#[derive(Debug, Clone)]
pub struct BeginRunCommand {
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    pub built: Option<BuildResults>,
}

pub fn begin(plan: &Plan, cmd: BeginRunCommand, moment: &DecisionContext) -> RuleDecision<()> {
    let mut stages = Vec::with_capacity(plan.stages.len());
    let mut steps = Vec::new();
    for (stage, planned) in plan.stages.iter().enumerate() {
        stages.push(StageRun {
            name: planned.name.clone(),
            kind: planned.kind,
            status: StageRunStatus::Pending,
            tries: 0,
            started_at: None,
            finished_at: None,
            failure: None,
            cancel: None,
            reused_from: None,
        });
        for (index, step) in planned.steps.iter().enumerate() {
            let id = StepRunId::from_parts(moment.now, derive_entropy(moment, steps.len()));
            steps.push(Arc::new(StepRun {
                id,
                stage,
                index,
                step: step.id.clone(),
                status: StepRunStatus::Pending,
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
    let mut draft = RunDraft::new(&run, plan, moment.now);
    if let Some(built) = cmd.built {
        reuse_build(&mut draft, built, moment.now);
    }
    draft.mark_all_changed();
    draft.finish(())
}

/// Marks the build as succeeded, with the results of an earlier deployment.
fn reuse_build(draft: &mut RunDraft<'_>, built: BuildResults, now: Timestamp) {
    let Some(stage) = draft.run.stages.iter().position(|it| it.kind == StageType::Build) else { return };
    let it = draft.stage(stage);
    (it.status, it.reused_from) = (StageRunStatus::Succeeded, Some(built.by));
    (it.started_at, it.finished_at) = (Some(now), Some(now));
    let mut left = built.steps;
    let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
    for at in positions {
        let step = draft.step(at);
        match left.remove(&step.index) {
            Some((outputs, artifacts)) => {
                step.status = StepRunStatus::Succeeded;
                (step.outputs, step.artifacts) = (outputs, artifacts);
            }
            // The earlier deployment skipped this step, and its condition has not changed since.
            None => step.status = StepRunStatus::Skipped,
        }
    }
}

/// Derives the random bits of the next id from the decision's entropy and a counter.
fn derive_entropy(moment: &DecisionContext, count: usize) -> crate::id::IdEntropy {
    let mut entropy = moment.entropy;
    let [high, low] = u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes();
    entropy[8] ^= high;
    entropy[9] ^= low;
    entropy
}
