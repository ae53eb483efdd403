//! Chat destinations: list, view, create, delete, and send a test message.

use berth_api::chat as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::chat::{ChatDestination, ChatDestinationKind, ChatMessage};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{ChatDestinationId, ChatMessageId, OrgId};
use berth_core::name::Slug;
use berth_core::notification::NotificationSubject;
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{chat_destination, chat_message, slack_connection};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::limits::CHAT_DESTINATIONS_PER_ORGANIZATION_MAX;

/// Maximum number of pending messages that are counted.
const PENDING_COUNTED_MAX: i64 = 1_000;

pub struct NewChatDestination {
    pub name: Slug,
    pub to: ChatAddress,
}

/// Where the messages of a destination go.
pub enum ChatAddress {
    SlackWebhook(RedactedString),
    TeamsWebhook(RedactedString),
    SlackChannel(String),
}

impl ChatAddress {
    fn kind(&self) -> ChatDestinationKind {
        match self {
            ChatAddress::SlackWebhook(_) => ChatDestinationKind::SlackWebhook,
            ChatAddress::TeamsWebhook(_) => ChatDestinationKind::TeamsWebhook,
            ChatAddress::SlackChannel(_) => ChatDestinationKind::SlackChannel,
        }
    }
}

impl App {
    pub async fn list_chat_destinations(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireChatDestination>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        let all = self.read(who, move |db| {
            let all = chat_destination::list(db, CHAT_DESTINATIONS_PER_ORGANIZATION_MAX)?;
            all.iter().map(|found| to_response(db, &vault, org, found)).collect::<Result<Vec<_>, _>>()
        });
        Ok(ResponsePage::from_all(all.await?, &from, limit, |it| it.id.clone()))
    }

    pub async fn view_chat_destination(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireChatDestination>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        self.read(who, move |db| {
            let found = find(db, &key)?;
            Ok(ApiResponse::ok(to_response(db, &vault, org, &found)?))
        })
        .await
    }

    pub async fn create_chat_destination(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        new: NewChatDestination,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireChatDestination>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        let kind = new.to.kind();
        let (url, channel) = match new.to {
            ChatAddress::SlackWebhook(url) | ChatAddress::TeamsWebhook(url) => {
                (Some(self.check_chat_url("/url", url.reveal())?), None)
            }
            ChatAddress::SlackChannel(channel) => (None, Some(channel)),
        };
        self.change(who, once, move |tx, _| {
            if let Some(taken) = chat_destination::by_name(tx, &new.name)? {
                let text = format!("a chat destination with this name already exists: {}", taken.id);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            let count = chat_destination::list(tx, CHAT_DESTINATIONS_PER_ORGANIZATION_MAX)?.len();
            if i64::try_from(count).is_ok_and(|count| count >= CHAT_DESTINATIONS_PER_ORGANIZATION_MAX) {
                let text = format!(
                    "an organization has at most {CHAT_DESTINATIONS_PER_ORGANIZATION_MAX} chat destinations"
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            if channel.is_some() && slack_connection::find(tx)?.is_none() {
                let text =
                    "the organization is not connected to Slack; connect it first: berth chat slack-connect";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let made = ChatDestination {
                id: ChatDestinationId::from_parts(tx.now(), tx.entropy()?),
                name: new.name,
                kind,
                channel,
                failures: 0,
                error: None,
                delivered_at: None,
                created_at: tx.now(),
            };
            let sealed = match &url {
                Some(url) => Some(vault.seal_chat_url(tx, made.id, url)?),
                None => None,
            };
            chat_destination::insert(tx, &made, sealed.as_ref())?;
            tx.record(destination_event(EventKind::ChatDestinationCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/chat-destinations/{}", made.id);
            Ok(ApiResponse::created(location, to_response(tx, &vault, org, &made)?))
        })
        .await
    }

    pub async fn delete_chat_destination(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
    ) -> Result<IdempotentResponse<wire::WireChatDestination>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            let last = to_response(tx, &vault, org, &found)?;
            chat_destination::delete(tx, found.id)?;
            tx.record(destination_event(EventKind::ChatDestinationDeleted, &found))?;
            Ok(ApiResponse::ok(last))
        })
        .await
    }

    /// Queues a test message. The destination shows whether it was delivered.
    pub async fn test_chat_destination(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireChatDestination>, AppError> {
        let (vault, org, name) = (self.services.vault.clone(), who.org(), who.principal().name.clone());
        self.change(who, once, move |tx, _| {
            let found = find(tx, &key)?;
            let target = found.id.to_string();
            if chat_message::count_pending(tx, &target, PENDING_COUNTED_MAX)? == PENDING_COUNTED_MAX {
                let text = "too many messages wait for this destination already";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let message = ChatMessage {
                id: ChatMessageId::from_parts(tx.now(), tx.entropy()?),
                target,
                sequence: None,
                cause: None,
                summary: format!("Test message from Berth, sent by {name}"),
                subject: NotificationSubject::default(),
                created_at: tx.now(),
                due_at: Some(tx.now()),
                failures: 0,
                sent_at: None,
            };
            chat_message::insert(tx, &message)?;
            let location = format!("/api/v1/organizations/{org}/chat-destinations/{}", found.id);
            Ok(ApiResponse::accepted(location, to_response(tx, &vault, org, &found)?))
        })
        .await
    }

    /// Checks a URL against the egress policy, without resolving or contacting it.
    pub(super) fn check_chat_url(&self, pointer: &str, url: &str) -> Result<RedactedString, AppError> {
        let checked = self.services.egress.policy().check(url);
        let checked = checked.map(|url| RedactedString::new(url.to_string()));
        checked.map_err(|why| AppError::invalid_member(pointer, why.to_string()))
    }
}

fn find(db: &mut impl StoreRead, key: &str) -> Result<ChatDestination, AppError> {
    chat_destination::find(db, key)?.ok_or_else(|| AppError::not_found("chat destination"))
}

/// Builds an audit event without the URL, which is a secret.
fn destination_event(kind: EventKind, of: &ChatDestination) -> NewEvent {
    let subject = EventSubject::new("chat_destination", of.id, Some(of.name.as_str()));
    NewEvent::new(kind, subject).with("type", of.kind.as_str()).with_some("channel", of.channel.as_deref())
}

fn to_response(
    db: &mut impl StoreRead,
    vault: &SecretVault,
    org: OrgId,
    of: &ChatDestination,
) -> Result<wire::WireChatDestination, AppError> {
    let host = match chat_destination::load_url(db, of.id)? {
        Some(sealed) => {
            let url = vault.open_chat_url(db, org, of.id, &sealed)?;
            url::Url::parse(url.reveal()).ok().and_then(|url| url.host_str().map(str::to_owned))
        }
        None => None,
    };
    Ok(wire::WireChatDestination {
        id: of.id.to_string(),
        name: of.name.to_string(),
        kind: match of.kind {
            ChatDestinationKind::SlackWebhook => wire::ChatDestinationType::SlackWebhook,
            ChatDestinationKind::TeamsWebhook => wire::ChatDestinationType::TeamsWebhook,
            ChatDestinationKind::SlackChannel => wire::ChatDestinationType::SlackChannel,
        },
        host,
        channel: of.channel.clone(),
        pending: chat_message::count_pending(db, &of.id.to_string(), PENDING_COUNTED_MAX)?,
        failures: of.failures,
        error: of.error.clone(),
        delivered_at: of.delivered_at.map(|at| at.to_string()),
        created_at: of.created_at.to_string(),
    })
}
