//! An analysis and its state transitions: queued, running, then succeeded or failed. A finished analysis never changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::{Actor, EventKind, EventSubject, NewEvent};
use crate::id::{AnalysisId, DeploymentId, PipelineId, RepositoryId, StepRunId};
use crate::pipeline::grammar::StepId;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    pub id: AnalysisId,
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    pub stage: String,
    pub step: StepRunId,
    /// The step's id in the definition.
    pub step_name: StepId,
    /// The number of the failed attempt; zero if the step never ran.
    pub attempt: u32,
    /// The repository that the failed commit came from; `None` if the pipeline has no repository.
    pub repository: Option<RepositoryId>,
    pub commit: Option<String>,
    pub asked_by: Actor,
    pub state: AnalysisState,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    /// Increases by one with every change.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AnalysisState {
    Queued,
    Running,
    Succeeded { at: Timestamp, answer: Box<AnalysisOutput> },
    Failed { at: Timestamp, error: String },
}

impl AnalysisState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            AnalysisState::Queued => "queued",
            AnalysisState::Running => "running",
            AnalysisState::Succeeded { .. } => "succeeded",
            AnalysisState::Failed { .. } => "failed",
        }
    }

    pub const fn is_final(&self) -> bool {
        matches!(self, AnalysisState::Succeeded { .. } | AnalysisState::Failed { .. })
    }
}

/// The result of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisOutput {
    /// `rules`, or the provider and model, such as `anthropic/some-model`.
    pub analyser: String,
    /// Identical failures have the same fingerprint.
    pub fingerprint: String,
    /// The findings in the analyser's own format.
    pub result: Value,
    pub fix: Option<SuggestedFix>,
    /// Why the configured analyser was not used, or which part of the model's response was discarded.
    pub note: Option<String>,
    /// The earlier analysis of the same failure whose result was reused.
    pub reused_from: Option<AnalysisId>,
    /// The model's token usage; `None` if no model was used.
    pub usage: Option<TokenUsage>,
}

/// A change that would fix the failure, as a diff against the failing commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestedFix {
    /// One line, suitable as a commit subject.
    pub summary: String,
    /// In the format of `git diff`.
    pub diff: String,
}

/// Tokens as counted by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
}

impl TokenUsage {
    pub const fn total(self) -> i64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

/// A request to analyze a failed step.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAnalysis {
    pub id: AnalysisId,
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    pub stage: String,
    pub step: StepRunId,
    pub step_name: StepId,
    pub attempt: u32,
    pub repository: Option<RepositoryId>,
    pub commit: Option<String>,
    pub asked_by: Actor,
}

impl Analysis {
    pub fn request(new: NewAnalysis, now: Timestamp) -> RuleDecision<Analysis> {
        let made = Analysis {
            id: new.id,
            deployment: new.deployment,
            pipeline: new.pipeline,
            stage: new.stage,
            step: new.step,
            step_name: new.step_name,
            attempt: new.attempt,
            repository: new.repository,
            commit: new.commit,
            asked_by: new.asked_by,
            state: AnalysisState::Queued,
            created_at: now,
            started_at: None,
            version: 1,
        };
        let event = made.event(EventKind::AnalysisRequested);
        put_analysis(made, event)
    }

    /// Starts the analysis. `None` if it is not queued any more.
    pub fn begin(&self, now: Timestamp) -> Option<RuleDecision<Analysis>> {
        if self.state != AnalysisState::Queued {
            return None;
        }
        let next = Analysis { started_at: Some(now), ..self.with_state(AnalysisState::Running) };
        let event = next.event(EventKind::AnalysisStarted);
        Some(put_analysis(next, event))
    }

