//! Sends due messages to chats: one message per destination or person with everything that is due.

use std::sync::Arc;

use berth_core::access::Action;
use berth_core::chat::{ChatAttempt, ChatDestination, ChatMessage};
use berth_core::id::{ChatDestinationId, OrgId, SessionId, UserId};
use berth_core::notification::LinkAction;
use berth_engine::Services;
use berth_engine::admission::{AdmissionCapacity, AdmissionControl};
use berth_store::pagination::FairBatch;
use berth_store::tables::{
    chat_destination, chat_message, forge_account, organization, session, slack_connection,
};
use berth_store::{StoreRead, Tx, TxContext};

use super::page::page_of;
use super::people::load_recipient_access;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::chat::{ChatContent, ChatItem, ChatRecipient, SlackApi};
use crate::limits::NOTIFICATIONS_PER_CHAT_MESSAGE_MAX;
use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Maximum number of messages being sent at the same time. Several, so that chats that do not respond delay no others.
const SENDS_AT_ONCE: usize = 16;
/// The share of one organization.
const SENDS_PER_ORGANIZATION: AdmissionCapacity = AdmissionCapacity::new(SENDS_AT_ONCE, 4);
/// One message per target at a time, so that a digest is not split.
const SENDS_PER_TARGET: AdmissionCapacity = AdmissionCapacity::new(SENDS_AT_ONCE, 1);
/// Targets with due messages that are read per query. The share is above [`SENDS_PER_ORGANIZATION`], because targets that
/// are being sent to are read, too.
const DUE: FairBatch = FairBatch { total: 1_000, share: 8 };

/// Maximum length of a notification in a message, because chats limit the size of messages.
const SUMMARY_CHARS_MAX: usize = 500;

/// Background job that sends messages to chats.
pub(crate) struct ChatSender {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    organizations: AdmissionControl<OrgId>,
    targets: AdmissionControl<String>,
}

impl ChatSender {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        let organizations = AdmissionControl::without_queue(SENDS_PER_ORGANIZATION);
        Self { services, config, organizations, targets: AdmissionControl::without_queue(SENDS_PER_TARGET) }
    }
}

impl BackgroundJob for ChatSender {
    const NAME: &'static str = "chat messages";
    const LANES: usize = SENDS_AT_ONCE;

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let due = self.services.store.read(None, |db| Ok::<_, AppError>(chat_message::list_due(db, DUE)?));
        for (org, target) in due.await? {
            let Some(_of_organization) = self.organizations.try_enter(org) else { continue };
            if let Some(_of_target) = self.targets.try_enter(target.clone()) {
                return send_to(self, org, target).await;
            }
        }
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A message, and the entries of the outbox in it.
struct PreparedMessage {
    recipient: ChatRecipient,
    content: ChatContent,
    entries: Vec<ChatMessage>,
    destination: Option<ChatDestinationId>,
}

/// Sends one message with everything that is due for a target.
async fn send_to(job: &ChatSender, org: OrgId, target: String) -> Result<TurnResult, AppError> {
    let composer = ChatComposer { services: job.services.clone(), base_url: job.config.base_url(), org };
    let name = target.clone();
    let prepared =
        job.services.store.transact(TxContext::system(Some(org)), move |tx| composer.prepare(tx, &target));
    let Some(PreparedMessage { recipient, content, entries, destination }) = prepared.await? else {
        return Ok(TurnResult::Idle);
    };
    let attempt = recipient.send(&job.services.egress, content).await?;
    if let ChatAttempt::Failed { why, .. } = &attempt {
        let failures = entries.iter().map(|it| it.failures).max().unwrap_or(0);
        tracing::warn!(error = why, target_id = name, failures, "message to a chat not sent");
    }
    let recorded = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        for entry in &entries {
            chat_message::put_attempt(tx, entry, &entry.record_attempt(&attempt, now))?;
        }
        match (destination, &attempt) {
            (None, _) => {}
            (Some(id), ChatAttempt::Sent) => chat_destination::record_success(tx, id)?,
            (Some(id), ChatAttempt::Failed { why, .. }) => chat_destination::record_failure(tx, id, why)?,
        }
        Ok::<_, AppError>(())
    });
    recorded.await?;
    Ok(TurnResult::Again)
}

struct ChatComposer {
    services: Arc<Services>,
    base_url: String,
    org: OrgId,
}

