//! JSON shapes of requests and responses. They are part of the API contract: members may be added, but never removed or
//! changed.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{EnvironmentsFixture, expect_data, expect_str};
use crate::world::get;

/// Compares a value with the expected text, after replacing ids, hashes and times by placeholders.
fn check_shape(value: &Value, wanted: &Expect) {
    let mut shown = serde_json::to_string_pretty(&normalize_value(value)).unwrap();
    shown.push('\n');
    wanted.assert_eq(&shown);
}

fn normalize_value(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            Value::Object(object.iter().map(|(name, value)| (name.clone(), normalize_value(value))).collect())
        }
        Value::Array(list) => list.iter().map(normalize_value).collect(),
        Value::String(text) => {
            Value::String(text.split_inclusive([' ', '/', ',', '"', '=']).map(normalize_word).collect())
        }
        other => other.clone(),
    }
}

fn normalize_word(word: &str) -> String {
    let text = word.trim_end_matches([' ', '/', ',', '"', '.', '=']);
    let rest = &word[text.len()..];
    let is_time = text.len() > 20 && text.starts_with("20") && text.contains('T');
    let id = text.split_once('_').filter(|(kind, id)| kind.len() <= 3 && id.len() == 26);
    match (id, is_time) {
        (Some((kind, _)), _) => format!("{kind}_…{rest}"),
        (None, true) => format!("<time>{rest}"),
        (None, false) if text.starts_with("sha256:") => format!("sha256:…{rest}"),
        (None, false) => word.to_owned(),
    }
}

/// A shop in which Grace holds qa-1 and has requested a deployment. The pipeline is stopped, so that the deployment
/// stays queued.
async fn create_held_session() -> (EnvironmentsFixture, Value) {
    let shop = EnvironmentsFixture::new().await;
    let stop = crate::world::post(&format!("{}/stop", super::PIPELINE)).with_account(&shop.ada);
    assert_eq!(shop.send(stop).await.status, 200);
    let wish = json!({"commitId": "9fceb02", "context": "load test", "ttlSeconds": 86_400});
    let session = shop.claim_session(&shop.grace, &wish).await;
    (shop, session)
}

