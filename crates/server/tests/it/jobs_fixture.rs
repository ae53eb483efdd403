//! Fixture for tests of background jobs. It has the environment `qa-1`, which tests change by applying the domain rules
//! directly.

use std::sync::Arc;
use std::time::Duration;

use berth_core::decision::RuleDecision;
use berth_core::deployment::{DeploymentState, EnvironmentDeployment};
use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, OpenedSession, claim};
use berth_core::environment::force::{ForceClaimCommand, TakeoverMode, force_claim};
use berth_core::environment::{ClaimTerms, DecisionContext, Lock, LockHolder, Session};
use berth_core::event::{ActorType, Event};
use berth_core::id::{DeploymentId, OrgId, SessionId, UserId};
use berth_core::name::{CommitId, Email, EnvName};
use berth_core::time::Timestamp;
use berth_server::app::App;
use berth_store::feed::{EventFollower, FeedItem};
use berth_store::tables::{deployment, environment, session, user};
use berth_store::{StoreError, TxContext};
use serde_json::json;

use super::audit_export;
use super::jobs_with_runner::JobsWithRunner;
use super::world::{TestWorld, post};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct JobsFixture {
    pub(crate) app: Arc<App>,
    pub(crate) org: OrgId,
    /// The owner of the organization.
    pub(crate) ada: LockHolder,
    events: EventFollower,
    /// Events received so far.
    pub(crate) received: Vec<Event>,
}

impl JobsFixture {
    pub(crate) async fn new(world: &TestWorld) -> Self {
        Self::for_app(world.app.clone(), audit_export::acme_org_id(world).await).await
    }

    pub(crate) async fn for_app(app: Arc<App>, org: OrgId) -> Self {
        let email = Email::parse("ada@acme.test").unwrap();
        let found = app.store().read(None, move |db| user::by_email(db, &email)).await.unwrap().unwrap();
        let events = app.store().follow(org);
        Self { app, org, ada: lock_holder(found.id, "ada"), events, received: Vec::new() }
    }

    /// Waits until a step has been granted.
    pub(crate) async fn wait_for_step_start(&mut self) {
        self.wait_for_event(&["step_started"]).await;
    }

    /// Creates a pipeline with these steps and the environment `qa-1`. The environment skips the step named `Skipped`,
    /// if there is one.
    pub(crate) async fn create_pipeline(&self, world: &TestWorld, slug: &str, body: &str) {
        let skip = if body.contains("Skipped") { "skip: [skipped]" } else { "" };
        let definition = format!(
            "version: 1\npipeline:\n  name: Shop\n  stages:\n    - name: staging\n  ephemeral_environments:\n    qa-1: {{{skip}}}\n{body}"
        );
        let body = json!({"slug": slug, "definition": definition});
        let made = world
            .send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// Starts the background jobs and a runner.
    pub(crate) fn start_jobs(&self) -> JobsWithRunner {
        JobsWithRunner::start(&self.app)
    }

    pub(crate) async fn apply_rule<A: Send + 'static>(
        &self,
        pipeline: &str,
        rule: impl FnOnce(&Lock, &DecisionContext) -> RuleDecision<A> + Send + 'static,
    ) -> A {
        let pipeline = pipeline.to_owned();
        let decided = self.app.store().transact(TxContext::system(Some(self.org)), move |tx| {
            let lock = environment::find(tx, &pipeline, &qa_1())?.unwrap();
            let decision = rule(&lock, &tx.moment()?);
            tx.commit(decision)
        });
        decided.await.unwrap()
    }

    /// Claims the environment as Ada and deploys immediately.
    pub(crate) async fn deploy(&self, pipeline: &str) -> DeploymentId {
        let (by, wish) = (self.ada.clone(), deploying_terms("4f2a1c9"));
        let cmd = ClaimCommand { by, token: None, terms: wish, wait_seconds: None };
        let claimed = self.apply_rule(pipeline, move |lock, moment| claim(lock, &cmd, moment)).await;
        expect_session(claimed.unwrap()).deployment.unwrap()
    }

