//! Synchronizes a pipeline's environments with its definition.

use std::collections::BTreeMap;

use berth_core::decision::CommandRefusal;
use berth_core::environment::Lock;
use berth_core::environment::declare::{self, DeclareCommand};
use berth_core::id::EnvironmentId;
use berth_core::name::EnvName;
use berth_core::pipeline::model::EnvironmentDefinition;
use berth_core::pipeline::state::Pipeline;
use berth_store::Tx;
use berth_store::tables::environment;

use crate::error::EngineError;

/// Creates and updates the environments that the definition declares. Environments that are no longer declared cannot
/// be claimed any more.
pub fn declare_environments(
    tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    mut named: BTreeMap<EnvName, EnvironmentDefinition>,
) -> Result<(), EngineError> {
    let hash = &pipeline.definition_hash;
    for known in environment::list_of_pipeline(tx, pipeline.id)? {
        let (lock, moment) = (reload_lock(tx, &known)?, tx.moment()?);
        match named.remove(&lock.environment.name) {
            Some(configuration) => {
                tx.commit(declare::redeclare(&lock, configuration, hash.clone(), &moment))?;
            }
            None if lock.environment.is_declared => tx.commit(declare::undeclare(&lock, &moment))?,
            None => {}
        }
    }
    for (name, configuration) in named {
        let moment = tx.moment()?;
        // An environment that is declared again keeps its record and its fence.
        if let Some(lock) = environment::find(tx, &pipeline.id.to_string(), &name)? {
            tx.commit(declare::redeclare(&lock, configuration, hash.clone(), &moment))?;
            continue;
        }
        let last_fence = environment::last_fence(tx, &pipeline.slug, &name)?;
        let id = EnvironmentId::from_parts(moment.now, moment.entropy);
        let definition_hash = hash.clone();
        let command =
            DeclareCommand { id, pipeline: pipeline.id, name, configuration, definition_hash, last_fence };
        tx.commit(declare::declare(command, moment.now))?;
    }
    Ok(())
}

/// Deletes the environments of a deleted pipeline. If an environment has an active session, this fails unless
/// `while_held` is set, in which case the session ends.
pub fn delete_environments(
    tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    while_held: bool,
) -> Result<(), EngineError> {
    let locks = environment::list_of_pipeline(tx, pipeline.id)?;
    let held: Vec<_> = locks.iter().filter_map(|lock| Some((lock, lock.session.as_ref()?))).collect();
    if let (Some((lock, session)), false) = (held.first(), while_held) {
        let text = format!(
            "{} of its environments are held, {} by {}: release them, or send ?force=true to end their sessions",
            held.len(),
            lock.environment.name,
            session.holder.name
        );
        return Err(CommandRefusal::InvalidState(text).into());
    }
    for known in &locks {
        let (lock, moment, actor) = (reload_lock(tx, known)?, tx.moment()?, tx.actor().clone());
        tx.commit(declare::delete(&lock, actor, &moment))?;
    }
    Ok(())
}

/// Reloads the lock, because a decision about one environment may remove tickets from the queues of other environments.
fn reload_lock(tx: &mut Tx<'_>, known: &Lock) -> Result<Lock, EngineError> {
    environment::by_id(tx, known.environment.id)?.ok_or_else(|| EngineError::bug("an environment went away"))
}
