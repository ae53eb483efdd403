//! Delivery metrics, computed from deployments that really ran.

use serde_json::{Value, json};

use super::{Harbour, ORG, data};
use crate::world::get;

const BODY: &str = "  stages: [{ name: staging }, { name: production }]
  steps:
    - name: Deploy
      type: script
      params: { run: 'case \"$BERTH_STAGE-$BERTH_COMMIT\" in production-bad*) exit 1;; esac' }
";

impl Harbour {
    async fn ended(&self, commit: &str) -> String {
        let id = self.start(commit).await;
        self.end_of(&id).await;
        id
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insights_compute_delivery_metrics_of_real_deployments() {
    let harbour = Harbour::open().await;
    harbour.pipeline(BODY).await;
    let nothing = harbour.see("/insights").await;
    assert_eq!(nothing["deploymentFrequency"], json!({"deployments": 0, "perDay": 0.0}));
    let unknown = |name: &str, member: &str| assert_eq!(nothing[name][member], Value::Null, "{nothing}");
    unknown("leadTime", "medianSeconds");
    unknown("changeFailureRate", "rate");
    unknown("timeToRestore", "p90Seconds");
    assert!(matches!(nothing["days"].as_array().unwrap().len(), 30 | 31), "{nothing}");

    harbour.ended("aaa1111").await;
    harbour.ended("bad2222").await;
    let last = harbour.ended("ccc3333").await;
    let back = harbour.post(&format!("/deployments/{last}/stages/production/rollback"), &json!({})).await;
    assert_eq!(harbour.end_of(data(&back, 202)["id"].as_str().unwrap()).await["status"], "succeeded");

    for path in ["/insights", "/insights?pipeline=shop"] {
        let found = harbour.see(path).await;
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
    let before = harbour.see("/insights?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z").await;
    assert_eq!(
        (&before["changeFailureRate"]["rate"], before["days"].as_array().unwrap().len()),
        (&Value::Null, 31)
    );
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insights_with_an_invalid_parameter_are_refused() {
    let harbour = Harbour::open().await;
    for (query, name) in [
        ("from=yesterday", "from"),
        ("to=2026-13-01T00:00:00Z", "to"),
        ("from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2024-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=-009999-01-01T00:00:00Z", "from"),
        ("pipeline=nowhere", "pipeline"),
    ] {
        let reply = harbour.send(get(&format!("{ORG}/insights?{query}")).by(harbour.ada())).await;
        reply.is(400, "invalid_parameter");
        assert_eq!(reply.body["errors"][0]["pointer"], name, "{query}");
    }
    harbour.close().await;
}
