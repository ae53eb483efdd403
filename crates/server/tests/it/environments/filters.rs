//! Filters of the deployment lists.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, create_pipeline, expect_data, expect_str};
use crate::world::{get, post};

const DEPLOYMENTS: &str = "/api/v1/organizations/acme/deployments";

impl EnvironmentsFixture {
    /// The commits of the deployments that a query finds, newest first.
    async fn find_commits(&self, query: &str) -> Vec<String> {
        let list = self.send(get(&format!("{DEPLOYMENTS}?{query}&total=true")).with_account(&self.ada)).await;
        assert_eq!(list.status, 200, "{}", list.text);
        let found = list.body["data"].as_array().unwrap();
        let commits: Vec<_> = found.iter().map(|it| expect_str(&it["commitId"])).collect();
        assert_eq!(list.body["pagination"]["total"], commits.len(), "{query}");
        commits
    }

    async fn start_deployment(&self, pipeline: &str, commit: &str) -> Value {
        let path = format!("/api/v1/organizations/acme/pipelines/{pipeline}/deployments");
        expect_data(
            self.send(post(&path).with_account(&self.ada).json(&json!({"commitId": commit}))).await,
            202,
        )
    }
}

#[tokio::test]
async fn deployment_list_can_be_filtered_by_every_field() {
    let shop = EnvironmentsFixture::new().await;
    create_pipeline(&shop.world, "site").await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "in-qa-1"})).await;
    shop.post_to_session(&shop.grace, &session, "deploy", &json!({"commitId": "in-qa-1-too"})).await;
    let other = shop.send(
        post(&super::environments_path("qa-2/sessions"))
            .with_account(&shop.ada)
            .json(&json!({"commitId": "in-qa-2"})),
    );
    let other = expect_data(other.await, 201);
    let staged = shop.start_deployment("shop", "staged").await;
    shop.start_deployment("site", "elsewhere").await;
    let grace = shop.user_id(&shop.grace).await;
    let (ses, env) = (expect_str(&session["sessionId"]), expect_str(&session["environmentId"]));
    let middle = expect_str(&staged["createdAt"]);

    let everything = ["elsewhere", "staged", "in-qa-2", "in-qa-1-too", "in-qa-1"];
    for (query, commits) in [
        ("".to_owned(), everything.as_slice()),
        ("session=&environment=&pipeline=&stage=&commit=&status=&actor=&from=&to=".into(), &everything),
        (format!("session={ses}"), &["in-qa-1-too", "in-qa-1"]),
        (format!("environment={env}"), &["in-qa-1-too", "in-qa-1"]),
        ("environment=qa-2".into(), &["in-qa-2"]),
        ("environment=staging".into(), &[]),
        ("pipeline=site".into(), &["elsewhere"]),
        (format!("pipeline={}", shop.pipeline), &["staged", "in-qa-2", "in-qa-1-too", "in-qa-1"]),
        ("pipeline=site&environment=qa-1".into(), &[]),
        ("stage=qa-1".into(), &["in-qa-1-too", "in-qa-1"]),
        ("commit=in-qa-1".into(), &["in-qa-1"]),
        ("status=queued".into(), &everything),
        ("status=failed".into(), &[]),
        (format!("actor={grace}"), &["in-qa-1-too", "in-qa-1"]),
        (format!("actor={grace}&commit=in-qa-1"), &["in-qa-1"]),
        (format!("from={middle}"), &["elsewhere", "staged"]),
        (format!("to={middle}"), &["in-qa-2", "in-qa-1-too", "in-qa-1"]),
        (format!("from={middle}&to={middle}"), &[]),
    ] {
        assert_eq!(shop.find_commits(&query).await, commits, "{query}");
    }

    // Links to other pages keep the filter.
    let page = shop.send(get(&format!("{DEPLOYMENTS}?session={ses}&limit=1")).with_account(&shop.ada)).await;
    let next = page.header("link").split(", ").find(|it| it.ends_with("rel=\"next\"")).unwrap().to_owned();
    let next = next.trim_start_matches('<').split('>').next().unwrap().to_owned();
    let rest = expect_data(shop.send(get(&next).with_account(&shop.ada)).await, 200);
    assert_eq!(rest.as_array().unwrap().len(), 1, "{next}");

    // The session shows the number of its deployments and a link to their list.
    let seen = shop.session_status(&session).await;
    assert_eq!((&seen["deploymentCount"], &other["deploymentCount"]), (&json!(2), &json!(1)));
    let all =
        expect_data(shop.send(get(&expect_str(&seen["deploymentsUrl"])).with_account(&shop.ada)).await, 200);
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn deployment_list_refuses_invalid_filters_by_name() {
    let shop = EnvironmentsFixture::new().await;
    for (query, parameter) in [
        ("session=qa-1", "session"),
        ("environment=Not%20one", "environment"),
        ("pipeline=nowhere", "pipeline"),
        ("commit=-x", "commit"),
        ("status=done", "status"),
        ("actor=grace", "actor"),
        ("from=yesterday", "from"),
        ("to=tomorrow", "to"),
        ("session=ses_01k9x8s6q0e3v8n5j2m4t7w9yb&session=ses_01k9x8s6q0e3v8n5j2m4t7w9yb", "session"),
    ] {
        let refused = shop.send(get(&format!("{DEPLOYMENTS}?{query}")).with_account(&shop.ada)).await;
        refused.assert_problem(400, "invalid_parameter");
        assert_eq!(refused.body["errors"][0]["pointer"], parameter, "{query}");
    }
}
