//! Fan-out: creates deliveries from events, and advances each webhook's cursor in the same transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use berth_core::event::Event;
use berth_core::id::{DeliveryId, OrgId, PipelineId, WebhookId};
use berth_core::pipeline::state::Pipeline;
use berth_core::webhook::Webhook;
use berth_store::tables::webhook::{self, LaggingWebhook};
use berth_store::tables::{delivery, event, organization, pipeline};
use berth_store::{ReadTx, Tx, TxContext};

use super::WebhookNotifier;
use super::payload::{PayloadContext, event_payload};
use crate::error::AppError;
use crate::limits::{DELIVERIES_PENDING_MAX, WEBHOOKS_PER_ORGANIZATION_MAX};

/// Maximum number of webhooks read per query.
const BEHIND_PAGE: i64 = 1_000;
/// Maximum number of events read per query.
const EVENTS_BATCH_MAX: i64 = 200;
/// Maximum number of passes over all webhooks per turn.
const ROUNDS_MAX: usize = 50;
/// How many events the in-memory cursor may be ahead of the stored cursor. After a crash, at most this many events are
/// read again.
const UNWRITTEN_MAX: i64 = 1_000;

/// Creates deliveries for all events since the last turn.
pub(super) async fn fan_out(notify: &WebhookNotifier) -> Result<(), AppError> {
    for _ in 0..ROUNDS_MAX {
        let has_moved = fan_out_round(notify).await?;
        if !has_moved || notify.services.shutdown.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Makes one pass over all webhooks that are behind. Returns whether any of them made progress.
async fn fan_out_round(notify: &WebhookNotifier) -> Result<bool, AppError> {
    let (mut has_moved, mut after) = (false, None);
    loop {
        let found = notify.services.store.read(None, move |db| {
            let page = webhook::list_lagging(db, after, BEHIND_PAGE)?;
            let is_last = (page.len() as i64) < BEHIND_PAGE;
            Ok::<_, AppError>((page, is_last))
        });
        let (page, is_last) = found.await?;
        after = page.last().copied();
        let mut by_org: HashMap<OrgId, Vec<LaggingWebhook>> = HashMap::new();
        for found in page {
            let sequence = found.sequence.max(notify.slots.position(found.webhook));
            if sequence < found.head {
                by_org.entry(found.org).or_default().push(found);
            }
        }
        for (org, behind) in by_org {
            has_moved |= read_batch(notify, org, behind).await?;
        }
        if is_last || notify.services.shutdown.is_cancelled() {
            return Ok(has_moved);
        }
    }
}

/// What one batch of events changes for one webhook.
struct FanOutStep {
    webhook: WebhookId,
    /// The webhook's version when it was read.
    version: i64,
    /// The stored cursor. `to` is its new value.
    from: i64,
    to: i64,
    dropped: i64,
    deliveries: Vec<(Event, String)>,
}

impl FanOutStep {
    fn is_written(&self) -> bool {
        !self.deliveries.is_empty() || self.dropped > 0 || self.to - self.from >= UNWRITTEN_MAX
    }
}

/// Processes one batch of an organization's events. Returns whether any webhook made progress.
async fn read_batch(
    notify: &WebhookNotifier,
    org: OrgId,
    behind: Vec<LaggingWebhook>,
) -> Result<bool, AppError> {
    let positions: Vec<i64> =
        behind.iter().map(|it| it.sequence.max(notify.slots.position(it.webhook))).collect();
    let (public_url, behind_max) = (notify.public_url.clone(), notify.behind_max);
    let steps = notify.services.store.read(Some(org), move |db| {
        let positions: Vec<_> = behind.into_iter().zip(positions).collect();
        plan_steps(db, org, &positions, public_url.as_deref(), behind_max)
    });
    let steps = steps.await?;
    let has_moved = !steps.is_empty();
    let (written, read): (Vec<FanOutStep>, Vec<FanOutStep>) =
        steps.into_iter().partition(FanOutStep::is_written);
    for step in read {
        notify.slots.cache_position(step.webhook, step.to);
    }
    if written.is_empty() {
        return Ok(has_moved);
    }
    let moved = notify.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let mut moved = Vec::new();
        for step in written {
            let at = (step.webhook, step.to);
            if write_step(tx, step)? {
                moved.push(at);
            }
        }
        Ok::<_, AppError>(moved)
    });
    for (webhook, to) in moved.await? {
        notify.slots.cache_position(webhook, to);
    }
    Ok(has_moved)
}