    /// Takes over the environment as Gil and deploys.
    pub(crate) async fn take_over(&self, pipeline: &str) -> OpenedSession {
        let by = lock_holder(UserId::from_parts(Timestamp::from_micros(1), [7; 10]), "gil");
        let cmd = ForceClaimCommand {
            by,
            token: None,
            terms: deploying_terms("9b0d3e7"),
            why: None,
            mode: TakeoverMode::Now,
            expected: None,
        };
        expect_session(
            self.apply_rule(pipeline, move |lock, moment| force_claim(lock, &cmd, moment)).await.unwrap(),
        )
    }

    pub(crate) async fn load_lock(&self, pipeline: &str) -> Lock {
        let pipeline = pipeline.to_owned();
        let read = self.app.store().read(Some(self.org), move |db| environment::find(db, &pipeline, &qa_1()));
        read.await.unwrap().unwrap()
    }

    pub(crate) async fn load_session(&self, id: SessionId) -> Session {
        self.app.store().read(Some(self.org), move |db| session::by_id(db, id)).await.unwrap().unwrap()
    }

    pub(crate) async fn load_deployment(&self, id: DeploymentId) -> EnvironmentDeployment {
        let found = self.app.store().read(Some(self.org), move |db| deployment::by_id(db, id));
        found.await.unwrap().unwrap().into_environment().unwrap()
    }

    /// The status of a deployment. If it failed, its cause and detail instead.
    pub(crate) async fn load_outcome(&self, id: DeploymentId) -> String {
        match self.load_deployment(id).await.status {
            DeploymentState::Failed(failure) => format!("{}: {}", failure.cause.as_str(), failure.detail),
            status => status.as_str().to_owned(),
        }
    }

    /// Waits for the next event of one of these kinds.
    pub(crate) async fn wait_for_event(&mut self, kinds: &[&str]) -> Event {
        let heard = async {
            loop {
                let FeedItem::Event(published) = self.events.next().await else {
                    panic!("the feed broke off")
                };
                self.received.push(published.event.clone());
                if kinds.contains(&published.event.kind.as_str()) {
                    return published.event.clone();
                }
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.unwrap_or_else(|_| panic!("none of {kinds:?} came; there were {}", self.format_events()))
    }

    /// Waits until a deployment has ended and returns its outcome.
    pub(crate) async fn wait_for_end(&mut self, id: DeploymentId) -> String {
        const ENDS: [&str; 3] = ["deployment_succeeded", "deployment_failed", "deployment_cancelled"];
        loop {
            let event = self.wait_for_event(&ENDS).await;
            if event.subjects[0].id == id.to_string() {
                return self.load_outcome(id).await;
            }
        }
    }

    /// The received events about environments, one per line.
    pub(crate) fn format_events(&self) -> String {
        let about =
            self.received.iter().filter(|event| event.subjects.iter().any(|it| it.kind == "environment"));
        let told = |event: &Event| match event.data["commitId"].as_str() {
            Some(commit) => format!("{} {commit}\n", event.kind),
            None => format!("{}\n", event.kind),
        };
        about.map(told).collect()
    }

    pub(crate) async fn transact(
        &self,
        work: impl FnOnce(&mut berth_store::Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.app.store().transact(TxContext::system(Some(self.org)), work).await.unwrap();
    }
}

pub(crate) fn lock_holder(id: UserId, name: &str) -> LockHolder {
    LockHolder { kind: ActorType::User, id, name: name.into(), session_token: None, agent: None }
}

pub(crate) fn expect_session(claimed: ClaimOutcome) -> OpenedSession {
    match claimed {
        ClaimOutcome::Session(opened) => opened,
        ClaimOutcome::Ticket(ticket) => panic!("a ticket: {ticket:?}"),
    }
}

fn qa_1() -> EnvName {
    EnvName::parse("qa-1").unwrap()
}

fn deploying_terms(commit: &str) -> ClaimTerms {
    ClaimTerms { commit: Some(CommitId::parse(commit).unwrap()), deploy: true, ..ClaimTerms::default() }
}
