//! Reads events, stores the notifications that they cause, and advances the cursor in the same transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use berth_core::access::{AccessTarget, Action, EffectiveAccess};
use berth_core::deployment::Deployment;
use berth_core::event::{Event, summarize};
use berth_core::id::{EventId, NotificationId, OrgId, PipelineId, UserId};
use berth_core::notification::{
    LastSent, Notification, NotificationCause, NotificationRule, NotificationSubject, RuleInput,
    concerned_people, route,
};
use berth_engine::git::CommitHash;
use berth_store::tables::notification::{self, LaggingNotifications};
use berth_store::tables::{chat_message, event, pipeline};
use berth_store::{StoreRead, Tx, TxContext};
use tokio::time::Instant;

use super::NotificationFanOut;
use super::chat_outbox::{ChatOutbox, OutgoingEvent};
use super::people::{RuleBook, complete_subject, load_deployment, load_people, load_recipient_access};
use crate::error::AppError;
use crate::limits::{
    MAILS_PENDING_PER_PERSON_MAX, NOTIFICATION_EVENT_AGE_S_MAX, NOTIFICATIONS_PER_PERSON_MAX,
};

/// Maximum number of organizations read per query.
const ORGANIZATIONS_PAGE: i64 = 1_000;
/// Maximum number of events read per query.
const EVENTS_BATCH_MAX: i64 = 200;
/// After this many notifications a transaction ends, because other writes wait for it.
const CREATED_PER_TRANSACTION_MAX: usize = 500;
/// After this many people to notify, over all events, a transaction ends as well.
const PEOPLE_PER_TRANSACTION_MAX: usize = 2_000;
/// How many events the in-memory cursor may be ahead of the stored cursor. After a crash, at most this many events are
/// read again.
const UNWRITTEN_MAX: i64 = 1_000;
/// Time for reading the authors of a batch from git, including the wait for one of the organization's git processes. All
/// organizations wait for it. Without an author, only the other people behind a deployment are notified.
const AUTHORS_TIME_MAX: Duration = Duration::from_secs(2);

/// Reads one batch of events for each organization that has new ones. Returns whether there are more.
pub(super) async fn read_events(job: &NotificationFanOut) -> Result<bool, AppError> {
    let (mut has_more, mut after) = (false, None);
    loop {
        let found = job.services.store.read(None, move |db| {
            Ok::<_, AppError>(notification::list_lagging(db, after, ORGANIZATIONS_PAGE)?)
        });
        let page = found.await?;
        after = page.last().map(|it| it.org);
        let is_last = i64::try_from(page.len()).is_ok_and(|count| count < ORGANIZATIONS_PAGE);
        for lagging in page {
            let position = job.positions.lock().get(&lagging.org).copied().unwrap_or(0);
            let position = position.max(lagging.sequence);
            if position < lagging.head {
                has_more |= read_batch(job, lagging, position).await?;
            }
        }
        if is_last || job.services.shutdown.is_cancelled() {
            return Ok(has_more);
        }
    }
}

/// Processes one batch of an organization's events. Returns whether there are more.
async fn read_batch(
    job: &NotificationFanOut,
    lagging: LaggingNotifications,
    position: i64,
) -> Result<bool, AppError> {
    let org = lagging.org;
    let read = job.services.store.read(Some(org), move |db| {
        let happened = event::list_after(db, position, i64::MAX, EVENTS_BATCH_MAX)?;
        let Some(last) = happened.last() else { return Ok(None) };
        let (to, mut rules, now) = (last.sequence, RuleBook::load(db)?, db.now());
        let has_more = i64::try_from(happened.len()).is_ok_and(|count| count >= EVENTS_BATCH_MAX);
        let is_recent = |event: &Event| now.seconds_since(event.occurred_at) <= NOTIFICATION_EVENT_AGE_S_MAX;
        let notifies = |event: &Event| {
            NotificationCause::of_event(event).is_some() || rules.has_subscribers(&event.kind)
        };
        let notifying: Vec<Event> =
            happened.into_iter().filter(|event| is_recent(event) && notifies(event)).collect();
        let mut failed = Vec::new();
        for event in &notifying {
            if NotificationCause::of_event(event) == Some(NotificationCause::DeploymentFailed)
                && let Some(found) = load_deployment(db, event)?
                && let Some(commit) = DeployedCommit::find(db, event.id, &found)?
            {
                failed.push(commit);
            }
        }
        rules.load_teams(db, &notifying)?;
        Ok::<_, AppError>(Some((to, has_more, notifying, failed, rules)))
    });
    let Some((to, has_more, notifying, failed, rules)) = read.await? else { return Ok(false) };
    if notifying.is_empty() && to - lagging.sequence < UNWRITTEN_MAX {
        job.positions.lock().insert(org, to);
        return Ok(has_more);
    }
    let authors = load_authors(job, org, failed).await;
    let has_mail = job.config.smtp.is_some();
    let written = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        if !notification::move_cursor(tx, lagging.sequence, to)? {
            return Ok::<_, AppError>(None);
        }
        let mut batch = NotificationBatch::new(rules, ChatOutbox::load(tx)?, has_mail);
        for event in &notifying {
            batch.notify(tx, event, authors.get(&event.id).map(String::as_str))?;
            if batch.is_full() {
                notification::move_cursor(tx, to, event.sequence)?;
                return Ok(Some(event.sequence));
            }
        }
        Ok(Some(to))
    });
    let Some(through) = written.await? else { return Ok(has_more) };
    job.positions.lock().insert(org, through);
    Ok(has_more || through < to)
}

