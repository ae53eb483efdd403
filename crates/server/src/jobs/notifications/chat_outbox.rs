//! Writes messages to the outbox of chats.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use berth_core::chat::{ChatDestination, ChatMessage};
use berth_core::id::{ChatMessageId, UserId};
use berth_core::name::Slug;
use berth_core::notification::{
    NotificationCause, NotificationRule, NotificationSubject, RuleInput, route_to_destinations,
};
use berth_core::time::Timestamp;
use berth_store::tables::{chat_destination, chat_message, forge_account, slack_connection};
use berth_store::{StoreRead, Tx};

use crate::error::AppError;
use crate::limits::{CHAT_DESTINATIONS_PER_ORGANIZATION_MAX, CHAT_MESSAGES_PENDING_MAX};

/// An event, as messages repeat it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingEvent<'e> {
    pub(super) sequence: i64,
    pub(super) cause: Option<NotificationCause>,
    pub(super) summary: &'e str,
    pub(super) subject: &'e NotificationSubject,
}

/// The chat destinations of an organization, loaded once per batch of events.
pub(super) struct ChatOutbox {
    destinations: HashMap<Slug, (ChatDestination, Option<Timestamp>)>,
    /// Where accounts of the connected Slack workspace are linked. `None` without a connection.
    account_host: Option<String>,
    /// Number of messages that wait for each target, counted at the first message to it.
    pending: HashMap<String, i64>,
}

impl ChatOutbox {
    pub(super) fn load(db: &mut impl StoreRead) -> Result<Self, AppError> {
        let mut destinations = HashMap::new();
        for found in chat_destination::list(db, CHAT_DESTINATIONS_PER_ORGANIZATION_MAX)? {
            let last_sent = chat_message::load_last_sent(db, &found.id.to_string())?;
            destinations.insert(found.name.clone(), (found, last_sent));
        }
        let account_host = slack_connection::find(db)?.map(|found| found.account_host());
        Ok(Self { destinations, account_host, pending: HashMap::new() })
    }

    /// Stores the messages that the rules of teams and of the organization send to destinations. If several rules send
    /// to one, the earliest time counts.
    pub(super) fn send_to_destinations<'r>(
        &mut self,
        tx: &mut Tx<'_>,
        rules: impl Iterator<Item = (&'r [NotificationRule], RuleInput<'r>)>,
        event: &OutgoingEvent<'_>,
    ) -> Result<(), AppError> {
        let last_sent = |name: &Slug| self.destinations.get(name).and_then(|(_, last_sent)| *last_sent);
        let mut due: BTreeMap<Slug, Timestamp> = BTreeMap::new();
        for (rules, input) in rules {
            for (name, at) in route_to_destinations(rules, &input, tx.now(), last_sent) {
                let earliest = due.entry(name).or_insert(at);
                *earliest = at.min(*earliest);
            }
        }
        for (name, due_at) in due {
            if let Some((found, _)) = self.destinations.get(&name) {
                let target = found.id.to_string();
                self.put_message(tx, target, event, due_at)?;
            }
        }
        Ok(())
    }

    /// Stores a direct message, unless the person has no linked Slack account.
    pub(super) fn send_to_person(
        &mut self,
        tx: &mut Tx<'_>,
        person: UserId,
        event: &OutgoingEvent<'_>,
        due_at: Timestamp,
    ) -> Result<(), AppError> {
        let Some(host) = &self.account_host else { return Ok(()) };
        let is_linked = forge_account::list_of_member(tx, person)?.iter().any(|it| it.host == *host);
        if is_linked { self.put_message(tx, person.to_string(), event, due_at) } else { Ok(()) }
    }

    fn put_message(
        &mut self,
        tx: &mut Tx<'_>,
        target: String,
        event: &OutgoingEvent<'_>,
        due_at: Timestamp,
    ) -> Result<(), AppError> {
        let pending = match self.pending.entry(target.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(chat_message::count_pending(tx, &target, CHAT_MESSAGES_PENDING_MAX)?)
            }
        };
        if *pending >= CHAT_MESSAGES_PENDING_MAX {
            tracing::warn!(
                target_id = target,
                sequence = event.sequence,
                "outbox of a chat is full; message dropped"
            );
            return Ok(());
        }
        let message = ChatMessage {
            id: ChatMessageId::from_parts(tx.now(), tx.entropy()?),
            target,
            sequence: Some(event.sequence),
            cause: event.cause,
            summary: event.summary.to_owned(),
            subject: event.subject.clone(),
            created_at: tx.now(),
            due_at: Some(due_at),
            failures: 0,
            sent_at: None,
        };
        *pending += i64::from(chat_message::insert(tx, &message)?);
        Ok(())
    }
}
