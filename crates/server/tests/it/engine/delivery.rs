//! Delivery metrics, computed from deployments that really ran.

use serde_json::{Value, json};

use super::{ORG, PipelineFixture, expect_data};
use crate::world::get;

const BODY: &str = "  stages: [{ name: staging }, { name: production }]
  steps:
    - name: Deploy
      type: script
      params: { run: 'case \"$BERTH_STAGE-$BERTH_COMMIT\" in production-bad*) exit 1;; esac' }
";

impl PipelineFixture {
    async fn deploy_and_wait(&self, commit: &str) -> String {
        let id = self.start_deployment(commit).await;
        self.wait_for_end(&id).await;
        id
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insights_compute_delivery_metrics_of_real_deployments() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(BODY).await;
    let nothing = fixture.fetch("/insights").await;
    assert_eq!(nothing["deploymentFrequency"], json!({"deployments": 0, "perDay": 0.0}));
    let unknown = |name: &str, member: &str| assert_eq!(nothing[name][member], Value::Null, "{nothing}");
    unknown("leadTime", "medianSeconds");
    unknown("changeFailureRate", "rate");
    unknown("timeToRestore", "p90Seconds");
    assert!(matches!(nothing["days"].as_array().unwrap().len(), 30 | 31), "{nothing}");

    fixture.deploy_and_wait("aaa1111").await;
    fixture.deploy_and_wait("bad2222").await;
    let last = fixture.deploy_and_wait("ccc3333").await;
    let back = fixture.post(&format!("/deployments/{last}/stages/production/rollback"), &json!({})).await;
    assert_eq!(
        fixture.wait_for_end(expect_data(&back, 202)["id"].as_str().unwrap()).await["status"],
        "succeeded"
    );

    for path in ["/insights", "/insights?pipeline=shop"] {
        let found = fixture.fetch(path).await;
        assert_eq!(found["deploymentFrequency"]["deployments"], 2, "{found}");
        assert_eq!(
            (&found["leadTime"]["fromCommit"], &found["leadTime"]["fromCreation"]),
            (&json!(0), &json!(2))
        );
        assert!(found["leadTime"]["medianSeconds"].is_i64());
        let rate = json!({"rate": 0.666, "failed": 1, "rolledBack": 1, "deployments": 3});
        assert_eq!(found["changeFailureRate"], rate);
        assert_eq!(
            (&found["timeToRestore"]["restored"], &found["timeToRestore"]["open"]),
            (&json!(1), &json!(0))
        );
        let days = found["days"].as_array().unwrap();
        assert_eq!(days.iter().map(|day| day["deployments"].as_i64().unwrap()).sum::<i64>(), 2);
        assert_eq!(found["isCut"], false);
    }
    let before = fixture.fetch("/insights?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z").await;
    assert_eq!(
        (&before["changeFailureRate"]["rate"], before["days"].as_array().unwrap().len()),
        (&Value::Null, 31)
    );
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insights_with_an_invalid_parameter_are_refused() {
    let fixture = PipelineFixture::start().await;
    for (query, name) in [
        ("from=yesterday", "from"),
        ("to=2026-13-01T00:00:00Z", "to"),
        ("from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2024-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=-009999-01-01T00:00:00Z", "from"),
        ("pipeline=nowhere", "pipeline"),
    ] {
        let reply = fixture.send(get(&format!("{ORG}/insights?{query}")).with_account(fixture.ada())).await;
        reply.assert_problem(400, "invalid_parameter");
        assert_eq!(reply.body["errors"][0]["pointer"], name, "{query}");
    }
    fixture.shut_down().await;
}
