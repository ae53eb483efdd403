//! The plan of a rollback: the plan of an earlier deployment, reduced to its build and one stage. The build results are
//! reused.

use std::collections::BTreeMap;

use super::begin::BuildResults;
use super::draft::RunDraft;
use super::plan::{Plan, StageGate, StageType, StepActivation};
use super::state::{Run, StageRunStatus, StepRun, StepRunStatus};
use crate::decision::RuleDecision;
use crate::event::EventKind;
use crate::pipeline::grammar::StepId;
use crate::pipeline::model::OnFailure;
use crate::time::Timestamp;

impl Plan {
    /// Reduces the plan to the build and one stage. Soaks are skipped, and so are approval steps for which
    /// `is_approved` returns true. If the rollback itself fails, it is not rolled back automatically.
    pub fn reduce_to_stage(
        &self,
        stage: &str,
        gates: Vec<StageGate>,
        is_approved: impl Fn(&StepId) -> bool,
    ) -> Option<Self> {
        let mut found =
            self.stages.iter().find(|it| it.kind == StageType::Stage && it.name == stage)?.clone();
        (found.gates, found.on_failure) = (gates, OnFailure::None);
        for step in &mut found.steps {
            if step.is_soak() || (step.is_approval() && is_approved(&step.id)) {
                step.when = StepActivation::Never;
            }
        }
        let build = self.stages.iter().find(|it| it.kind == StageType::Build).cloned();
        let stages = build.into_iter().chain([found]).collect();
        Some(Self { source: self.source.clone(), stages, analyses_failures: self.analyses_failures })
    }
}

impl Run {
    /// The results of the build; `None` if the run has no build or the build did not succeed.
    pub fn build_results(&self) -> Option<BuildResults> {
        let build = self.stages.iter().position(|it| it.kind == StageType::Build)?;
        let stage = &self.stages[build];
        if stage.status != StageRunStatus::Succeeded {
            return None;
        }
        let mut steps = BTreeMap::new();
        for step in self.steps.iter().filter(|it| it.stage == build && it.status == StepRunStatus::Succeeded)
        {
            steps.insert(step.index, (step.outputs.clone(), step.artifacts.clone()));
        }
        Some(BuildResults { by: stage.reused_from.unwrap_or(self.deployment), steps })
    }

    /// Whether this step has succeeded in this stage.
    pub fn has_succeeded(&self, stage: &str, step: &StepId) -> bool {
        let is_it = |it: &StepRun| self.stages[it.stage].name == stage && it.step == *step;
        self.steps.iter().any(|it| is_it(it) && it.status == StepRunStatus::Succeeded)
    }

    /// The digest of the newest artifact with this name from the stages before `stage`.
    pub fn artifact_before(&self, stage: &str, name: &str) -> Option<String> {
        let stage = self.stages.iter().position(|it| it.name == stage)?;
        let earlier = self.steps.iter().rev().filter(|it| it.stage < stage);
        earlier.filter_map(|it| it.artifacts.get(name)).next().cloned()
    }

    /// Whether any step of the stage ever ran. If not, there is nothing to roll back.
    pub fn has_run_steps(&self, stage: usize) -> bool {
        self.stage_step_positions(stage).any(|at| self.steps[at].tries > 0)
    }
}

/// Records why a failed stage is not rolled back.
pub fn skip_rollback(run: &Run, plan: &Plan, stage: usize, why: &str, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    if let Some(failure) = &mut draft.stage(stage).failure {
        failure.detail = format!("{}; it was not rolled back: {why}", failure.detail);
    }
    let event = draft.stage_event(EventKind::RollbackSkipped, stage).with("detail", why);
    draft.record(event);
    draft.finish(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::run::plan::StagePlan;

    fn stage(name: &str, kind: StageType) -> StagePlan {
        StagePlan {
            name: name.into(),
            kind,
            contexts: BTreeMap::new(),
            steps: Vec::new(),
            gates: vec![StageGate::Window],
            on_failure: OnFailure::Rollback,
            secrets: BTreeMap::new(),
        }
    }

    #[test]
    fn reduced_plan_has_only_build_and_one_stage_without_gates() {
        let stages =
            [("build", StageType::Build), ("staging", StageType::Stage), ("production", StageType::Stage)];
        let stages = stages.map(|(name, kind)| stage(name, kind)).to_vec();
        let plan = Plan { source: None, stages, analyses_failures: false };
        let cut = plan.reduce_to_stage("production", Vec::new(), |_| true).expect("a stage");
        let names: Vec<_> = cut.stages.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["build", "production"]);
        assert_eq!((cut.stages[1].gates.len(), cut.stages[1].on_failure), (0, OnFailure::None));
        assert_eq!(plan.reduce_to_stage("nowhere", Vec::new(), |_| true), None);
        assert_eq!(
            plan.reduce_to_stage("build", Vec::new(), |_| true),
            None,
            "the build is no stage to go back in"
        );
    }
}
