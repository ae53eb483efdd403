//! The plan of a rollback: the pinned plan of an earlier deployment, cut down to one stage, with the results of its
//! build.

use std::collections::BTreeMap;

use super::begin::Built;
use super::draft::Draft;
use super::plan::{Gate, Plan, StageKind, When};
use super::state::{Run, StageStatus, StepRun, StepStatus};
use crate::decision::Decision;
use crate::event::EventKind;
use crate::pipeline::grammar::StepId;
use crate::pipeline::model::OnFailure;
use crate::time::Timestamp;

impl Plan {
    /// The build and one stage. Soaks are removed, as are approval steps for which `is_approved` returns true. A failed
    /// rollback is not rolled back in turn.
    pub fn only(&self, stage: &str, gates: Vec<Gate>, is_approved: impl Fn(&StepId) -> bool) -> Option<Self> {
        let mut found =
            self.stages.iter().find(|it| it.kind == StageKind::Stage && it.name == stage)?.clone();
        (found.gates, found.on_failure) = (gates, OnFailure::None);
        for step in &mut found.steps {
            if step.is_soak() || (step.is_approval() && is_approved(&step.id)) {
                step.when = When::Never;
            }
        }
        let build = self.stages.iter().find(|it| it.kind == StageKind::Build).cloned();
        let stages = build.into_iter().chain([found]).collect();
        Some(Self { source: self.source.clone(), stages, analyses_failures: self.analyses_failures })
    }
}

impl Run {
    /// The results of the build; `None` if there is no build or it did not succeed.
    pub fn built(&self) -> Option<Built> {
        let build = self.stages.iter().position(|it| it.kind == StageKind::Build)?;
        let stage = &self.stages[build];
        if stage.status != StageStatus::Succeeded {
            return None;
        }
        let mut steps = BTreeMap::new();
        for step in self.steps.iter().filter(|it| it.stage == build && it.status == StepStatus::Succeeded) {
            steps.insert(step.index, (step.outputs.clone(), step.artifacts.clone()));
        }
        Some(Built { by: stage.reused_from.unwrap_or(self.deployment), steps })
    }

    /// Whether a step of a stage has succeeded.
    pub fn has_done(&self, stage: &str, step: &StepId) -> bool {
        let is_it = |it: &StepRun| self.stages[it.stage].name == stage && it.step == *step;
        self.steps.iter().any(|it| is_it(it) && it.status == StepStatus::Succeeded)
    }

    /// The digest of the artifact that the stage saw under this name when it began.
    pub fn kept_before(&self, stage: &str, name: &str) -> Option<String> {
        let stage = self.stages.iter().position(|it| it.name == stage)?;
        let earlier = self.steps.iter().rev().filter(|it| it.stage < stage);
        earlier.filter_map(|it| it.artifacts.get(name)).next().cloned()
    }

    /// Whether any step of the stage ever ran; otherwise there is nothing to roll back.
    pub fn has_touched(&self, stage: usize) -> bool {
        self.of_stage(stage).any(|at| self.steps[at].tries > 0)
    }
}

/// Records why a failed stage could not be rolled back.
pub fn stay(run: &Run, plan: &Plan, stage: usize, why: &str, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some(failure) = &mut draft.stage(stage).failure {
        failure.detail = format!("{}; it was not rolled back: {why}", failure.detail);
    }
    let event = draft.about_stage(EventKind::RollbackSkipped, stage).with("detail", why);
    draft.record(event);
    draft.finish(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::run::plan::PlannedStage;

    fn stage(name: &str, kind: StageKind) -> PlannedStage {
        PlannedStage {
            name: name.into(),
            kind,
            contexts: BTreeMap::new(),
            steps: Vec::new(),
            gates: vec![Gate::Window],
            on_failure: OnFailure::Rollback,
            secrets: BTreeMap::new(),
        }
    }

    #[test]
    fn a_plan_is_cut_down_to_its_build_and_one_stage_that_nothing_holds_and_nothing_follows() {
        let stages =
            [("build", StageKind::Build), ("staging", StageKind::Stage), ("production", StageKind::Stage)];
        let stages = stages.map(|(name, kind)| stage(name, kind)).to_vec();
        let plan = Plan { source: None, stages, analyses_failures: false };
        let cut = plan.only("production", Vec::new(), |_| true).expect("a stage");
        let names: Vec<_> = cut.stages.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["build", "production"]);
        assert_eq!((cut.stages[1].gates.len(), cut.stages[1].on_failure), (0, OnFailure::None));
        assert_eq!(plan.only("nowhere", Vec::new(), |_| true), None);
        assert_eq!(plan.only("build", Vec::new(), |_| true), None, "the build is no stage to go back in");
    }
}
