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

use super::{PATIENCE, ReceiverResponse, WebhookFixture, WebhookReceiver, local_egress_config};
use crate::world::post;

/// Creates an organization that is older than all others and has the maximum number of webhooks. None of these webhooks
/// is subscribed to the event that the test causes.
fn create_unsubscribed_organization(tx: &mut Tx<'_>, number: u8) -> Result<(), StoreError> {
    let now = tx.now();
    let id = OrgId::from_parts(Timestamp::from_micros(1), [number; 10]);
    let slug = Slug::parse(&format!("old-{number}")).unwrap();
    let name = DisplayName::from(slug.clone());
    let default_network = NetworkAccess::Host;
    let require_second_factor = false;
    let organization =
        Organization { id, slug, name, version: 1, created_at: now, default_network, require_second_factor };
    organization::put(tx, &organization)?;
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
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    for number in 0..11 {
        let made = fixture
            .world
            .app
            .store()
            .transact(TxContext::system(None), move |tx| create_unsubscribed_organization(tx, number));
        made.await.unwrap();
    }
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;
    assert_eq!(receiver.wait_for_requests(1).await[0].json()["type"], "pipeline_stopped");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_pings_are_shared_among_organizations() {
    let fixture = Arc::new(
        WebhookFixture::with_config(AppConfig { webhook_max: PATIENCE, ..local_egress_config() }).await,
    );
    let may = Arc::new(Notify::new());
    let answers = may.clone();
    let slow = WebhookReceiver::start(move |_| ReceiverResponse::Later(200, answers.clone())).await;
    let quick = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    fixture.create_webhook("ops", &slow.url(), &["step_failed"]).await;
    let mut waiting = Vec::new();
    for _ in 0..PINGS_AT_ONCE.share {
        let fixture = fixture.clone();
        waiting.push(tokio::spawn(async move { fixture.post("/ops/ping", &json!({})).await }));
    }
    slow.wait_for_requests(PINGS_AT_ONCE.share).await;
    fixture.post("/ops/ping", &json!({})).await.assert_problem(503, "unavailable");

    let theirs = "/api/v1/organizations/globex/webhooks";
    let body = json!({"name": "ops", "url": quick.url(), "kinds": ["step_failed"]});
    let made = fixture.world.send(post(theirs).with_account(&fixture.world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let ping = post(&format!("{theirs}/ops/ping")).with_account(&fixture.world.hank).json(&json!({}));
    assert_eq!(fixture.world.send(ping).await.body["data"]["isAccepted"], true);

    may.notify_one();
    for one in waiting {
        assert_eq!(one.await.unwrap().status, 200);
    }
    Arc::into_inner(fixture).unwrap().shut_down().await;
}
