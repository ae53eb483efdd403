//! Declares and removes environments as the pipeline definition changes. Fences survive removal.

use super::draft::{DecisionContext, LockDraft};
use super::events;
use super::fence::Fence;
use super::lock::Lock;
use super::state::{Environment, EnvironmentCondition, LockAgenda, SessionEndReason, TicketCause};
use super::transitions::SessionEnding;
use crate::decision::{DomainRecord, RecordChange, RuleDecision};
use crate::deployment::{self, CancelCause, CancelRequest};
use crate::event::{Actor, EventKind};
use crate::id::{EnvironmentId, PipelineId};
use crate::name::EnvName;
use crate::pipeline::model::EnvironmentDefinition;
use crate::time::Timestamp;

#[derive(Debug, Clone)]
pub struct DeclareCommand {
    pub id: EnvironmentId,
    pub pipeline: PipelineId,
    pub name: EnvName,
    pub configuration: EnvironmentDefinition,
    pub definition_hash: String,
    /// The highest fence ever issued for an environment of this name in a pipeline of this name, so that fences keep
    /// increasing after a deletion.
    pub last_fence: Fence,
}

/// Creates an environment that appears in the definition for the first time.
pub fn declare(cmd: DeclareCommand, now: Timestamp) -> RuleDecision<Environment> {
    let environment = Environment {
        id: cmd.id,
        pipeline: cmd.pipeline,
        name: cmd.name,
        configuration: cmd.configuration,
        definition_hash: cmd.definition_hash,
        is_declared: true,
        fence: cmd.last_fence,
        sessions: 0,
        tickets: 0,
        deployments: 0,
        condition: EnvironmentCondition::Clean,
        deployed_commit: None,
        agenda: LockAgenda::default(),
        version: 1,
        created_at: now,
    };
    let changes = vec![RecordChange::Put(DomainRecord::Environment(Box::new(environment.clone())))];
    RuleDecision { changes, events: Vec::new(), effects: Vec::new(), answer: environment }
}

/// Updates the configuration of an environment. An active session keeps the TTL and idle timeout it started with.
pub fn redeclare(
    lock: &Lock,
    configuration: EnvironmentDefinition,
    definition_hash: String,
    moment: &DecisionContext,
) -> RuleDecision<()> {
    let mut draft = LockDraft::begin(lock, moment);
    draft.lock.environment.is_declared = true;
    draft.lock.environment.configuration = configuration;
    draft.lock.environment.definition_hash = definition_hash;
    draft.finish(())
}

/// Handles the removal of an environment from the definition: no new sessions start, waiting tickets are cancelled, and
/// the active session continues until it ends.
pub fn undeclare(lock: &Lock, moment: &DecisionContext) -> RuleDecision<()> {
    let mut draft = LockDraft::begin(lock, moment);
    draft.lock.environment.is_declared = false;
    draft.cancel_tickets(TicketCause::EnvironmentDeleted);
    draft.finish(())
}

/// Ends the active session and cancels all tickets, because the pipeline is deleted.
pub fn delete(lock: &Lock, by: Actor, moment: &DecisionContext) -> RuleDecision<()> {
    let mut draft = LockDraft::begin(lock, moment);
    draft.lock.environment.is_declared = false;
    draft.cancel_tickets(TicketCause::EnvironmentDeleted);
    end_session(&mut draft, by.clone());
    // The environment will not be used again, so resets are pointless.
    let resets: Vec<_> = draft.lock.resets().map(|reset| reset.id).collect();
    let cancel = CancelRequest { by, cause: CancelCause::EnvironmentDeleted, reason: None };
    for reset in resets {
        deployment::environment::cancel::cancel_in_draft(&mut draft, reset, &cancel);
    }
    draft.finish(())
}

fn end_session(draft: &mut LockDraft<'_>, by: Actor) {
    let ending =
        SessionEnding { reason: SessionEndReason::EnvironmentDeleted, by, why: None, successor: None };
    if let Some(session) = draft.end_session(ending) {
        let event = events::session_ended_event(EventKind::SessionReleased, &draft.lock, &session);
        draft.record(event);
    }
}
