//! Reduces a definition to one stage or environment, for a run on the developer's machine.
//!
//! Gates, approvals and soaks are left out, because a local run only executes the work of the stage. Each omission adds
//! a note for the user.

use std::collections::BTreeSet;
use std::fmt;

use berth_core::pipeline::grammar::{SecretName, StepId};
use berth_core::pipeline::model::{
    OnFailure, PipelineDefinition, ReleaseAction, StepCondition, StepDefinition, StepType,
};
use berth_core::pipeline::secrets::StepPhase;
use berth_core::step::BuiltinStepType;
use berth_core::wording::{hint, join_words, quote};

/// The stage or environment that the user selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalTargetChoice<'w> {
    /// The first stage or, if there are no stages, the only environment.
    Any,
    Stage(&'w str),
    Environment(&'w str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalTarget {
    Stage(String),
    Environment(String),
}

impl LocalTarget {
    pub fn name(&self) -> &str {
        let (LocalTarget::Stage(name) | LocalTarget::Environment(name)) = self;
        name
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LocalDefinition {
    /// The definition reduced to the selected stage or environment.
    pub definition: PipelineDefinition,
    pub place: LocalTarget,
    /// Sentences that say what differs from a run on a server.
    pub notes: Vec<String>,
}

/// Why the definition cannot be run locally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalRunError {
    Unknown(String),
    Unclear(String),
    Custom(String),
}

impl fmt::Display for LocalRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (LocalRunError::Unknown(text) | LocalRunError::Unclear(text) | LocalRunError::Custom(text)) =
            self;
        f.write_str(text)
    }
}

/// Reduces a definition. `steps` are the ids of the steps to run; empty means all.
pub fn reduce_to_target(
    definition: PipelineDefinition,
    wanted: LocalTargetChoice<'_>,
    steps: &[String],
) -> Result<LocalDefinition, LocalRunError> {
    let place = find_target(&definition, wanted)?;
    let mut alone = LocalDefinition { definition, place, notes: Vec::new() };
    alone.reduce_to_place();
    alone.choose_steps(steps)?;
    alone.leave_out_waits();
    alone.clear_labels();
    alone.clear_id_tokens();
    alone.refuse_custom()?;
    Ok(alone)
}

fn find_target(
    definition: &PipelineDefinition,
    wanted: LocalTargetChoice<'_>,
) -> Result<LocalTarget, LocalRunError> {
    let stages: Vec<&str> = definition.stages.iter().map(|it| it.name.as_str()).collect();
    let environments: Vec<&str> =
        definition.ephemeral_environments.keys().map(berth_core::name::EnvName::as_str).collect();
    match wanted {
        LocalTargetChoice::Stage(name) if stages.contains(&name) => Ok(LocalTarget::Stage(name.to_owned())),
        LocalTargetChoice::Stage(name) if environments.contains(&name) => Err(LocalRunError::Unknown(
            format!("{} is an environment, not a stage: run it with `--env {name}`", quote(name)),
        )),
        LocalTargetChoice::Stage(name) => {
            Err(LocalRunError::Unknown(format!("there is no stage {}{}", quote(name), hint(name, stages).0)))
        }
        LocalTargetChoice::Environment(name) if environments.contains(&name) => {
            Ok(LocalTarget::Environment(name.to_owned()))
        }
        LocalTargetChoice::Environment(name) => Err(LocalRunError::Unknown(format!(
            "there is no environment {}{}",
            quote(name),
            hint(name, environments).0
        ))),
        LocalTargetChoice::Any => match (stages.as_slice(), environments.as_slice()) {
            ([first, ..], _) => Ok(LocalTarget::Stage((*first).to_owned())),
            ([], [only]) => Ok(LocalTarget::Environment((*only).to_owned())),
            ([], several) => Err(LocalRunError::Unclear(format!(
                "it has no stages, and several environments: say which with --env: {}",
                join_words(several.iter().copied(), "or")
            ))),
        },
    }
}

impl LocalDefinition {
    /// The secrets that the remaining steps use.
    pub fn secrets(&self) -> BTreeSet<SecretName> {
        let skip = self.skip();
        let is_run = |phase: StepPhase, id: &StepId| match phase {
            StepPhase::Build => self.definition.build.iter().any(|step| step.id == *id && is_enabled(step)),
            StepPhase::Stages => !skip.contains(id),
        };
        let uses = self.definition.secrets_used().into_iter();
        uses.filter(|it| is_run(it.phase, &it.step)).map(|it| it.name).collect()
    }

    /// Whether one of the remaining steps runs in a container or builds an image.
    pub fn uses_container_engine(&self) -> bool {
        let skip = self.skip();
        let steps = self.definition.steps.iter().filter(|step| !skip.contains(&step.id));
        let mut steps = self.definition.build.iter().filter(|step| is_enabled(step)).chain(steps);
        let builds_image = StepType::Builtin(BuiltinStepType::ImageBuild);
        steps.any(|step| step.container.is_some() || step.kind == builds_image)
    }

