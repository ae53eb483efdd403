//! Fan out: events become deliveries, and the cursor moves with them in one transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use berth_core::event::Event;
use berth_core::id::{DeliveryId, OrgId, PipelineId, WebhookId};
use berth_core::pipeline::state::Pipeline;
use berth_core::webhook::Webhook;
use berth_store::query::events;
use berth_store::query::webhooks::{self, Behind};
use berth_store::records::{delivery, organization, pipeline, webhook};
use berth_store::{Context, Reader};

use super::message::{Sender, body};
use crate::app::App;
use crate::error::AppError;
use crate::limits::{DELIVERIES_PENDING_MAX, WEBHOOKS_PER_ORGANIZATION_MAX};

/// Webhooks looked at in one go.
const BEHIND_BATCH_MAX: i64 = 1_000;
/// Events read at once.
const EVENTS_BATCH_MAX: i64 = 200;
/// Looks in one go. What is left comes with the next one.
const ROUNDS_MAX: usize = 50;
/// A cursor is written at the latest when it is so far behind what was read: after a crash no more is read again.
const UNWRITTEN_MAX: i64 = 1_000;

/// Everything that happened since the last look, for everybody who wants to know.
pub(super) async fn fan_out(app: &App) -> Result<(), AppError> {
    for _ in 0..ROUNDS_MAX {
        let behind = app.store.read(None, |db| Ok::<_, AppError>(webhooks::behind(db, BEHIND_BATCH_MAX)?));
        let mut by_org: HashMap<OrgId, Vec<Behind>> = HashMap::new();
        for found in behind.await? {
            let sequence = found.sequence.max(app.notify.position(found.webhook));
            if sequence < found.head {
                by_org.entry(found.org).or_default().push(found);
            }
        }
        let mut has_moved = false;
        for (org, behind) in by_org {
            has_moved |= read_on(app, org, behind).await?;
        }
        if !has_moved || app.shutdown.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// What a look at a batch of events means for one webhook.
struct Step {
    webhook: WebhookId,
    /// The cursor as it is written, and where it goes.
    from: i64,
    to: i64,
    dropped: i64,
    letters: Vec<(Event, String)>,
}

impl Step {
    fn is_written(&self) -> bool {
        !self.letters.is_empty() || self.dropped > 0 || self.to - self.from >= UNWRITTEN_MAX
    }
}

/// One batch of events of an organization. True: somebody got further.
async fn read_on(app: &App, org: OrgId, behind: Vec<Behind>) -> Result<bool, AppError> {
    let positions: Vec<i64> =
        behind.iter().map(|it| it.sequence.max(app.notify.position(it.webhook))).collect();
    let (public_url, behind_max) = (app.config.public_url.clone(), app.config.webhook_behind_max);
    let steps = app.store.read(Some(org), move |db| {
        let positions: Vec<_> = behind.into_iter().zip(positions).collect();
        steps(db, org, &positions, public_url.as_deref(), behind_max)
    });
    let steps = steps.await?;
    let has_moved = !steps.is_empty();
    let (written, read): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(Step::is_written);
    for step in read {
        app.notify.remember(step.webhook, step.to);
    }
    if written.is_empty() {
        return Ok(has_moved);
    }
    let moved: Vec<(WebhookId, i64)> = written.iter().map(|step| (step.webhook, step.to)).collect();
    app.store
        .transact(Context::system(Some(org)), move |tx| {
            for step in written {
                // Deleted, switched on again, or read by somebody else: then this look was for nothing.
                if !webhook::move_cursor(tx, step.webhook, step.from, step.to, step.dropped)? {
                    continue;
                }
                for (event, payload) in step.letters {
                    let id = DeliveryId::from_parts(tx.now(), tx.entropy()?);
                    let made = delivery::fresh(id, step.webhook, &event, tx.now());
                    delivery::insert(tx, &made, &payload)?;
                }
            }
            Ok::<_, AppError>(())
        })
        .await?;
    for (webhook, to) in moved {
        app.notify.remember(webhook, to);
    }
    Ok(has_moved)
}

fn steps(
    db: &mut Reader<'_>,
    org: OrgId,
    positions: &[(Behind, i64)],
    public_url: Option<&str>,
    behind_max: i64,
) -> Result<Vec<Step>, AppError> {
    let Some(organization) = organization::by_id(db, org)? else { return Ok(Vec::new()) };
    let sender = Sender { org: &organization, public_url };
    let known: HashMap<WebhookId, Webhook> =
        webhooks::all(db, WEBHOOKS_PER_ORGANIZATION_MAX)?.into_iter().map(|it| (it.id, it)).collect();
    let mut free = Vec::new();
    let mut steps = Vec::new();
    for (behind, position) in positions {
        let Some(webhook) = known.get(&behind.webhook) else { continue };
        let room = DELIVERIES_PENDING_MAX - webhooks::pending(db, webhook.id)?;
        // Too far back to be news, and no room for it either.
        let oldest = behind.head - behind_max;
        if room <= 0 && *position < oldest {
            let (from, dropped) = (behind.sequence, oldest - position);
            steps.push(Step { webhook: webhook.id, from, to: oldest, dropped, letters: Vec::new() });
        }
        if room > 0 {
            free.push((webhook, behind, *position, usize::try_from(room).unwrap_or(0)));
        }
    }
    let Some(first) = free.iter().map(|(_, _, position, _)| *position).min() else { return Ok(steps) };
    let happened = events::after(db, first, i64::MAX, EVENTS_BATCH_MAX)?;
    let mut pipelines = Pipelines::default();
    for (webhook, behind, position, room) in free {
        let mut step = Step {
            webhook: webhook.id,
            from: behind.sequence,
            to: position,
            dropped: 0,
            letters: Vec::new(),
        };
        for event in happened.iter().filter(|event| event.sequence > position) {
            let about = pipelines.of(db, event)?;
            if webhook.kinds.contains(&event.kind) || is_named(about, webhook, event) {
                if step.letters.len() >= room {
                    break;
                }
                let slug = about.map(|pipeline| pipeline.slug.as_str());
                step.letters.push((event.clone(), body(&sender, webhook, event, slug)));
            }
            step.to = event.sequence;
        }
        if step.to > position {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// The pipeline's own definition wants this webhook to be told.
fn is_named(pipeline: Option<&Pipeline>, webhook: &Webhook, event: &Event) -> bool {
    let named = pipeline.map(|pipeline| pipeline.outline.notifications.as_slice()).unwrap_or_default();
    let mut named = named.iter().filter(|it| it.webhook.as_str() == webhook.name.as_str());
    named.any(|it| it.events.contains(&event.kind))
}

/// Pipelines that a batch of events is about.
#[derive(Default)]
struct Pipelines(HashMap<PipelineId, Option<Pipeline>>);

impl Pipelines {
    fn of(&mut self, db: &mut Reader<'_>, event: &Event) -> Result<Option<&Pipeline>, AppError> {
        let subject = event.subjects.iter().find(|subject| subject.kind == "pipeline");
        let Some(id) = subject.and_then(|subject| subject.id.parse().ok()) else { return Ok(None) };
        let found = match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(pipeline::by_id(db, id)?),
        };
        Ok(found.as_ref())
    }
}
