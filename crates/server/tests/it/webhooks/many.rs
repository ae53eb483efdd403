//! Many webhooks in many organizations do not delay each other.

use std::sync::Arc;

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, WebhookId};
use berth_core::name::{DisplayName, Slug};
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;
use berth_core::webhook::{EventKindFilter, PayloadFormat, Webhook, WebhookState};
use berth_engine::limits::PINGS_AT_ONCE;
use berth_server::config::AppConfig;
use berth_server::limits::WEBHOOKS_PER_ORGANIZATION_MAX;
use berth_store::tables::organization::{self, Organization};
use berth_store::tables::webhook;
use berth_store::{StoreError, Tx, TxContext};
use serde_json::json;
use tokio::sync::Notify;

use super::{Answer, Harbour, PATIENCE, Receiver, config};
use crate::world::post;

/// Creates an organization that is older than all others and has the maximum number of webhooks. None of these webhooks
/// is subscribed to the event that the test causes.
fn indifferent(tx: &mut Tx<'_>, number: u8) -> Result<(), StoreError> {
    let now = tx.now();
    let id = OrgId::from_parts(Timestamp::from_micros(1), [number; 10]);
    let slug = Slug::parse(&format!("old-{number}")).unwrap();
    let name = DisplayName::from(slug.clone());
    let default_network = NetworkAccess::Host;
    organization::put(tx, &Organization { id, slug, name, version: 1, created_at: now, default_network })?;
    tx.within_org(id, |tx| {
        let event =
            || NewEvent::new(EventKind::OrganizationCreated, EventSubject::new("organization", id, None));
        tx.record(event())?;
        for index in 0..WEBHOOKS_PER_ORGANIZATION_MAX {
            let made = Webhook {
                id: WebhookId::from_parts(now, tx.entropy()?),
                name: Slug::parse(&format!("hook-{index}")).unwrap(),
                url: "https://hooks.acme.test/".into(),
                kinds: EventKindFilter::parse(&["step_failed".to_owned()]).unwrap(),
                format: PayloadFormat::Standard,
                state: WebhookState::Active,
                version: 1,
                created_at: now,
                updated_at: now,
            };
            webhook::put(tx, &made)?;
            webhook::move_cursor_to_end(tx, made.id)?;
        }
        tx.record(event())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_is_delivered_despite_a_thousand_unrelated_ones() {
    let harbour = Harbour::open().await;
    harbour.world.pipeline("shop").await;
    for number in 0..11 {
        let made =
            harbour.world.app.store().transact(TxContext::system(None), move |tx| indifferent(tx, number));
        made.await.unwrap();
    }
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    harbour.webhook("ops", &receiver.url(), &["pipeline_stopped"]).await;
    harbour.stop_and_resume("shop").await;
    assert_eq!(receiver.heard(1).await[0].json()["type"], "pipeline_stopped");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_pings_are_shared_among_organizations() {
    let harbour = Arc::new(Harbour::with(AppConfig { webhook_max: PATIENCE, ..config() }).await);
    let may = Arc::new(Notify::new());
    let answers = may.clone();
    let slow = Receiver::start(move |_| Answer::Later(200, answers.clone())).await;
    let quick = Receiver::start(|_| Answer::Status(200)).await;
    harbour.webhook("ops", &slow.url(), &["step_failed"]).await;
    let mut waiting = Vec::new();
    for _ in 0..PINGS_AT_ONCE.share {
        let harbour = harbour.clone();
        waiting.push(tokio::spawn(async move { harbour.post("/ops/ping", &json!({})).await }));
    }
    slow.heard(PINGS_AT_ONCE.share).await;
    harbour.post("/ops/ping", &json!({})).await.is(503, "unavailable");

    let theirs = "/api/v1/organizations/globex/webhooks";
    let body = json!({"name": "ops", "url": quick.url(), "kinds": ["step_failed"]});
    let made = harbour.world.send(post(theirs).by(&harbour.world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let ping = post(&format!("{theirs}/ops/ping")).by(&harbour.world.hank).json(&json!({}));
    assert_eq!(harbour.world.send(ping).await.body["data"]["isAccepted"], true);

    may.notify_one();
    for one in waiting {
        assert_eq!(one.await.unwrap().status, 200);
    }
    Arc::into_inner(harbour).unwrap().close().await;
}
