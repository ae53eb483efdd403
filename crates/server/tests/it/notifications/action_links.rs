//! Action links: shown without effect, used once, by their recipient's permissions.

use berth_core::id::{ActionLinkId, NotificationId};
use berth_core::notification::{LinkAction, NotificationSubject};
use berth_core::time::Timestamp;
use berth_server::integrations::action_links;
use berth_store::TxContext;
use berth_store::tables::action_link::{self, ActionLink};
use serde_json::{Value, json};

use super::{ENVIRONMENT, NotificationFixture, ORG};
use crate::audit_export::acme_org_id;
use crate::world::{MemberAccount, TestResponse, call, get, post};

/// What a link is about.
fn about_session(session: &Value) -> NotificationSubject {
    let session_id = session["sessionId"].as_str().map(str::to_owned);
    NotificationSubject { pipeline: Some("shop".into()), session_id, ..NotificationSubject::default() }
}

fn about_approval(id: &str) -> NotificationSubject {
    NotificationSubject { approval_id: Some(id.to_owned()), ..NotificationSubject::default() }
}

impl NotificationFixture {
    /// Creates a link as the mailer does, and returns its token.
    async fn create_link(
        &self,
        who: &MemberAccount,
        action: LinkAction,
        subject: NotificationSubject,
        seconds: i64,
    ) -> String {
        let (org, user) = (acme_org_id(&self.world).await, self.user_id(who).await.parse().unwrap());
        let store = self.world.app.store();
        let made = store.transact(TxContext::system(Some(org)), move |tx| {
            let link = ActionLink {
                id: ActionLinkId::from_parts(tx.now(), tx.entropy()?),
                org,
                user,
                action,
                subject,
                summary: "<b>what happened</b>".into(),
                created_at: tx.now(),
                expires_at: tx.now().plus_seconds(seconds),
                used_at: None,
            };
            action_link::insert(tx, &link)?;
            Ok::<_, berth_store::StoreError>(link)
        });
        action_links::token(self.world.app.vault().keyed_hashes(), &made.await.unwrap())
    }

    async fn open_link(&self, token: &str) -> TestResponse {
        self.send(get(&format!("/actions?token={token}"))).await
    }

    async fn use_link(&self, token: &str) -> TestResponse {
        self.send(post(&format!("/actions?token={token}"))).await
    }

    async fn last_event(&self, kind: &str) -> Value {
        let list = get(&format!("{ORG}/events?kind={kind}")).with_account(&self.ada);
        self.send(list).await.body["data"][0].clone()
    }

    async fn change_role(&self, who: &MemberAccount, role: &str) {
        let path = format!("{ORG}/members/{}", self.user_id(who).await);
        let change = call("PATCH", &path).with_account(&self.ada).json(&json!({"role": role}));
        assert_eq!(self.send(change).await.status, 200);
    }
}

const HOUR: i64 = 3_600;

#[tokio::test]
async fn opening_a_link_shows_its_action_and_changes_nothing() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), HOUR).await;
    let before = shop.world.event_kinds().await;
    for _ in 0..3 {
        let page = shop.open_link(&token).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(page.text.contains("&lt;b&gt;what happened&lt;/b&gt;"), "{}", page.text);
        assert!(page.text.contains("This is done as grace") && page.text.contains("method=\"post\""));
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        let head = shop.send(call("HEAD", &format!("/actions?token={token}"))).await;
        assert_eq!(head.status, 200);
    }
    assert_eq!(shop.world.event_kinds().await, before);
    assert_eq!(shop.session(&session).await["status"], "active");
}

#[tokio::test]
async fn confirmed_link_acts_once_as_its_recipient() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Extend, about_session(&session), HOUR).await;
    let done = shop.use_link(&token).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert!(done.text.contains("Your session was extended"), "{}", done.text);
    let event = shop.last_event("session_extended").await;
    assert_eq!(event["actor"]["name"], "grace");
    assert_eq!(event["actor"]["id"], json!(shop.user_id(&shop.grace).await));
    shop.use_link(&token).await.assert_problem(409, "invalid_state");
    shop.open_link(&token).await.assert_problem(409, "invalid_state");
    let extensions = shop.world.event_kinds().await.iter().filter(|it| *it == "session_extended").count();
    assert_eq!(extensions, 1);
}

#[tokio::test]
async fn concurrent_uses_of_a_link_act_once() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Extend, about_session(&session), HOUR).await;
    let uses = futures_util::future::join_all((0..8).map(|_| shop.use_link(&token))).await;
    assert_eq!(uses.iter().filter(|reply| reply.status == 200).count(), 1);
    let extensions = shop.world.event_kinds().await.iter().filter(|it| *it == "session_extended").count();
    assert_eq!(extensions, 1);
}

