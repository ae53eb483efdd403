//! Sends due notifications by email: one email per person with everything that is due.

use std::sync::Arc;

use berth_core::access::Action;
use berth_core::id::{ActionLinkId, OrgId, SessionId, UserId};
use berth_core::name::Email;
use berth_core::notification::{LinkAction, Notification, SEND_TRIES_MAX, record_mail};
use berth_engine::Services;
use berth_engine::admission::{AdmissionCapacity, AdmissionControl};
use berth_store::pagination::FairBatch;
use berth_store::tables::action_link::{self, ActionLink};
use berth_store::tables::{notification, organization, session, user};
use berth_store::{StoreRead, Tx, TxContext};

use super::page::page_of;
use super::people::load_recipient_access;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::action_links;
use crate::integrations::mail::{MailMessage, SmtpConfig};
use crate::limits::{ACTION_LINK_S, NOTIFICATIONS_PER_MAIL_MAX};
use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Maximum number of emails being sent at the same time.
const MAILS_AT_ONCE: usize = 4;
/// The share of one organization.
const MAILS_PER_ORGANIZATION: AdmissionCapacity = AdmissionCapacity::new(MAILS_AT_ONCE, 2);
/// One email per person at a time, so that a digest is not split.
const MAILS_PER_PERSON: AdmissionCapacity = AdmissionCapacity::new(MAILS_AT_ONCE, 1);
/// People with due emails that are read per query. The share is above [`MAILS_PER_ORGANIZATION`], because people whose
/// email is being sent are read, too.
const DUE: FairBatch = FairBatch { total: 100, share: 4 };

/// Background job that sends notifications by email. It is the only job that talks to the SMTP server.
pub(crate) struct NotificationMailer {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    organizations: AdmissionControl<OrgId>,
    people: AdmissionControl<UserId>,
}

impl NotificationMailer {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        let organizations = AdmissionControl::without_queue(MAILS_PER_ORGANIZATION);
        Self { services, config, organizations, people: AdmissionControl::without_queue(MAILS_PER_PERSON) }
    }
}

impl BackgroundJob for NotificationMailer {
    const NAME: &'static str = "notification emails";
    const LANES: usize = MAILS_AT_ONCE;

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let Some(smtp) = &self.config.smtp else { return Ok(TurnResult::Idle) };
        let due = self.services.store.read(None, |db| Ok::<_, AppError>(notification::list_due(db, DUE)?));
        for (org, user) in due.await? {
            let Some(_of_organization) = self.organizations.try_enter(org) else { continue };
            if let Some(_of_person) = self.people.try_enter(user) {
                return send_to(self, smtp, org, user).await;
            }
        }
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// An email, the notifications in it, and its links.
struct PreparedMail {
    message: MailMessage,
    items: Vec<Notification>,
    links: Vec<ActionLinkId>,
}

/// Sends one email with everything that is due for a person.
async fn send_to(
    job: &NotificationMailer,
    smtp: &SmtpConfig,
    org: OrgId,
    user: UserId,
) -> Result<TurnResult, AppError> {
    let composer = MailComposer {
        services: job.services.clone(),
        base_url: job.config.base_url(),
        has_links: smtp.action_links,
    };
    let prepared =
        job.services.store.transact(TxContext::system(Some(org)), move |tx| composer.prepare(tx, org, user));
    let Some(PreparedMail { message, items, links }) = prepared.await? else { return Ok(TurnResult::Idle) };
    let sent = smtp.send(message).await?;
    let failures = items.iter().map(|it| it.mail_failures).max().unwrap_or(0);
    if let Err(error) = &sent {
        let is_last = failures + 1 >= SEND_TRIES_MAX;
        tracing::warn!(%error, %user, failures, is_last, "email not sent");
    }
    let is_sent = sent.is_ok();
    let recorded = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        for item in &items {
            notification::put_mail(tx, item, &record_mail(item, is_sent, now))?;
        }
        if !is_sent {
            for link in links {
                action_link::delete(tx, link)?;
            }
        }
        Ok::<_, AppError>(())
    });
    recorded.await?;
    Ok(TurnResult::Again)
}