impl ChatComposer {
    /// Composes a message. `None` if nothing is to be sent any more.
    fn prepare(&self, tx: &mut Tx<'_>, target: &str) -> Result<Option<PreparedMessage>, AppError> {
        let entries = chat_message::list_due_of(tx, target, NOTIFICATIONS_PER_CHAT_MESSAGE_MAX)?;
        let mut person = None;
        let (recipient, entries, destination) = match target.parse::<ChatDestinationId>() {
            Ok(id) => {
                let found = chat_destination::by_id(tx, id)?;
                let recipient = found.map(|found| self.find_destination(tx, &found)).transpose()?.flatten();
                (recipient, entries, Some(id))
            }
            Err(_) => {
                let user: UserId = target.parse().map_err(|_| AppError::bug("odd target of a message"))?;
                person = Some(user);
                (self.find_person(tx, user)?, keep_visible(tx, user, entries)?, None)
            }
        };
        let Some(recipient) = recipient else {
            chat_message::cancel_of_target(tx, target)?;
            return Ok(None);
        };
        let Some(organization) = organization::by_id(tx, self.org)? else { return Ok(None) };
        if entries.is_empty() {
            return Ok(None);
        }
        let base = format!("{}/o/{}", self.base_url, organization.slug);
        let mut items = Vec::new();
        for entry in &entries {
            items.push(ChatItem {
                summary: entry.summary.chars().take(SUMMARY_CHARS_MAX).collect(),
                url: page_of(&entry.subject).map(|page| format!("{base}{page}")),
                buttons: list_buttons(tx, entry, person)?,
            });
        }
        Ok(Some(PreparedMessage { recipient, content: ChatContent { items }, entries, destination }))
    }

    /// `None` if the organization is no longer connected to Slack.
    fn find_destination(
        &self,
        db: &mut impl StoreRead,
        found: &ChatDestination,
    ) -> Result<Option<ChatRecipient>, AppError> {
        if let Some(channel) = &found.channel {
            let api = self.load_slack(db)?.map(|(api, _)| api);
            return Ok(api.map(|api| ChatRecipient::Slack { api, channel: channel.clone() }));
        }
        let Some(sealed) = chat_destination::load_url(db, found.id)? else { return Ok(None) };
        let url = self.services.vault.open_chat_url(db, self.org, found.id, &sealed)?;
        Ok(Some(ChatRecipient::Webhook { kind: found.kind, url }))
    }

    /// `None` if the person no longer has a linked Slack account.
    fn find_person(
        &self,
        db: &mut impl StoreRead,
        person: UserId,
    ) -> Result<Option<ChatRecipient>, AppError> {
        let Some((api, host)) = self.load_slack(db)? else { return Ok(None) };
        let linked = forge_account::list_of_member(db, person)?.into_iter().find(|it| it.host == host);
        Ok(linked.map(|it| ChatRecipient::Slack { api, channel: it.account.id }))
    }

    /// The Slack app, and the host under which accounts are linked.
    fn load_slack(&self, db: &mut impl StoreRead) -> Result<Option<(SlackApi, String)>, AppError> {
        let (Some(found), Some(sealed)) =
            (slack_connection::find(db)?, slack_connection::load_bot_token(db)?)
        else {
            return Ok(None);
        };
        let vault = &self.services.vault;
        let token = vault.open_slack_bot_token(db, self.org, &found.workspace_id, &sealed)?;
        let host = found.account_host();
        Ok(Some((SlackApi { url: found.api_url, token }, host)))
    }
}

/// Leaves out the events that the person may no longer see, and cancels them.
fn keep_visible(
    tx: &mut Tx<'_>,
    person: UserId,
    entries: Vec<ChatMessage>,
) -> Result<Vec<ChatMessage>, AppError> {
    let access = load_recipient_access(tx, person)?;
    let (visible, hidden): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
        access.as_ref().is_some_and(|access| {
            access.may_everywhere(Action::EventsRead)
                || access.may(Action::EventsRead, &entry.subject.target())
        })
    });
    for entry in hidden {
        chat_message::put_attempt(tx, &entry, &ChatMessage { due_at: None, ..entry.clone() })?;
    }
    Ok(visible)
}

/// The buttons of a notification. Those for a session are offered only while an account holds it, and in a direct message
/// only if it is the recipient's.
fn list_buttons(
    db: &mut impl StoreRead,
    entry: &ChatMessage,
    person: Option<UserId>,
) -> Result<Vec<(LinkAction, String)>, AppError> {
    let Some(cause) = entry.cause else { return Ok(Vec::new()) };
    let subject = &entry.subject;
    let id: Option<SessionId> = subject.session_id.as_ref().and_then(|id| id.parse().ok());
    let found = id.map(|id| session::by_id(db, id)).transpose()?.flatten();
    let is_own_account = found.is_some_and(|it| {
        it.end.is_none()
            && it.holder.session_token.is_none()
            && person.is_none_or(|person| it.holder.id == person)
    });
    let actions = LinkAction::of_notification(cause, subject, is_own_account).iter();
    let buttons = actions.filter_map(|&action| action.target_id(subject).map(|id| (action, id.to_owned())));
    Ok(buttons.collect())
}
