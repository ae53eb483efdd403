//! The contact of a session: whom to ask about it. It is shown next to the holder and gives no permission.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, PIPELINE, environments_path, expect_data};
use crate::world::{call, get, post};

const CONTACT: &str = "vera (#42)";

#[tokio::test]
async fn contact_is_shown_wherever_the_holder_is() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop
        .claim_session(&shop.grace, &json!({"contact": format!(" {CONTACT} "), "context": "tests"}))
        .await;
    assert_eq!(session["contact"], CONTACT, "without surrounding whitespace");
    assert_eq!(session["holder"]["name"], "grace");
    assert_eq!(session["environment"]["lock"]["contact"], CONTACT);
    assert_eq!(shop.session_status(&session).await["contact"], CONTACT);
    assert_eq!(shop.fetch("qa-1").await["lock"]["contact"], CONTACT);
    assert_eq!(shop.fetch("").await[0]["lock"]["contact"], CONTACT);
    assert_eq!(shop.fetch("qa-1/history").await[0]["contact"], CONTACT);
    let deployed = shop.send(get("/api/v1/organizations/acme/deployed").with_account(&shop.ada)).await;
    assert_eq!(expect_data(deployed, 200)[0]["environments"][0]["contact"], CONTACT);
    let claimed = shop.events(0).await.into_iter().find(|event| event["kind"] == "session_claimed").unwrap();
    assert_eq!(claimed["data"]["contact"], CONTACT);

    let refused = shop.claim(&shop.ada, &json!({})).await;
    refused.assert_problem(409, "environment_locked");
    assert_eq!(
        (&refused.body["contact"], &refused.body["holder"]["name"]),
        (&json!(CONTACT), &json!("grace"))
    );
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("held by grace for vera (#42) since"), "{detail}");
    let own = shop.claim(&shop.grace, &json!({})).await;
    assert!(own.body["detail"].as_str().unwrap().contains("for vera (#42)"), "{}", own.text);
}

#[tokio::test]
async fn contact_is_absent_without_one() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"contact": null})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    let refused = shop.claim(&shop.ada, &json!({})).await;
    let shown = [session, ticket, refused.body, shop.snapshot().await];
    for value in shown {
        assert!(!value.to_string().contains("\"contact\""), "{value}");
    }
}

#[tokio::test]
async fn contact_moves_from_the_ticket_to_the_session() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({"contact": CONTACT})).await;
    assert_eq!(ticket["contact"], CONTACT);
    assert_eq!(shop.fetch("qa-1/queue").await[0]["contact"], CONTACT);
    let released = expect_data(shop.release(&shop.grace, &held).await, 200);
    assert!(released.get("contact").is_none());
    let lock = &released["environment"]["lock"];
    assert_eq!((&lock["holder"]["name"], &lock["contact"]), (&json!("ada"), &json!(CONTACT)));
    assert_eq!(shop.session_status(lock).await["contact"], CONTACT);
}

#[tokio::test]
async fn contact_of_a_scheduled_takeover_moves_to_its_session() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({"contact": "hank"})).await;
    let taken = expect_data(shop.force_claim(&shop.ada, &json!({"contact": CONTACT})).await, 201);
    assert_eq!(taken["contact"], CONTACT);
    let later = json!({"contact": "linus", "mode": "grace", "graceSeconds": 3_600});
    assert_eq!(expect_data(shop.force_claim(&shop.grace, &later).await, 202)["contact"], "linus");
    expect_data(shop.release(&shop.ada, &taken).await, 200);
    assert_eq!(shop.fetch("qa-1").await["lock"]["contact"], "linus");
}

#[tokio::test]
async fn contact_of_claim_any_is_in_every_ticket_and_in_the_refusal() {
    let shop = EnvironmentsFixture::new().await;
    let claim = async |body: Value| {
        shop.send(post(&format!("{PIPELINE}/claim-any")).with_account(&shop.grace).json(&body)).await
    };
    let first = expect_data(claim(json!({"label": "small", "contact": CONTACT})).await, 201);
    assert_eq!(first["contact"], CONTACT);
    claim(json!({"label": "small"})).await;
    let refused = claim(json!({"label": "small"})).await;
    refused.assert_problem(409, "environment_locked");
    let contacts = refused.body["environments"].as_array().unwrap();
    let contacts: Vec<_> = contacts.iter().map(|held| held.get("contact")).collect();
    assert_eq!(contacts, [Some(&json!(CONTACT)), None]);
    expect_data(claim(json!({"label": "small", "queue": true, "contact": "linus"})).await, 202);
    for environment in ["qa-2", "qa-3"] {
        assert_eq!(shop.fetch(&format!("{environment}/queue")).await[0]["contact"], "linus");
    }
}

#[tokio::test]
async fn contact_gives_no_permission() {
    let shop = EnvironmentsFixture::new().await;
    let dora = shop.world.create_member("dora@acme.test", "tester").await;
    let session = shop.claim_session(&shop.grace, &json!({"contact": "dora@acme.test"})).await;
    let path = environments_path(&format!("qa-1/sessions/{}", session["sessionId"].as_str().unwrap()));
    let deploy = post(&format!("{path}/deploy")).json(&json!({"commitId": "main"}));
    for request in [post(&format!("{path}/extend")), deploy, call("DELETE", &path)] {
        let refused = shop.send(request.with_account(&dora)).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    assert_eq!(shop.fetch("qa-1").await["lock"]["holder"]["name"], "grace");
}

#[tokio::test]
async fn contact_ends_with_a_hand_over() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"contact": CONTACT, "context": "tests"})).await;
    let to = json!({"to": "ada@acme.test"});
    let next = expect_data(shop.post_to_session(&shop.grace, &session, "hand-over", &to).await, 200);
    assert_eq!((&next["context"], next.get("contact")), (&json!("tests"), None));
    assert_eq!(shop.session_status(&session).await["contact"], CONTACT, "the old session keeps it");
}