    fn reduce_to_place(&mut self) {
        let definition = &mut self.definition;
        definition.notifications.clear();
        definition.analysis.on_failure = false;
        let name = self.place.name().to_owned();
        match self.place {
            LocalTarget::Environment(_) => {
                definition.stages.clear();
                definition.ephemeral_environments.retain(|it, _| it.as_str() == name);
                for environment in definition.ephemeral_environments.values_mut() {
                    (environment.ttl, environment.on_release) = (None, ReleaseAction::None);
                    environment.triggers.clear();
                    environment.release.clear();
                }
            }
            LocalTarget::Stage(_) => {
                definition.ephemeral_environments.clear();
                definition.stages.retain(|it| it.name.as_str() == name);
                for stage in &mut definition.stages {
                    if let Some(requires) = stage.requires.take() {
                        let noun = if requires.approvals == 1 { "approval" } else { "approvals" };
                        let count = requires.approvals;
                        self.notes.push(format!(
                            "{name} asks for {count} {noun}: approvals are not requested here"
                        ));
                    }
                    if stage.window.take().is_some() {
                        self.notes.push(format!("{name} has a window: it is always open here"));
                    }
                    if std::mem::take(&mut stage.on_failure) == OnFailure::Rollback {
                        self.notes.push(format!("{name} is rolled back when it fails: nothing is here"));
                    }
                }
            }
        }
    }

    fn skip(&self) -> BTreeSet<StepId> {
        let stages = self.definition.stages.iter().map(|it| &it.skip);
        let environments = self.definition.ephemeral_environments.values().map(|it| &it.skip);
        stages.chain(environments).flatten().cloned().collect()
    }

    fn skip_also(&mut self, ids: &BTreeSet<StepId>) {
        let stages = self.definition.stages.iter_mut().map(|it| &mut it.skip);
        let environments = self.definition.ephemeral_environments.values_mut().map(|it| &mut it.skip);
        for skip in stages.chain(environments) {
            skip.extend(ids.iter().cloned());
        }
    }

    /// Skips the steps that were not chosen. Also skips the build, unless a chosen step uses it.
    fn choose_steps(&mut self, chosen: &[String]) -> Result<(), LocalRunError> {
        if chosen.is_empty() {
            return Ok(());
        }
        let (build, steps) = (&self.definition.build, &self.definition.steps);
        let skipped = self.skip();
        for id in chosen {
            let known: Vec<&str> = build.iter().chain(steps).map(|step| step.id.as_str()).collect();
            if !known.contains(&id.as_str()) {
                let text = format!("there is no step {}{}", quote(id), hint(id, known).0);
                return Err(LocalRunError::Unknown(text));
            }
            if skipped.iter().any(|it| it.as_str() == id) {
                let place = self.place.name();
                return Err(LocalRunError::Unknown(format!("{place} skips the step {}", quote(id))));
            }
        }
        let is_chosen = |step: &StepDefinition| chosen.iter().any(|id| step.id.as_str() == id);
        let uses_build = steps.iter().filter(|step| is_chosen(step)).any(uses_build);
        let others: BTreeSet<StepId> =
            steps.iter().filter(|step| !is_chosen(step)).map(|step| step.id.clone()).collect();
        for step in self.definition.build.iter_mut().filter(|step| !uses_build && !is_chosen(step)) {
            step.condition = Some(StepCondition("false".to_owned()));
        }
        self.skip_also(&others);
        Ok(())
    }

    fn leave_out_waits(&mut self) {
        let skipped = self.skip();
        let mut left_out = BTreeSet::new();
        for step in self.definition.steps.iter().filter(|step| !skipped.contains(&step.id)) {
            let why = match step.kind {
                StepType::Builtin(BuiltinStepType::Approval) => "approvals are not requested here",
                StepType::Builtin(BuiltinStepType::Soak) => "nothing is waited for here",
                _ => continue,
            };
            self.notes.push(format!("the step {} is left out: {why}", step.id));
            left_out.insert(step.id.clone());
        }
        self.skip_also(&left_out);
    }

    fn clear_labels(&mut self) {
        for step in self.definition.build.iter_mut().chain(&mut self.definition.steps) {
            step.runs_on.clear();
        }
    }

    fn clear_id_tokens(&mut self) {
        for step in self.definition.build.iter_mut().chain(&mut self.definition.steps) {
            if step.id_token.take().is_some() {
                self.notes.push(format!("the step {} gets no ID token: only a server issues them", step.id));
            }
        }
    }

    fn refuse_custom(&self) -> Result<(), LocalRunError> {
        let skipped = self.skip();
        let run = self.definition.steps.iter().filter(|step| !skipped.contains(&step.id));
        let custom = self.definition.build.iter().filter(|step| is_enabled(step)).chain(run);
        let custom = custom.filter(|step| matches!(step.kind, StepType::Custom(_)));
        let ids: Vec<&str> = custom.map(|step| step.id.as_str()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        Err(LocalRunError::Custom(format!(
            "{} from a registry, which only a server has: choose others with --step, and try the registry itself with `berth registry test`",
            match ids.as_slice() {
                [one] => format!("the step {one} is"),
                several => format!("the steps {} are", join_words(several.iter().copied(), "and")),
            }
        )))
    }
}

fn is_enabled(step: &StepDefinition) -> bool {
    step.condition.as_ref().is_none_or(|it| it.0 != "false")
}

/// Whether a step uses results of the build. A false positive is harmless: it only causes an unnecessary build.
fn uses_build(step: &StepDefinition) -> bool {
    let values =
        step.env.values().cloned().chain([serde_json::Value::Object(step.params.clone()).to_string()]);
    let condition = step.condition.iter().map(|it| it.0.clone());
    !step.needs_artifacts.is_empty() || values.chain(condition).any(|text| text.contains("build."))
}