    pub fn succeed(
        &self,
        answer: AnalysisOutput,
        now: Timestamp,
    ) -> Result<RuleDecision<Analysis>, CommandRefusal> {
        self.check_running()?;
        let event = self
            .event(EventKind::AnalysisSucceeded)
            .with("analyser", answer.analyser.as_str())
            .with("fingerprint", answer.fingerprint.as_str())
            .with("hasFix", answer.fix.is_some())
            .with_some("reusedFrom", answer.reused_from);
        Ok(put_analysis(
            self.with_state(AnalysisState::Succeeded { at: now, answer: Box::new(answer) }),
            event,
        ))
    }

    pub fn fail(&self, error: String, now: Timestamp) -> Result<RuleDecision<Analysis>, CommandRefusal> {
        self.check_running()?;
        let event = self.event(EventKind::AnalysisFailed).with("error", error.as_str());
        Ok(put_analysis(self.with_state(AnalysisState::Failed { at: now, error }), event))
    }

    /// The result, if the analysis has succeeded.
    pub fn output(&self) -> Option<&AnalysisOutput> {
        match &self.state {
            AnalysisState::Succeeded { answer, .. } => Some(answer),
            AnalysisState::Queued | AnalysisState::Running | AnalysisState::Failed { .. } => None,
        }
    }

    pub fn finished_at(&self) -> Option<Timestamp> {
        match &self.state {
            AnalysisState::Succeeded { at, .. } | AnalysisState::Failed { at, .. } => Some(*at),
            AnalysisState::Queued | AnalysisState::Running => None,
        }
    }

    /// Builds an event whose subjects are the analysis and its deployment, pipeline and step.
    pub fn event(&self, kind: EventKind) -> NewEvent {
        NewEvent::new(kind, EventSubject::new("analysis", self.id, None))
            .with_subject(EventSubject::new("deployment", self.deployment, None))
            .with_subject(EventSubject::new("pipeline", self.pipeline, None))
            .with_subject(EventSubject::new("step", self.step, Some(self.step_name.as_str())))
            .with("stage", self.stage.as_str())
            .with("attempt", self.attempt)
    }

    fn check_running(&self) -> Result<(), CommandRefusal> {
        match self.state {
            AnalysisState::Running => Ok(()),
            _ => Err(CommandRefusal::InvalidState(format!("the analysis is {}", self.state.as_str()))),
        }
    }

    fn with_state(&self, state: AnalysisState) -> Self {
        Self { state, version: self.version + 1, ..self.clone() }
    }
}

fn put_analysis(analysis: Analysis, event: NewEvent) -> RuleDecision<Analysis> {
    RuleDecision {
        changes: vec![RecordChange::Put(DomainRecord::Analysis(Box::new(analysis.clone())))],
        events: vec![event],
        effects: Vec::new(),
        answer: analysis,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued_analysis() -> Analysis {
        let at = |micros| Timestamp::from_micros(micros);
        let new = NewAnalysis {
            id: AnalysisId::from_parts(at(1), [1; 10]),
            deployment: DeploymentId::from_parts(at(1), [2; 10]),
            pipeline: PipelineId::from_parts(at(1), [3; 10]),
            stage: "dev".into(),
            step: StepRunId::from_parts(at(1), [4; 10]),
            step_name: StepId::parse("build").unwrap(),
            attempt: 1,
            repository: None,
            commit: None,
            asked_by: Actor::system(),
        };
        Analysis::request(new, at(1)).answer
    }

    #[test]
    fn analysis_begins_and_ends_once() {
        let now = Timestamp::from_micros(2);
        let queued = queued_analysis();
        assert!(queued.fail("no".into(), now).is_err(), "what has not begun cannot end");
        let running = queued.begin(now).unwrap().answer;
        assert!(running.begin(now).is_none());
        let decision = running.fail("no log".into(), now).unwrap();
        assert_eq!(decision.events.len(), 1);
        let failed = decision.answer;
        assert_eq!((failed.state.as_str(), failed.version), ("failed", 3));
        assert!(failed.begin(now).is_none() && failed.fail("again".into(), now).is_err());
    }
}