/// Returns the addresses of the authors that can be read in time, by event.
async fn load_authors(
    job: &NotificationFanOut,
    org: OrgId,
    commits: Vec<DeployedCommit>,
) -> HashMap<EventId, String> {
    let (mut authors, deadline) = (HashMap::new(), Instant::now() + AUTHORS_TIME_MAX);
    for commit in commits {
        match tokio::time::timeout_at(deadline, commit.load_author(job, org)).await {
            Ok(Some(author)) => drop(authors.insert(commit.event, author)),
            Ok(None) => {}
            Err(_) => {
                tracing::info!(%org, "reading authors timed out");
                break;
            }
        }
    }
    authors
}

/// The commit of a failed deployment, whose author is read from the repository's mirror.
struct DeployedCommit {
    event: EventId,
    repository: berth_core::id::RepositoryId,
    commit: CommitHash,
}

impl DeployedCommit {
    fn find(
        db: &mut impl StoreRead,
        event: EventId,
        deployment: &Deployment,
    ) -> Result<Option<Self>, AppError> {
        let Some(commit) = deployment.resolved_commit.as_deref().and_then(CommitHash::parse) else {
            return Ok(None);
        };
        let origin = pipeline::by_id(db, deployment.pipeline)?.and_then(|found| found.origin);
        Ok(origin.map(|origin| Self { event, repository: origin.repository, commit }))
    }

    /// Returns the author's address. A repository that cannot be read delays no notification.
    async fn load_author(&self, job: &NotificationFanOut, org: OrgId) -> Option<String> {
        let mirror = job.services.git.mirror(org, self.repository).with_time_limit(AUTHORS_TIME_MAX);
        let commit = self.commit.clone();
        let read = job.services.git.run(org, move || mirror.author(&commit)).await;
        read.ok()?.ok().map(|(_, email)| email)
    }
}

/// Creates the notifications of a batch of events. Caches what several events need.
struct NotificationBatch {
    rules: RuleBook,
    chats: ChatOutbox,
    has_mail: bool,
    pipelines: HashMap<PipelineId, Option<String>>,
    recipients: BTreeMap<UserId, Option<Recipient>>,
    /// Number of notifications so far.
    created: usize,
    /// Number of people whose rules were applied so far, over all events.
    considered: usize,
}

#[derive(Clone)]
struct Recipient {
    access: EffectiveAccess,
    rules: Vec<NotificationRule>,
    last_sent: LastSent,
    /// Number of notifications that wait for an email.
    pending_mails: i64,
}

impl NotificationBatch {
    fn new(rules: RuleBook, chats: ChatOutbox, has_mail: bool) -> Self {
        let (pipelines, recipients) = (HashMap::new(), BTreeMap::new());
        Self { rules, chats, has_mail, pipelines, recipients, created: 0, considered: 0 }
    }

    fn is_full(&self) -> bool {
        self.created >= CREATED_PER_TRANSACTION_MAX || self.considered >= PEOPLE_PER_TRANSACTION_MAX
    }