#[tokio::test]
async fn environment_shape() {
    let (shop, _) = create_held_session().await;
    check_shape(
        &shop.fetch("qa-1").await,
        &expect![[r#"
            {
              "id": "env_…",
              "envName": "qa-1",
              "name": "qa-1",
              "pipelineId": "pl_…",
              "configuration": {
                "triggers": [
                  {
                    "on": "api"
                  }
                ],
                "release": [
                  {
                    "on": "api"
                  }
                ],
                "onRelease": "none",
                "vars": {},
                "skip": [],
                "labels": [],
                "owner": null,
                "ttlSeconds": null
              },
              "lockStatus": "locked",
              "lock": {
                "status": "locked",
                "sessionId": "ses_…",
                "holder": {
                  "type": "user",
                  "id": "usr_…",
                  "name": "grace"
                },
                "commitId": "9fceb02",
                "context": "load test",
                "claimedAt": "<time>",
                "expiresAt": "<time>",
                "fence": 1
              },
              "state": "clean",
              "deployedCommitId": null,
              "commit": null,
              "fence": 1,
              "queueLength": 0
            }
        "#]],
    );
}

#[tokio::test]
async fn overridden_session_shape() {
    let (shop, session) = create_held_session().await;
    shop.force_claim(&shop.ada, &json!({"reason": "production is down"})).await;
    let mut shown = shop.session_status(&session).await;
    assert_eq!(shown["deployments"], shown["deploymentHistory"]);
    shown["deployments"] = json!("the same as deploymentHistory");
    let history = shown["deploymentHistory"].as_array().unwrap().len();
    shown["deploymentHistory"] = json!(format!("{history} deployment"));
    check_shape(
        &shown,
        &expect![[r#"
            {
              "sessionId": "ses_…",
              "id": "ses_…",
              "envName": "qa-1",
              "environmentId": "env_…",
              "pipelineId": "pl_…",
              "status": "overridden",
              "overridden": true,
              "overriddenBy": {
                "type": "user",
                "id": "usr_…",
                "name": "ada",
                "tokenId": null
              },
              "overriddenAt": "<time>",
              "overrideReason": "production is down",
              "holder": {
                "type": "user",
                "id": "usr_…",
                "name": "grace"
              },
              "commitId": "9fceb02",
              "context": "load test",
              "fence": 1,
              "claimedAt": "<time>",
              "extendedAt": null,
              "expiresAt": "<time>",
              "endedAt": "<time>",
              "endReason": "overridden",
              "endedBy": {
                "type": "user",
                "id": "usr_…",
                "name": "ada",
                "tokenId": null
              },
              "takeover": null,
              "drain": null,
              "lockStatus": "unlocked",
              "holdsLock": false,
              "environment": {
                "lockStatus": "locked",
                "lock": {
                  "status": "locked",
                  "sessionId": "ses_…",
                  "holder": {
                    "type": "user",
                    "id": "usr_…",
                    "name": "ada"
                  },
                  "commitId": null,
                  "context": null,
                  "claimedAt": "<time>",
                  "expiresAt": null,
                  "fence": 2
                }
              },
              "deploymentHistory": "1 deployment",
              "deploymentCount": 1,
              "deploymentsUrl": "/api/v1/organizations/org_…/deployments?session=ses_…",
              "deployments": "the same as deploymentHistory"
            }
        "#]],
    );
}

#[tokio::test]
async fn take_over_ticket_shape() {
    let (shop, _) = create_held_session().await;
    let body = json!({"mode": "grace", "graceSeconds": 300, "reason": "release day", "commitId": "main"});
    let mut ticket = expect_data(shop.force_claim(&shop.ada, &body).await, 202);
    ticket["etaSeconds"] = json!("300 or a little less");
    check_shape(
        &ticket,
        &expect![[r#"
        {
          "ticketId": "tkt_…",
          "id": "tkt_…",
          "envName": "qa-1",
          "status": "waiting",
          "position": 1,
          "etaSeconds": "300 or a little less",
          "etaBasis": "expiry",
          "groupId": null,
          "holder": {
            "type": "user",
            "id": "usr_…",
            "name": "ada"
          },
          "commitId": "main",
          "context": null,
          "createdAt": "<time>",
          "expiresAt": "<time>",
          "endedAt": null,
          "cause": null,
          "sessionId": null,
          "deploymentId": null,
          "takeoverAt": "<time>"
        }
    "#]],
    );
}

#[tokio::test]
async fn history_entry_shape() {
    let (shop, session) = create_held_session().await;
    shop.release(&shop.ada, &session).await;
    let mut entry = shop.fetch("qa-1/history").await[0].clone();
    assert!(entry["durationSeconds"].is_i64());
    entry["durationSeconds"] = json!("0 or a little more");
    check_shape(
        &entry,
        &expect![[r#"
        {
          "sessionId": "ses_…",
          "holder": {
            "type": "user",
            "id": "usr_…",
            "name": "grace"
          },
          "context": "load test",
          "commitId": "9fceb02",
          "status": "released",
          "claimedAt": "<time>",
          "endedAt": "<time>",
          "endReason": "released",
          "endedBy": {
            "type": "user",
            "id": "usr_…",
            "name": "ada",
            "tokenId": null
          },
          "durationSeconds": "0 or a little more",
          "deploymentCount": 1,
          "fence": 1
        }
    "#]],
    );
}

#[tokio::test]
async fn deployment_shape() {
    let (shop, session) = create_held_session().await;
    let path = format!("/api/v1/organizations/acme/deployments/{}", expect_str(&session["deploymentId"]));
    check_shape(
        &expect_data(shop.send(get(&path).with_account(&shop.ada)).await, 200),
        &expect![[r#"
            {
              "id": "dep_…",
              "deploymentId": "dep_…",
              "number": 1,
              "pipelineId": "pl_…",
              "environmentId": "env_…",
              "envName": "qa-1",
              "sessionId": "ses_…",
              "fence": 1,
              "commitId": "9fceb02",
              "resolvedCommitId": null,
              "commit": null,
              "compareUrl": null,
              "definitionHash": "sha256:…",
              "trigger": "session",
              "rollback": null,
              "context": null,
              "retryOf": null,
              "isUntrusted": false,
              "reason": null,
              "bypass": null,
              "actor": {
                "type": "user",
                "id": "usr_…",
                "name": "grace",
                "tokenId": null
              },
              "status": "queued",
              "cause": null,
              "detail": null,
              "cancelledBy": null,
              "supersededBy": null,
              "createdAt": "<time>",
              "startedAt": null,
              "finishedAt": null,
              "blockedBy": [
                {
                  "kind": "pipeline_stopped",
                  "detail": "the pipeline is stopped",
                  "clearedBy": "resuming the pipeline",
                  "clearsAt": null
                }
              ],
              "stages": [
                {
                  "name": "qa-1",
                  "kind": "environment",
                  "status": "queued",
                  "tries": 0,
                  "startedAt": null,
                  "finishedAt": null,
                  "cause": null,
                  "detail": null,
                  "cancelledBy": null,
                  "reusedFrom": null
                }
              ]
            }
        "#]],
    );
}

#[tokio::test]
async fn refused_claim_shape() {
    let (shop, _) = create_held_session().await;
    let mut refused = shop.claim(&shop.ada, &json!({})).await.body;
    assert!(refused["retryAfterSeconds"].is_i64() && refused["requestId"].is_string());
    refused["retryAfterSeconds"] = json!("a day or a little less");
    refused["requestId"] = json!("…");
    check_shape(
        &refused,
        &expect![[r#"
        {
          "type": "/docs/errors/environment_locked",
          "title": "The environment is locked",
          "status": 409,
          "detail": "environment \"qa-1\" has been held by grace since <time> (\"load test\"), until <time>. Join the queue with \"queue\": true, or take over with force-claim.",
          "instance": "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1/sessions",
          "code": "environment_locked",
          "requestId": "…",
          "holder": {
            "type": "user",
            "id": "usr_…",
            "name": "grace"
          },
          "since": "<time>",
          "context": "load test",
          "commitId": "9fceb02",
          "expiresAt": "<time>",
          "sessionId": "ses_…",
          "fence": 1,
          "queueLength": 0,
          "self": false,
          "links": {
            "queue": "/api/v1/organizations/org_…/pipelines/pl_…/ephemeral-environments/qa-1/queue",
            "forceClaim": "/api/v1/organizations/org_…/pipelines/pl_…/ephemeral-environments/qa-1/force-claim"
          },
          "retryAfterSeconds": "a day or a little less"
        }
    "#]],
    );
}
