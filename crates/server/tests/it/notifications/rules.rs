//! Notification rules of people and teams.

use serde_json::{Value, json};

use super::{NotificationFixture, ORG};
use crate::world::{call, get, post};

const PATH: &str = "/api/v1/organizations/acme/notification-rules";

#[tokio::test]
async fn rules_are_the_defaults_until_they_are_set() {
    let shop = NotificationFixture::new().await;
    let first = shop.send(get(PATH).with_account(&shop.grace)).await;
    let rules = &first.body["data"]["rules"];
    assert_eq!(first.body["data"]["isDefault"], true);
    assert_eq!((&rules[0]["channel"], &rules[1]["channel"]), (&json!("inbox"), &json!("email")));
    assert_eq!(rules[1]["digestMinutes"], 5);

    let quiet = json!({"hours": "22:00-07:00", "timeZone": "Europe/Vienna"});
    let own = json!([{"channel": "email", "destination": null, "about": "all", "kinds": ["deployment_failed"], "pipeline": "sh*",
        "environment": "qa-1", "quietHours": quiet, "digestMinutes": 60}]);
    let put = shop.put_rules(&shop.grace, &own).await;
    assert_eq!((put.status.as_u16(), &put.body["data"]["rules"]), (200, &own), "{}", put.text);
    assert_eq!(shop.send(get(PATH).with_account(&shop.grace)).await.body["data"]["rules"], own);
    let of_ada = shop.send(get(PATH).with_account(&shop.ada)).await;
    assert_eq!(of_ada.body["data"]["isDefault"], true, "rules are personal");
    let stale = call("PUT", PATH).with_account(&shop.grace).header("if-match", "\"7\"");
    shop.send(stale.json(&json!({"rules": []}))).await.assert_problem(412, "precondition_failed");
    let reset = shop.put_rules(&shop.grace, &Value::Null).await;
    assert_eq!(reset.body["data"]["isDefault"], true);
    let kinds = shop.world.event_kinds().await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "notification_rules_updated").count(), 2);
}

#[tokio::test]
async fn rule_without_inbox_keeps_the_inbox_empty() {
    let shop = NotificationFixture::new().await;
    assert_eq!(shop.put_rules(&shop.grace, &json!([])).await.status, 200);
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    assert_eq!(shop.inbox(&shop.grace).await, Vec::<Value>::new());
}

#[tokio::test]
async fn subscription_notifies_of_events_that_concern_others() {
    let shop = NotificationFixture::new().await;
    let bob = shop.world.create_member("bob@acme.test", "deployer").await;
    let rule = |pipeline: &str| json!([{"channel": "inbox", "about": "all", "kinds": ["session_claimed", "session_overridden"], "pipeline": pipeline}]);
    assert_eq!(shop.put_rules(&shop.ada, &rule("shop")).await.status, 200);
    assert_eq!(shop.put_rules(&bob, &rule("docs")).await.status, 200);
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    assert_eq!(shop.causes(&shop.ada).await, ["subscription"; 3], "two claims and a takeover");
    assert_eq!(shop.causes(&bob).await, Vec::<String>::new());
}

#[tokio::test]
async fn subscription_shows_only_what_the_person_may_see() {
    let shop = NotificationFixture::new().await;
    let tess =
        crate::scoped_access::scoped_member(&shop.world, "tess@acme.test", &[("viewer", "pipeline:docs")])
            .await;
    let rule = json!([{"channel": "inbox", "about": "all"}]);
    assert_eq!(shop.put_rules(&tess, &rule).await.status, 200);
    shop.claim(&shop.grace, &json!({})).await;
    assert_eq!(shop.inbox(&tess).await, Vec::<Value>::new());
}

#[tokio::test]
async fn team_rules_apply_to_members_without_rules_of_their_own() {
    let shop = NotificationFixture::new().await;
    let bob = shop.world.create_member("bob@acme.test", "deployer").await;
    shop.post(&format!("{ORG}/teams"), &shop.ada, &json!({"slug": "sre"})).await;
    for who in [&shop.grace, &bob] {
        let path = format!("{ORG}/teams/sre/members/{}", shop.user_id(who).await);
        assert_eq!(shop.send(call("PUT", &path).with_account(&shop.ada)).await.status, 200);
    }
    let path = format!("{ORG}/teams/sre/notification-rules");
    let rule = json!({"rules": [{"channel": "inbox", "about": "all", "kinds": ["session_claimed"]}]});
    let by_grace = call("PUT", &path).with_account(&shop.grace).json(&rule);
    shop.send(by_grace).await.assert_problem(403, "forbidden");
    assert_eq!(shop.send(call("PUT", &path).with_account(&shop.ada).json(&rule)).await.status, 200);
    assert_eq!(shop.send(get(&path).with_account(&bob)).await.body["data"]["isDefault"], false);
    assert_eq!(shop.put_rules(&bob, &json!([])).await.status, 200);
    shop.claim(&shop.ada, &json!({})).await;
    assert_eq!(shop.causes(&shop.grace).await, ["subscription"]);
    assert_eq!(shop.causes(&bob).await, Vec::<String>::new(), "his own rules come first");
    let delete = call("DELETE", &format!("{ORG}/teams/sre")).with_account(&shop.ada);
    assert_eq!(shop.send(delete).await.status, 200);
    assert_eq!(
        shop.world.count_rows("SELECT COUNT(*) FROM notification_rules WHERE owner_id LIKE 'tm_%'"),
        0
    );
}

#[tokio::test]
async fn invalid_rules_are_refused_with_all_errors() {
    let shop = NotificationFixture::new().await;
    let bad = json!([{"channel": "inbox", "kinds": ["deployment_fialed"], "pipeline": "Not a slug!", "digestMinutes": 1_441,
        "quietHours": {"hours": "7-8", "timeZone": "Mars/Olympus"}}]);
    let reply = shop.put_rules(&shop.grace, &bad).await;
    reply.assert_problem(400, "invalid_request");
    let pointers: Vec<&str> =
        reply.body["errors"].as_array().unwrap().iter().map(|it| it["pointer"].as_str().unwrap()).collect();
    assert_eq!(
        pointers,
        [
            "/rules/0/kinds/0",
            "/rules/0/pipeline",
            "/rules/0/quietHours/hours",
            "/rules/0/quietHours/timeZone",
            "/rules/0/digestMinutes"
        ]
    );
    let rule = json!({"channel": "inbox"});
    let put = shop.put_rules(&shop.grace, &json!(vec![rule.clone(); 20])).await;
    assert_eq!(put.status, 200, "{}", put.text);
    shop.put_rules(&shop.grace, &json!(vec![rule; 21])).await.assert_problem(400, "invalid_request");
    shop.put_rules(&shop.grace, &json!([{"channel": "pigeon"}])).await.assert_problem(400, "invalid_request");
    let unknown = post(PATH).with_account(&shop.grace).json(&json!({}));
    shop.send(unknown).await.assert_problem(405, "method_not_allowed");
}
