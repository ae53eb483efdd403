//! The audit log: list and view events, record denied actions.

use std::collections::HashMap;

use berth_api::event as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::event::{Event, EventKind, EventSubject, NewEvent};
use berth_core::id::{EventId, OrgId};
use berth_store::pagination::PageStart;
use berth_store::tables::{event, pipeline};
use berth_store::{ReadTx, StoreError, TxContext};

use super::resource_access::{event_target, visible_page};
use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::{AuthorizedCaller, Principal};
use crate::error::{AppError, DenialReason};
use crate::wire::event_to_wire as to_event;

pub use berth_store::tables::event::EventFilter;

impl App {
    pub async fn list_events(
        &self,
        who: &AuthorizedCaller<permit::EventsRead>,
        mut filter: EventFilter,
        from: PageStart,
        limit: i64,
        with_total: bool,
    ) -> Result<ResponsePage<wire::WireEvent>, AppError> {
        let access = who.access().clone();
        let slice = self.read(who, move |db| {
            resolve_pipeline_id(db, &mut filter)?;
            let mut slugs = PipelineSlugs::default();
            let slice = match access.may_everywhere(Action::EventsRead) {
                true => event::list(db, &filter, &from, limit, with_total)?,
                false => visible_page(
                    db,
                    (&from, limit),
                    |db, start, rows| event::list(db, &filter, start, rows, false),
                    |it| it.sequence.to_string(),
                    |db, it| Ok(is_visible(&access, it, slugs.load(db, it)?)),
                )?,
            };
            let items = slice.items.iter().map(|event| Ok(to_event(event, slugs.load(db, event)?)));
            Ok(ResponsePage {
                last: slice.items.last().map(|event| event.sequence.to_string()),
                items: items.collect::<Result<_, StoreError>>()?,
                total: slice.total,
                has_more: slice.has_more,
            })
        });
        slice.await
    }

    pub async fn view_event(
        &self,
        who: &AuthorizedCaller<permit::EventsRead>,
        id: EventId,
    ) -> Result<ApiResponse<wire::WireEvent>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let missing = || AppError::not_found("event");
            let found = event::by_id(db, id)?.ok_or_else(missing)?;
            let mut slugs = PipelineSlugs::default();
            let pipeline = slugs.load(db, &found)?;
            if !is_visible(&access, &found, pipeline) {
                return Err(missing());
            }
            let event = to_event(&found, pipeline);
            // Events are immutable, so their version is always 1.
            Ok(ApiResponse::ok(event).with_version(1))
        })
        .await
    }

    /// Records a denied action in the audit log, at most once per second for each user.
    pub async fn record_denied(&self, who: &Principal, org: OrgId, denied: DenialReason) {
        if !self.rates.is_first_denial(&who.user.to_string()) {
            return;
        }
        let context = TxContext {
            actor: who.actor(),
            request_id: Some(who.request_id.clone()),
            ..TxContext::system(Some(org))
        };
        let subject = EventSubject::new("user", who.user, Some(who.name.as_str()));
        let event = NewEvent::new(EventKind::AccessDenied, subject);
        let event = match denied {
            DenialReason::Permission(action) => event.with("permission", action.as_str()),
            DenialReason::Code(code) => event.with("code", code),
        };
        let recorded =
            self.services.store.transact(context, move |tx| Ok::<_, AppError>(tx.record(event)?)).await;
        if let Err(error) = recorded {
            tracing::warn!(?error, "recording a denied action failed");
        }
    }
}

/// Whether the caller may see an event. `pipeline` is the slug of its pipeline.
pub(super) fn is_visible(access: &EffectiveAccess, event: &Event, pipeline: Option<&str>) -> bool {
    access.may_everywhere(Action::EventsRead)
        || access.may(Action::EventsRead, &event_target(event, pipeline))
}

/// Replaces a pipeline slug in the filter with the pipeline's id, because events refer to pipelines by id.
pub(super) fn resolve_pipeline_id(db: &mut ReadTx<'_>, filter: &mut EventFilter) -> Result<(), AppError> {
    if let Some(key) = &filter.pipeline
        && let Some(found) = pipeline::find(db, key)?
    {
        filter.pipeline = Some(found.id.to_string());
    }
    Ok(())
}

/// Cache of pipeline slugs by id, for the pipelines that events refer to. The slug of a pipeline never changes.
#[derive(Default)]
pub(super) struct PipelineSlugs(HashMap<String, Option<String>>);

impl PipelineSlugs {
    /// The cache is cleared when it reaches this size.
    const ENTRIES_MAX: usize = 1_000;

    /// Returns the slug of the event's pipeline, reading it from the database if it is not cached. `None` if the event
    /// has no pipeline or the pipeline was deleted.
    pub(super) fn load<'s>(
        &'s mut self,
        db: &mut ReadTx<'_>,
        event: &'s Event,
    ) -> Result<Option<&'s str>, StoreError> {
        if self.get_cached(event).is_none()
            && let Some(id) = pipeline_subject(event).map(|subject| &subject.id)
        {
            if self.0.len() >= Self::ENTRIES_MAX {
                self.0.clear();
            }
            let found = pipeline::find(db, id)?.map(|found| found.slug.to_string());
            self.0.insert(id.clone(), found);
        }
        Ok(self.get_cached(event).flatten())
    }

    /// Like `load`, but never reads from the database. The outer `None` means that the slug is not cached.
    pub(super) fn get_cached<'s>(&'s self, event: &'s Event) -> Option<Option<&'s str>> {
        match pipeline_subject(event) {
            Some(EventSubject { name: None, id, .. }) => self.0.get(id).map(Option::as_deref),
            subject => Some(subject.and_then(|subject| subject.name.as_deref())),
        }
    }
}

fn pipeline_subject(event: &Event) -> Option<&EventSubject> {
    event.subjects.iter().find(|subject| subject.kind == "pipeline")
}
