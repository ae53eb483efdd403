//! Creates finished analyses by applying the domain rules directly, without running an analyzer.

use berth_core::analysis::{
    Analysis, AnalysisOutput, NewAnalysis, NewAnalysisPullRequest, SuggestedFix, pull,
};
use berth_core::event::Actor;
use berth_core::id::AnalysisId;
use berth_core::pipeline::grammar::StepId;
use berth_store::tables::analysis;
use berth_store::{StoreError, TxContext};
use serde_json::json;

use super::audit_export;
use super::world::TestWorld;

/// The failure that an analysis explains, and the diff that it suggests.
#[derive(Clone)]
pub(crate) struct AnalyzedFailure {
    pub(crate) deployment: String,
    pub(crate) pipeline: String,
    pub(crate) repository: String,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    pub(crate) commit: String,
    pub(crate) fingerprint: String,
    pub(crate) diff: Option<String>,
}

/// Creates a successful analysis of the failure and returns its id.
pub(crate) async fn create_analysis(world: &TestWorld, failure: AnalyzedFailure) -> String {
    let org = audit_export::acme_org_id(world).await;
    let made = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let new = NewAnalysis {
            id: AnalysisId::from_parts(now, tx.entropy()?),
            deployment: failure.deployment.parse().unwrap(),
            pipeline: failure.pipeline.parse().unwrap(),
            stage: "staging".into(),
            step: failure.step.parse().unwrap(),
            step_name: StepId::parse("deploy").unwrap(),
            attempt: failure.attempt,
            repository: Some(failure.repository.parse().unwrap()),
            commit: Some(failure.commit),
            asked_by: Actor::system(),
        };
        let queued = tx.commit(Analysis::request(new, now))?;
        let running = tx.commit(queued.begin(now).unwrap())?;
        let summary = "Make deploy.sh executable @everyone".to_owned();
        let answer = AnalysisOutput {
            analyser: "rules".into(),
            fingerprint: failure.fingerprint,
            result: json!({
                "rootCause": "`deploy.sh` is not executable. @acme/everyone",
                "evidence": [{"firstLine": 1, "lastLine": 1, "text": "not what is quoted"}],
            }),
            fix: failure.diff.map(|diff| SuggestedFix { summary, diff }),
            note: None,
            reused_from: None,
            usage: None,
        };
        let done = tx.commit(running.succeed(answer, now).unwrap())?;
        Ok::<_, StoreError>(done.id.to_string())
    });
    made.await.unwrap()
}

/// Records a request for a pull request that then could not be opened.
pub(crate) async fn record_failed_pull_request(world: &TestWorld, id: &str) {
    let (org, id) = (audit_export::acme_org_id(world).await, id.parse().unwrap());
    let failed = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let (now, found) = (tx.now(), analysis::by_id(tx, id)?.unwrap());
        let new = NewAnalysisPullRequest { branch: "berth/fix-0".into(), asked_by: Actor::system() };
        let asked = tx.commit(pull::request(&found, None, None, new, now).unwrap())?;
        tx.commit(pull::mark_failed(&asked, "the forge was away".into(), now)).map(drop)
    });
    failed.await.unwrap();
}