struct MailComposer {
    services: Arc<Services>,
    base_url: String,
    has_links: bool,
}

impl MailComposer {
    /// Composes an email and creates its links. `None` if nothing is to be sent any more.
    fn prepare(&self, tx: &mut Tx<'_>, org: OrgId, user: UserId) -> Result<Option<PreparedMail>, AppError> {
        let due = notification::list_due_of(tx, user, NOTIFICATIONS_PER_MAIL_MAX)?;
        let access = load_recipient_access(tx, user)?;
        let (mut items, mut unsent) = (Vec::new(), Vec::new());
        for item in due {
            let may_see = access.as_ref().is_some_and(|access| {
                access.may_everywhere(Action::EventsRead)
                    || access.may(Action::EventsRead, &item.subject.target())
            });
            if may_see { items.push(item) } else { unsent.push(item) }
        }
        // The person has lost access since.
        for item in unsent {
            notification::put_mail(tx, &item, &Notification { mail_due_at: None, ..item.clone() })?;
        }
        let (Some(account), Some(organization)) = (user::by_id(tx, user)?, organization::by_id(tx, org)?)
        else {
            return Ok(None);
        };
        let Some(first) = items.first() else { return Ok(None) };
        let subject = match items.len() {
            1 => first.summary.clone(),
            count => format!("{count} notifications of {}", organization.name),
        };
        let id = format!("{}.{}", first.id, items.len());
        let base = format!("{}/o/{}", self.base_url, organization.slug);
        let (mut text, mut links) = (String::new(), Vec::new());
        for item in &items {
            text.push_str(&format!("{}\n", item.summary));
            if let Some(page) = page_of(&item.subject) {
                text.push_str(&format!("  {base}{page}\n"));
            }
            for &action in self.list_actions(tx, item)? {
                let link = new_link(tx, org, item, action)?;
                action_link::insert(tx, &link)?;
                let token = action_links::token(self.services.vault.keyed_hashes(), &link);
                text.push_str(&format!(
                    "  {}: {}{}{token}\n",
                    action.label(),
                    self.base_url,
                    action_links::ACTION_PATH
                ));
                links.push(link.id);
            }
            text.push('\n');
        }
        text.push_str(&format!(
            "You get this email because of your notification rules in {}. Inbox: {base}/inbox\n",
            organization.name
        ));
        if !links.is_empty() {
            text.push_str(
                "The links above are for you only: each shows what it does and asks before it does it, as you, once.\n",
            );
        }
        let to: Email = account.email;
        Ok(Some(PreparedMail { message: MailMessage { to, subject, text, id }, items, links }))
    }

    /// The actions that are offered for a notification. A session is offered only while the person holds it.
    fn list_actions(
        &self,
        db: &mut impl StoreRead,
        item: &Notification,
    ) -> Result<&'static [LinkAction], AppError> {
        let Some(cause) = item.cause.filter(|_| self.has_links) else { return Ok(&[]) };
        let id: Option<SessionId> = item.subject.session_id.as_ref().and_then(|id| id.parse().ok());
        let found = id.map(|id| session::by_id(db, id)).transpose()?.flatten();
        let is_holder = found.is_some_and(|it| {
            it.end.is_none() && it.holder.id == item.user && it.holder.session_token.is_none()
        });
        Ok(LinkAction::of_notification(cause, &item.subject, is_holder))
    }
}

fn new_link(
    tx: &mut Tx<'_>,
    org: OrgId,
    item: &Notification,
    action: LinkAction,
) -> Result<ActionLink, AppError> {
    Ok(ActionLink {
        id: ActionLinkId::from_parts(tx.now(), tx.entropy()?),
        org,
        user: item.user,
        action,
        subject: item.subject.clone(),
        summary: item.summary.clone(),
        created_at: tx.now(),
        expires_at: tx.now().plus_seconds(ACTION_LINK_S),
        used_at: None,
    })
}
