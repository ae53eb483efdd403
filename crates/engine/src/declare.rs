//! Environments follow the definition of their pipeline.

use std::collections::BTreeMap;

use berth_core::decision::Refusal;
use berth_core::environment::Lock;
use berth_core::environment::declare::{self, Declare};
use berth_core::id::EnvironmentId;
use berth_core::name::EnvName;
use berth_core::pipeline::model::Environment as Configuration;
use berth_core::pipeline::state::Pipeline;
use berth_store::Tx;
use berth_store::tables::environment;

use crate::error::EngineError;

/// What the new definition names is there; what it no longer names lets nobody in.
pub fn declare_environments(
    tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    mut named: BTreeMap<EnvName, Configuration>,
) -> Result<(), EngineError> {
    let hash = &pipeline.definition_hash;
    for known in environment::of_pipeline(tx, pipeline.id)? {
        let (lock, moment) = (current(tx, &known)?, tx.moment()?);
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
        // It may have been there before: then its record, and its fence, go on.
        if let Some(lock) = environment::find(tx, &pipeline.id.to_string(), &name)? {
            tx.commit(declare::redeclare(&lock, configuration, hash.clone(), &moment))?;
            continue;
        }
        let last_fence = environment::last_fence(tx, &pipeline.slug, &name)?;
        let id = EnvironmentId::from_parts(moment.now, moment.entropy);
        let definition_hash = hash.clone();
        let command = Declare { id, pipeline: pipeline.id, name, configuration, definition_hash, last_fence };
        tx.commit(declare::declare(command, moment.now))?;
    }
    Ok(())
}

/// The pipeline is gone. Its sessions end with it, if that is what the caller wants.
pub fn delete_environments(
    tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    while_held: bool,
) -> Result<(), EngineError> {
    let locks = environment::of_pipeline(tx, pipeline.id)?;
    let held: Vec<_> = locks.iter().filter_map(|lock| Some((lock, lock.session.as_ref()?))).collect();
    if let (Some((lock, session)), false) = (held.first(), while_held) {
        let text = format!(
            "{} of its environments are held, {} by {}: release them, or send ?force=true to end their sessions",
            held.len(),
            lock.environment.name,
            session.holder.name
        );
        return Err(Refusal::InvalidState(text).into());
    }
    for known in &locks {
        let (lock, moment, actor) = (current(tx, known)?, tx.moment()?, tx.actor().clone());
        tx.commit(declare::delete(&lock, actor, &moment))?;
    }
    Ok(())
}

/// A decision about one environment may take tickets out of the queues of others.
fn current(tx: &mut Tx<'_>, known: &Lock) -> Result<Lock, EngineError> {
    environment::by_id(tx, known.environment.id)?.ok_or_else(|| EngineError::bug("an environment went away"))
}