/// Stores the deliveries and the new cursor. Does nothing and returns `false` if the webhook was changed, deactivated
/// or deleted since it was read, or if another server advanced its cursor.
fn write_step(tx: &mut Tx<'_>, step: FanOutStep) -> Result<bool, AppError> {
    let found = webhook::by_id(tx, step.webhook)?;
    let is_same = found.is_some_and(|found| found.version == step.version && found.state.is_active());
    if !is_same || !webhook::move_cursor(tx, step.webhook, step.from, step.to, step.dropped)? {
        return Ok(false);
    }
    for (event, payload) in step.deliveries {
        let id = DeliveryId::from_parts(tx.now(), tx.entropy()?);
        let made = delivery::new_delivery(id, step.webhook, &event, tx.now());
        delivery::insert(tx, &made, &payload)?;
    }
    Ok(true)
}

fn plan_steps(
    db: &mut ReadTx<'_>,
    org: OrgId,
    positions: &[(LaggingWebhook, i64)],
    public_url: Option<&str>,
    behind_max: i64,
) -> Result<Vec<FanOutStep>, AppError> {
    let Some(organization) = organization::by_id(db, org)? else { return Ok(Vec::new()) };
    let sender = PayloadContext { org: &organization, public_url };
    let known: HashMap<WebhookId, Webhook> =
        webhook::list(db, WEBHOOKS_PER_ORGANIZATION_MAX)?.into_iter().map(|it| (it.id, it)).collect();
    let mut free = Vec::new();
    let mut steps = Vec::new();
    for (behind, position) in positions {
        let Some(webhook) = known.get(&behind.webhook) else { continue };
        let room = DELIVERIES_PENDING_MAX - delivery::count_pending(db, webhook.id)?;
        // Drop events beyond the maximum lag, but only while the webhook has no room for new deliveries.
        let oldest = behind.head - behind_max;
        if room <= 0 && *position < oldest {
            steps.push(FanOutStep {
                webhook: webhook.id,
                version: webhook.version,
                from: behind.sequence,
                to: oldest,
                dropped: oldest - position,
                deliveries: Vec::new(),
            });
        }
        if room > 0 {
            free.push((webhook, behind, *position, usize::try_from(room).unwrap_or(0)));
        }
    }
    let Some(first) = free.iter().map(|(_, _, position, _)| *position).min() else { return Ok(steps) };
    let happened = event::list_after(db, first, i64::MAX, EVENTS_BATCH_MAX)?;
    let mut pipelines = PipelineCache::default();
    for (webhook, behind, position, room) in free {
        let mut step = FanOutStep {
            webhook: webhook.id,
            version: webhook.version,
            from: behind.sequence,
            to: position,
            dropped: 0,
            deliveries: Vec::new(),
        };
        for event in happened.iter().filter(|event| event.sequence > position) {
            let about = pipelines.load_for_event(db, event)?;
            if webhook.kinds.contains(&event.kind) || is_named(about, webhook, event) {
                if step.deliveries.len() >= room {
                    break;
                }
                let slug = about.map(|pipeline| pipeline.slug.as_str());
                step.deliveries.push((event.clone(), event_payload(&sender, webhook, event, slug)));
            }
            step.to = event.sequence;
        }
        if step.to > position {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// Whether the pipeline's definition lists this webhook for this kind of event.
fn is_named(pipeline: Option<&Pipeline>, webhook: &Webhook, event: &Event) -> bool {
    let named = pipeline.map(|pipeline| pipeline.outline.notifications.as_slice()).unwrap_or_default();
    let mut named = named.iter().filter(|it| it.webhook.as_str() == webhook.name.as_str());
    named.any(|it| it.events.contains(&event.kind))
}

/// Cache of the pipelines that a batch of events refers to.
#[derive(Default)]
struct PipelineCache(HashMap<PipelineId, Option<Pipeline>>);

impl PipelineCache {
    fn load_for_event(&mut self, db: &mut ReadTx<'_>, event: &Event) -> Result<Option<&Pipeline>, AppError> {
        let subject = event.subjects.iter().find(|subject| subject.kind == "pipeline");
        let Some(id) = subject.and_then(|subject| subject.id.parse().ok()) else { return Ok(None) };
        let found = match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(pipeline::by_id(db, id)?),
        };
        Ok(found.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use berth_core::event::{EventKind, EventSubject, NewEvent};
    use berth_core::name::{DisplayName, Slug};
    use berth_core::webhook::{EventKindFilter, PayloadFormat, WebhookState};
    use berth_store::Store;
    use berth_store::tables::organization::Organization;

    use super::*;

    /// Creates a webhook that subscribes to all events, and returns it with the step for one new event.
    fn create_fan_out_step(tx: &mut Tx<'_>) -> Result<(Webhook, FanOutStep), AppError> {
        let now = tx.now();
        let made = Webhook {
            id: WebhookId::from_parts(now, tx.entropy()?),
            name: Slug::parse("ops").unwrap(),
            url: "https://hooks.acme.test/".into(),
            kinds: EventKindFilter::parse(&["*".to_owned()]).unwrap(),
            format: PayloadFormat::Standard,
            state: WebhookState::Active,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        webhook::put(tx, &made)?;
        webhook::move_cursor_to_end(tx, made.id)?;
        let from = event::last_sequence(tx)?.unwrap();
        tx.record(NewEvent::new(EventKind::WebhookCreated, EventSubject::new("webhook", made.id, None)))?;
        let event = event::list_after(tx, from, i64::MAX, 1)?.remove(0);
        let (to, letters) = (event.sequence, vec![(event, "{}".to_owned())]);
        let step = FanOutStep { webhook: made.id, version: 1, from, to, dropped: 0, deliveries: letters };
        Ok((made, step))
    }

    /// A concurrent change to the webhook. The last argument is a deactivated copy of the webhook.
    type ConcurrentChange = fn(&mut Tx<'_>, &Webhook, Webhook) -> Result<(), AppError>;

    #[test]
    fn fan_out_step_for_changed_webhook_is_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(&dir.path().join("berth.db")).unwrap();
        let inactive = |found: &Webhook| Webhook {
            state: WebhookState::Inactive { since: found.updated_at, why: None },
            version: found.version + 1,
            ..found.clone()
        };
        let changes: [(&str, ConcurrentChange, bool); 4] = [
            ("as-it-was", |_, _, _| Ok(()), true),
            ("off", |tx, _, off| Ok(webhook::put(tx, &off)?), false),
            ("deleted", |tx, found, _| Ok(webhook::delete(tx, found.id)?), false),
            (
                "off-and-on",
                |tx, found, off| {
                    webhook::put(tx, &off)?;
                    webhook::put(tx, &Webhook { version: 3, ..found.clone() })?;
                    Ok(webhook::move_cursor_to_end(tx, found.id)?)
                },
                false,
            ),
        ];
        for (name, change, is_wanted) in changes {
            let done = store.transact_blocking(TxContext::system(None), move |tx| {
                let id = OrgId::from_parts(tx.now(), tx.entropy()?);
                let (slug, now) = (Slug::parse(name).unwrap(), tx.now());
                let org = Organization {
                    id,
                    name: DisplayName::from(slug.clone()),
                    slug,
                    version: 1,
                    created_at: now,
                    default_network: berth_core::step::NetworkAccess::Host,
                    require_second_factor: false,
                };
                organization::put(tx, &org)?;
                tx.within_org(id, |tx| {
                    tx.record(NewEvent::new(
                        EventKind::OrganizationCreated,
                        EventSubject::new("org", id, None),
                    ))?;
                    let (found, step) = create_fan_out_step(tx)?;
                    change(tx, &found, inactive(&found))?;
                    Ok::<_, AppError>((write_step(tx, step)?, delivery::count_pending(tx, found.id)?))
                })
            });
            assert_eq!(done.unwrap(), (is_wanted, i64::from(is_wanted)), "{name}");
        }
    }
}
