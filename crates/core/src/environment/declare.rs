//! Declares and removes environments as the pipeline definition changes. Fences survive removal.

use super::draft::{Draft, Moment};
use super::fence::Fence;
use super::lock::Lock;
use super::moves::Ending;
use super::state::{Agenda, Condition, EndReason, Environment, TicketCause};
use super::telling;
use crate::decision::{Change, Decision, Record};
use crate::deployment::{self, Cancel, CancelCause};
use crate::event::{Actor, EventKind};
use crate::id::{EnvironmentId, PipelineId};
use crate::name::EnvName;
use crate::pipeline::model::Environment as Configuration;
use crate::time::Timestamp;

#[derive(Debug, Clone)]
pub struct Declare {
    pub id: EnvironmentId,
    pub pipeline: PipelineId,
    pub name: EnvName,
    pub configuration: Configuration,
    pub definition_hash: String,
    /// The highest fence that an environment of this name ever had in a pipeline of this name.
    pub last_fence: Fence,
}

/// Creates an environment that appears in the definition for the first time.
pub fn declare(cmd: Declare, now: Timestamp) -> Decision<Environment> {
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
        condition: Condition::Clean,
        deployed_commit: None,
        agenda: Agenda::default(),
        version: 1,
        created_at: now,
    };
    let changes = vec![Change::Put(Record::Environment(Box::new(environment.clone())))];
    Decision { changes, events: Vec::new(), effects: Vec::new(), answer: environment }
}

/// Updates the configuration of an environment. An active session keeps its old terms.
pub fn redeclare(
    lock: &Lock,
    configuration: Configuration,
    definition_hash: String,
    moment: &Moment,
) -> Decision<()> {
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.is_declared = true;
    draft.lock.environment.configuration = configuration;
    draft.lock.environment.definition_hash = definition_hash;
    draft.finish(())
}

/// Removes an environment from the definition: no new sessions; the active one continues until it ends.
pub fn undeclare(lock: &Lock, moment: &Moment) -> Decision<()> {
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.is_declared = false;
    draft.dissolve(TicketCause::EnvironmentDeleted);
    draft.finish(())
}

/// Ends the active session and the queue because the pipeline is deleted.
pub fn delete(lock: &Lock, by: Actor, moment: &Moment) -> Decision<()> {
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.is_declared = false;
    draft.dissolve(TicketCause::EnvironmentDeleted);
    end(&mut draft, by.clone());
    // A reset would restore the environment for no one.
    let resets: Vec<_> = draft.lock.resets().map(|reset| reset.id).collect();
    let cancel = Cancel { by, cause: CancelCause::EnvironmentDeleted, reason: None };
    for reset in resets {
        deployment::environment::cancel::apply(&mut draft, reset, &cancel);
    }
    draft.finish(())
}

fn end(draft: &mut Draft<'_>, by: Actor) {
    let ending = Ending { reason: EndReason::EnvironmentDeleted, by, why: None, successor: None };
    if let Some(session) = draft.end(ending) {
        let event = telling::ended(EventKind::SessionReleased, &draft.lock, &session);
        draft.record(event);
    }
}
