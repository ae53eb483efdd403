//! Makes a restored database safe to serve. The database may lack changes that were made after the backup.
//!
//! The epoch is raised, so that new fences are higher than any fence issued before. Sessions and tickets end, running
//! attempts get an unknown outcome, and pipelines and webhooks stay stopped until an admin resumes them.

use berth_core::environment::restore::reset_after_restore;
use berth_core::event::{Actor, EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, PipelineId, WebhookId};
use berth_core::name::Reason;
use berth_core::pipeline::state;
use berth_core::webhook::{Webhook, WebhookState};
use berth_engine;
use berth_store::tables::{
    action_link, chat_message, environment, notification, organization, pipeline, webhook,
};
use berth_store::{Store, TxContext};

use crate::error::AppError;

const WHY: &str = "the database was restored from a backup; check what is really running, then resume";
const WEBHOOKS_PAGE: i64 = 200;

/// The new epoch, and the number of records that were changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SettleReport {
    pub epoch: i64,
    pub organizations: usize,
    pub environments: usize,
    /// Number of sessions that were ended.
    pub sessions: usize,
    /// Number of attempts whose outcome became unknown.
    pub attempts: usize,
    pub pipelines: usize,
    pub webhooks: usize,
}

/// Makes a restored database safe to serve. Running it again only raises the epoch again. `given` is an epoch that is
/// known to have been used, although the database does not contain it.
pub fn settle(store: &mut Store, given: Option<i64>) -> Result<SettleReport, AppError> {
    store.raise_epoch(given)?;
    let store = &*store;
    let mut settled = SettleReport { epoch: store.epoch(), ..SettleReport::default() };
    let mut after = None;
    loop {
        let page =
            store.read_blocking(None, move |db| Ok::<_, AppError>(organization::list_ids(db, after)?))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (org, _) in page {
            settled.organizations += 1;
            // Stop pipelines first, so that freeing environments starts no deployments.
            settled.pipelines += stop_pipelines(store, org)?;
            settled.sessions += free_environments(store, org, &mut settled.environments)?;
        }
    }
    settled.webhooks = silence_webhooks(store)?;
    cancel_mails(store)?;
    settled.attempts = berth_engine::end_all(store)?;
    Ok(settled)
}

fn stop_pipelines(store: &Store, org: OrgId) -> Result<usize, AppError> {
    let (mut stopped, mut after) = (0, None);
    loop {
        let page: Vec<PipelineId> = store
            .read_blocking(Some(org), move |db| Ok::<_, AppError>(pipeline::list_active_ids(db, after)?))?;
        let Some(last) = page.last() else { return Ok(stopped) };
        after = Some(*last);
        for id in page {
            store.transact_blocking(TxContext::system(Some(org)), move |tx| {
                let Some(found) = pipeline::by_id(tx, id)? else { return Ok(()) };
                let why = Reason::parse(WHY).ok();
                let decision = state::stop(&found, Actor::system(), why, None, tx.now())?;
                tx.commit(decision).map(drop).map_err(AppError::from)
            })?;
            stopped += 1;
        }
    }
}

fn free_environments(store: &Store, org: OrgId, seen: &mut usize) -> Result<usize, AppError> {
    let (mut ended, mut after) = (0, None);
    loop {
        let page =
            store.read_blocking(Some(org), move |db| Ok::<_, AppError>(environment::list_ids(db, after)?))?;
        let Some(last) = page.last() else { return Ok(ended) };
        after = Some(*last);
        for id in page {
            *seen += 1;
            let was_held = store.transact_blocking(TxContext::system(Some(org)), move |tx| {
                let Some(lock) = environment::by_id(tx, id)? else { return Ok(false) };
                let decision = reset_after_restore(&lock, &tx.moment()?);
                tx.commit(decision)?;
                Ok::<_, AppError>(lock.session.is_some())
            })?;
            ended += usize::from(was_held);
        }
    }
}

/// Cancels due emails and chat messages, which may have been sent after the backup, and deletes all action links, because the database may
/// not know that they were used.
fn cancel_mails(store: &Store) -> Result<(), AppError> {
    store.transact_blocking(TxContext::system(None), |tx| {
        notification::cancel_mails(tx)?;
        chat_message::cancel_all(tx)?;
        Ok::<_, AppError>(action_link::delete_all(tx)?)
    })
}

/// Deactivates all webhooks, because their deliveries would repeat or contradict those sent after the backup.
fn silence_webhooks(store: &Store) -> Result<usize, AppError> {
    let (mut silenced, mut after) = (0, String::new());
    loop {
        let from = after.clone();
        let page: Vec<(OrgId, WebhookId)> = store.read_blocking(None, move |db| {
            Ok::<_, AppError>(webhook::list_everywhere(db, &from, WEBHOOKS_PAGE)?)
        })?;
        let Some((_, last)) = page.last() else { return Ok(silenced) };
        after = last.to_string();
        for (org, id) in page {
            let was_active = store.transact_blocking(TxContext::system(Some(org)), move |tx| {
                let Some(found) = webhook::by_id(tx, id)?.filter(|it| it.state == WebhookState::Active)
                else {
                    return Ok(false);
                };
                let now = tx.now();
                let state = WebhookState::Inactive { since: now, why: Some(WHY.to_owned()) };
                let next = Webhook { state, version: found.version + 1, updated_at: now, ..found };
                webhook::put(tx, &next)?;
                let subject = EventSubject::new("webhook", next.id, Some(next.name.as_str()));
                tx.record(NewEvent::new(EventKind::WebhookDeactivated, subject).with("reason", WHY))?;
                Ok::<_, AppError>(true)
            })?;
            silenced += usize::from(was_active);
        }
    }
}