    fn notify(&mut self, tx: &mut Tx<'_>, event: &Event, author: Option<&str>) -> Result<(), AppError> {
        let cause = NotificationCause::of_event(event);
        let concerned: BTreeSet<UserId> = match cause {
            Some(cause) => concerned_people(event, cause, &load_people(tx, event, cause, author)?),
            None => BTreeSet::new(),
        };
        let mut people = self.rules.list_subscribers(&event.kind);
        people.extend(&concerned);
        self.considered += people.len();
        let for_destinations = self.rules.list_destination_rules(&event.kind, &concerned);
        let for_destinations: Vec<_> =
            for_destinations.into_iter().map(|(rules, is_own)| (rules.to_vec(), is_own)).collect();
        if people.is_empty() && for_destinations.is_empty() {
            return Ok(());
        }
        let slug = self.load_pipeline_slug(tx, event)?;
        let mut subject = NotificationSubject::of_event(event, slug.as_deref());
        complete_subject(tx, event, cause, &mut subject)?;
        let (summary, target) = (summarize(event, slug.as_deref()), subject.target());
        let (pipeline, place) = (slug.as_deref(), subject.place());
        let outgoing =
            OutgoingEvent { sequence: event.sequence, cause, summary: &summary, subject: &subject };
        let inputs = for_destinations.iter().map(|(rules, is_mine)| {
            (rules.as_slice(), RuleInput { kind: &event.kind, pipeline, place, is_mine: *is_mine })
        });
        self.chats.send_to_destinations(tx, inputs, &outgoing)?;
        for person in people {
            let Some(recipient) = self.load_recipient(tx, person)? else { continue };
            if !may_see(&recipient.access, &target) {
                continue;
            }
            let is_mine = concerned.contains(&person);
            let input = RuleInput { kind: &event.kind, pipeline, place, is_mine };
            let routed = route(&recipient.rules, &input, tx.now(), recipient.last_sent);
            let has_room = recipient.pending_mails < MAILS_PENDING_PER_PERSON_MAX;
            let mail_due_at = routed.mail_due_at.filter(|_| self.has_mail && has_room);
            if routed.mail_due_at.is_some() && !has_room {
                tracing::warn!(%person, sequence = event.sequence, "too many pending emails; email dropped");
            }
            if let Some(due_at) = routed.chat_due_at {
                let cause = cause.filter(|_| is_mine);
                self.chats.send_to_person(tx, person, &OutgoingEvent { cause, ..outgoing }, due_at)?;
            }
            if !routed.in_inbox && mail_due_at.is_none() {
                continue;
            }
            let notification = Notification {
                id: NotificationId::from_parts(tx.now(), tx.entropy()?),
                user: person,
                event: event.id,
                sequence: event.sequence,
                event_kind: event.kind.clone(),
                cause: cause.filter(|_| is_mine),
                summary: summary.clone(),
                subject: subject.clone(),
                in_inbox: routed.in_inbox,
                created_at: tx.now(),
                read_at: None,
                mail_due_at,
                mail_failures: 0,
                mailed_at: None,
            };
            if notification::insert(tx, &notification)? {
                self.created += 1;
                if let Some(Some(known)) = self.recipients.get_mut(&person) {
                    known.pending_mails += i64::from(mail_due_at.is_some());
                }
                notification::delete_surplus(tx, person, NOTIFICATIONS_PER_PERSON_MAX)?;
            }
        }
        Ok(())
    }

    /// The slug of the event's pipeline. `None` if it has no pipeline or the pipeline was deleted.
    fn load_pipeline_slug(
        &mut self,
        db: &mut impl StoreRead,
        event: &Event,
    ) -> Result<Option<String>, AppError> {
        let Some(subject) = event.subjects.iter().find(|subject| subject.kind == "pipeline") else {
            return Ok(None);
        };
        if let Some(name) = &subject.name {
            return Ok(Some(name.clone()));
        }
        let Ok(id) = subject.id.parse() else { return Ok(None) };
        if let Some(known) = self.pipelines.get(&id) {
            return Ok(known.clone());
        }
        let slug = pipeline::find_slug(db, id)?.map(|slug| slug.to_string());
        self.pipelines.insert(id, slug.clone());
        Ok(slug)
    }

    fn load_recipient(
        &mut self,
        db: &mut impl StoreRead,
        person: UserId,
    ) -> Result<Option<Recipient>, AppError> {
        if let Some(known) = self.recipients.get(&person) {
            return Ok(known.clone());
        }
        let found = match load_recipient_access(db, person)? {
            None => None,
            Some(access) => Some(Recipient {
                access,
                rules: self.rules.load_rules(db, person)?,
                last_sent: LastSent {
                    mail: notification::load_last_mailed(db, person)?,
                    chat: chat_message::load_last_sent(db, &person.to_string())?,
                },
                pending_mails: notification::count_pending_mails(db, person, MAILS_PENDING_PER_PERSON_MAX)?,
            }),
        };
        self.recipients.insert(person, found.clone());
        Ok(found)
    }
}

/// Whether a person may see an event, as in the audit log.
fn may_see(access: &EffectiveAccess, target: &AccessTarget) -> bool {
    access.may_everywhere(Action::EventsRead) || access.may(Action::EventsRead, target)
}
