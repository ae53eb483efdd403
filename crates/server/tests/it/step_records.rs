//! Writes steps and attempts directly into the database, as the engine would.

use berth_core::deployment::run::{StageRun, StageRunStatus, StageType};
use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;
use berth_engine::logs::{LogKey, LogStream};
use rusqlite::{Connection, params};

use super::audit_export::acme_org_id;
use super::world::TestWorld;

pub(crate) struct StepRecords {
    db: Connection,
    org: OrgId,
    deployment: DeploymentId,
    count: u8,
}

impl StepRecords {
    /// Creates the run of an existing deployment, with the stages `staging` and `production`.
    pub(crate) async fn new(world: &TestWorld, deployment: &str) -> Self {
        let db = Connection::open(world.dir.path().join("berth.db")).unwrap();
        db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let stages = ["staging", "production"].map(|name| StageRun {
            name: name.to_owned(),
            kind: StageType::Stage,
            status: StageRunStatus::Running,
            tries: 1,
            started_at: None,
            finished_at: None,
            failure: None,
            cancel: None,
            reused_from: None,
        });
        let org = acme_org_id(world).await;
        db.execute(
            "INSERT INTO runs (org_id, deployment_id, pipeline_id, stages, version)
             SELECT org_id, id, pipeline_id, ?3, 1 FROM deployments WHERE org_id = ?1 AND id = ?2",
            params![org.to_string(), deployment, serde_json::to_string(&stages).unwrap()],
        )
        .unwrap();
        Self { db, org, deployment: deployment.parse().unwrap(), count: 0 }
    }

    /// Adds a step to a stage, and returns the key of its first log.
    pub(crate) fn add_step(&mut self, stage: i64, step: &str) -> LogKey {
        self.count += 1;
        let id = StepRunId::from_parts(Timestamp::from_micros(1), [self.count; 10]);
        self.execute(
            "INSERT INTO step_runs (org_id, deployment_id, stage, position, id, step, status, tries, failures,
               losses, false_starts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', 0, 0, 0, 0)",
            params![self.org.to_string(), self.deployment.to_string(), stage, self.count, id.to_string(), step],
        );
        LogKey { org: self.org, deployment: self.deployment, step: id, attempt: 1, stream: LogStream::Step }
    }

    pub(crate) fn start_attempt(&self, key: &LogKey) {
        self.execute(
            "INSERT INTO attempts (org_id, deployment_id, step_id, number, runner, nonce, granted_at)
             VALUES (?1, ?2, ?3, ?4, 'test', ?5, 1)",
            params![
                self.org.to_string(),
                self.deployment.to_string(),
                key.step.to_string(),
                key.attempt,
                format!("{}-{}", key.step, key.attempt)
            ],
        );
    }

    pub(crate) fn end_attempt(&self, key: &LogKey) {
        self.execute(
            "UPDATE attempts SET ended_at = 2 WHERE step_id = ?1 AND number = ?2",
            params![key.step.to_string(), key.attempt],
        );
    }

    fn execute(&self, sql: &str, params: &[&dyn rusqlite::ToSql]) {
        assert_eq!(self.db.execute(sql, params).unwrap(), 1);
    }
}