#[tokio::test]
async fn link_cannot_be_guessed_or_changed() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), HOUR).await;
    let other = shop.create_link(&shop.ada, LinkAction::Release, about_session(&session), HOUR).await;
    let (id, signature) = token.split_once('.').unwrap();
    let (_, foreign) = other.split_once('.').unwrap();
    let flipped = if signature.starts_with('0') { "1" } else { "0" };
    let unknown = ActionLinkId::from_parts(Timestamp::from_micros(1), [0; 10]);
    let wrong_kind = NotificationId::from_parts(Timestamp::from_micros(1), [0; 10]);
    for bad in [
        String::new(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.{foreign}"),
        format!("{id}.{flipped}{}", &signature[1..]),
        format!("{id}.{}", signature.to_uppercase()),
        format!("{unknown}.{signature}"),
        format!("{wrong_kind}.{signature}"),
        "x".repeat(150),
    ] {
        shop.open_link(&bad).await.assert_problem(404, "not_found");
        shop.use_link(&bad).await.assert_problem(404, "not_found");
    }
    // A change in the database invalidates the signature.
    let ada = shop.user_id(&shop.ada).await;
    for change in [
        format!("user_id = '{ada}'"),
        "action = 'approve'".to_owned(),
        "expires_at = expires_at + 1".to_owned(),
        "subject = '{}'".to_owned(),
    ] {
        let token = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), HOUR).await;
        let (id, _) = token.split_once('.').unwrap();
        shop.world.run_sql(&format!("UPDATE action_links SET {change} WHERE id = '{id}'"));
        shop.use_link(&token).await.assert_problem(404, "not_found");
    }
    assert_eq!(shop.session(&session).await["status"], "active");
}

#[tokio::test]
async fn expired_link_does_nothing() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), 0).await;
    shop.open_link(&token).await.assert_problem(409, "invalid_state");
    shop.use_link(&token).await.assert_problem(409, "invalid_state");
    assert_eq!(shop.session(&session).await["status"], "active");
    berth_server::jobs::sweep(shop.world.app.jobs()).await.unwrap();
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM action_links"), 0);
}

#[tokio::test]
async fn link_is_refused_if_its_recipient_has_lost_the_permission() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({})).await;
    let release = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), HOUR).await;
    let approval = shop.world.create_approval().await;
    let approve = shop.create_link(&shop.grace, LinkAction::Approve, about_approval(&approval), HOUR).await;
    shop.change_role(&shop.grace, "viewer").await;
    shop.use_link(&release).await.assert_problem(403, "forbidden");
    shop.use_link(&approve).await.assert_problem(403, "forbidden");
    let remove = call("DELETE", &format!("{ORG}/members/{}", shop.user_id(&shop.grace).await));
    assert_eq!(shop.send(remove.with_account(&shop.ada)).await.status, 200);
    shop.use_link(&approve).await.assert_problem(404, "not_found");
    let found = shop.send(get(&format!("{ORG}/approvals/{approval}")).with_account(&shop.ada)).await;
    assert_eq!((&found.body["data"]["status"], &found.body["data"]["given"]), (&json!("pending"), &json!(0)));
}

#[tokio::test]
async fn link_of_a_member_cannot_end_the_session_of_another() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.ada, &json!({})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Release, about_session(&session), HOUR).await;
    let refused = shop.use_link(&token).await;
    assert!(refused.status.is_client_error(), "{}", refused.text);
    assert_eq!(shop.session(&session).await["status"], "active");
}

#[tokio::test]
async fn approve_link_approves_as_the_recipient() {
    let shop = NotificationFixture::new().await;
    let approval = shop.world.create_approval().await;
    let token = shop.create_link(&shop.grace, LinkAction::Approve, about_approval(&approval), HOUR).await;
    let done = shop.use_link(&token).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(shop.last_event("approval_approved").await["actor"]["name"], "grace");
    let found = shop.send(get(&format!("{ORG}/approvals/{approval}")).with_account(&shop.ada)).await;
    assert_eq!(found.body["data"]["status"], "approved");
}

#[tokio::test]
async fn approve_link_is_refused_after_the_approval_has_ended() {
    let shop = NotificationFixture::new().await;
    let approval = shop.world.create_approval().await;
    let token = shop.create_link(&shop.grace, LinkAction::Approve, about_approval(&approval), HOUR).await;
    let path = format!("{ORG}/approvals/{approval}");
    shop.post(&format!("{path}/reject"), &shop.ada, &json!({"reason": "not on a Friday"})).await;
    shop.use_link(&token).await.assert_problem(409, "approval_ended");
    let found = shop.send(get(&path).with_account(&shop.ada)).await;
    assert_eq!(found.body["data"]["status"], "rejected");
}

#[tokio::test]
async fn yield_link_ends_the_session_only_while_a_member_waits() {
    let shop = NotificationFixture::new().await;
    let session = shop.claim(&shop.grace, &json!({})).await;
    let early = shop.create_link(&shop.grace, LinkAction::Yield, about_session(&session), HOUR).await;
    shop.use_link(&early).await.assert_problem(409, "invalid_state");
    assert_eq!(shop.session(&session).await["status"], "active");
    shop.claim(&shop.ada, &json!({"queue": true})).await;
    let token = shop.create_link(&shop.grace, LinkAction::Yield, about_session(&session), HOUR).await;
    assert_eq!(shop.use_link(&token).await.status, 200);
    let environment = shop.send(get(ENVIRONMENT).with_account(&shop.ada)).await;
    assert_eq!(environment.body["data"]["lock"]["holder"]["name"], "ada", "{}", environment.text);
}

#[tokio::test]
async fn browser_gets_a_page_instead_of_a_problem() {
    let shop = NotificationFixture::new().await;
    let asked = get("/actions?token=nonsense").header("sec-fetch-dest", "document");
    let page = shop.world.edge.handle_request(asked.0, [127, 0, 0, 1].into()).await;
    assert_eq!(page.status(), 404);
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
}
