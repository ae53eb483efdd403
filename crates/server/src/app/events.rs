//! The audit history.

use berth_api::event as wire;
use berth_core::access::permit;
use berth_core::event::{Event, EventKind, NewEvent, Subject};
use berth_core::id::{EventId, OrgId};
use berth_store::query::{From, events};
use berth_store::records::pipeline;
use berth_store::{Context, Reader};

use super::{Answer, App, Page};
use crate::auth::authorize::{Authorized, Principal};
use crate::error::{AppError, Denied};

pub use berth_store::query::events::Filter as EventFilter;

impl App {
    pub async fn list_events(
        &self,
        who: &Authorized<permit::EventsRead>,
        mut filter: EventFilter,
        from: From,
        limit: i64,
        with_total: bool,
    ) -> Result<Page<wire::Event>, AppError> {
        let slice = self.read(who, move |db| {
            named_by_id(db, &mut filter)?;
            Ok(events::list(db, &filter, &from, limit, with_total)?)
        });
        let slice = slice.await?;
        Ok(Page {
            last: slice.items.last().map(|event| event.sequence.to_string()),
            items: slice.items.iter().map(shown).collect(),
            total: slice.total,
            has_more: slice.has_more,
        })
    }

    pub async fn view_event(
        &self,
        who: &Authorized<permit::EventsRead>,
        id: EventId,
    ) -> Result<Answer<wire::Event>, AppError> {
        self.read(who, move |db| {
            let found = events::by_id(db, id)?.ok_or_else(|| AppError::not_found("event"))?;
            // It never changes.
            Ok(Answer::ok(shown(&found)).at_version(1))
        })
        .await
    }

    /// A refused action is history too, at most once a second per actor.
    pub async fn record_denied(&self, who: &Principal, org: OrgId, denied: Denied) {
        if !self.rates.is_first_denial(&who.user.to_string()) {
            return;
        }
        let context = Context {
            actor: who.actor(),
            request_id: Some(who.request_id.clone()),
            ..Context::system(Some(org))
        };
        let subject = Subject::new("user", who.user, Some(who.name.as_str()));
        let event = NewEvent::new(EventKind::AccessDenied, subject);
        let event = match denied {
            Denied::Permission(action) => event.with("requiredPermission", action.as_str()),
            Denied::Code(code) => event.with("code", code),
        };
        let recorded =
            self.services.store.transact(context, move |tx| Ok::<_, AppError>(tx.record(event)?)).await;
        if let Err(error) = recorded {
            tracing::warn!(?error, "a refusal was not recorded");
        }
    }
}

/// Events name a pipeline by id; people may name it by slug.
pub(super) fn named_by_id(db: &mut Reader<'_>, filter: &mut EventFilter) -> Result<(), AppError> {
    if let Some(key) = &filter.pipeline
        && let Some(found) = pipeline::find(db, key)?
    {
        filter.pipeline = Some(found.id.to_string());
    }
    Ok(())
}

/// The same members as the form that is hashed, streamed and exported.
pub(crate) fn shown(event: &Event) -> wire::Event {
    wire::Event {
        id: event.id.to_string(),
        sequence: event.sequence,
        kind: event.kind.clone(),
        occurred_at: event.occurred_at.to_string(),
        actor: super::wire::actor(&event.actor),
        request_id: event.request_id.clone(),
        subjects: event
            .subjects
            .iter()
            .map(|subject| wire::Subject {
                kind: subject.kind.clone(),
                id: subject.id.clone(),
                name: subject.name.clone(),
            })
            .collect(),
        data: event.data.clone(),
        organization_id: event.org.to_string(),
        previous_hash: event.previous_hash.clone(),
        hash: event.hash.clone(),
    }
}
