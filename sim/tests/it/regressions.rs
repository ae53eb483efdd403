//! Bugs that random sequences found in the rules of the lock, each as a short test.

use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::{EnvironmentStatus, Lock};
use berth_core::event::EventKind;
use berth_sim::locks::{
    DueMoment, LockCommand, LockModel, LockOracle, LockRequest, ReportedOutcome, WhichDeployment, WhichNonce,
    WhichSession, WorldChange,
};

const ADA: u8 = 0;
const BOB: u8 = 1;
const SECOND: i64 = 1_000_000;

/// Runs requests in the environment `qa`. A session there ends after ten minutes, or after 400 seconds without
/// activity, and a reset follows.
#[derive(Default)]
struct LockFixture {
    model: LockModel,
    checker: LockOracle,
}

impl LockFixture {
    /// Makes a request in `qa` and returns the response as text.
    fn send_request(&mut self, request: LockRequest) -> String {
        let steps = self.model.perform(&LockCommand::Request { place: 0, request }, &mut self.checker);
        let steps = steps.unwrap_or_else(|violation| panic!("{violation}"));
        steps.first().map(|step| step.decision.answer.to_string()).unwrap_or_default()
    }

    fn claim(&mut self, by: u8, commit: Option<u8>) -> String {
        self.send_request(LockRequest::Claim {
            by,
            commit,
            deploy: true,
            ttl_seconds: Some(3_600),
            lease_seconds: None,
            wait_seconds: None,
        })
    }

    fn deploy(&mut self, by: u8, override_drain: bool) -> String {
        let (session, on_conflict) = (WhichSession::Current, ConflictMode::Queue);
        self.send_request(LockRequest::Deploy { by, session, commit: 2, on_conflict, override_drain })
    }

    fn extend(&mut self, by: u8, ttl_seconds: Option<i64>) -> String {
        self.send_request(LockRequest::Extend {
            by,
            session: WhichSession::Current,
            ttl_seconds,
            stale_fence: None,
        })
    }

    fn release(&mut self, by: u8) -> String {
        self.send_request(LockRequest::Release {
            by,
            session: WhichSession::Current,
            may_force: false,
            stale_fence: None,
        })
    }

    fn grant(&mut self) -> String {
        self.send_request(LockRequest::Grant { runner: 0, deployment: WhichDeployment::Startable })
    }

    fn report(&mut self, which: WhichDeployment, outcome: ReportedOutcome) -> String {
        self.send_request(LockRequest::Report { deployment: which, nonce: WhichNonce::Granted, outcome })
    }

    fn apply_change(&mut self, turn: WorldChange) {
        self.model.apply_change(turn);
    }

    fn lock(&self) -> Lock {
        self.model.store.load(self.model.surroundings.environment(0)).expect("it is there")
    }

    /// Returns a story in which Ada has deployed and released, and the reset is running.
    fn during_reset() -> Self {
        let mut story = Self::default();
        story.claim(ADA, Some(1));
        story.grant();
        story.report(WhichDeployment::Live(0), ReportedOutcome::Succeeded);
        story.release(ADA);
        assert_eq!(story.grant(), "deployment 2 running");
        story
    }
}

#[test]
fn deleted_environment_cannot_be_claimed() {
    let mut story = LockFixture::default();
    story.claim(ADA, None);
    story.send_request(LockRequest::Undeclare);
    for answer in [
        story.claim(BOB, None),
        story.send_request(LockRequest::HandOver { by: ADA, session: WhichSession::Current, to: BOB }),
    ] {
        assert!(answer.starts_with("no: the definition no longer has this environment"), "{answer}");
    }
    assert_eq!(story.extend(ADA, None), "session 1 of ada at fence 1, active");
    story.release(ADA);
    assert!(story.claim(BOB, None).starts_with("no: "));
}

#[test]
fn cancelling_queued_deployment_counts_as_activity() {
    let mut story = LockFixture::default();
    story.claim(ADA, Some(1));
    story.apply_change(WorldChange::Advance { micros: 500 * SECOND });
    story.send_request(LockRequest::Cancel { by: ADA, deployment: WhichDeployment::Back(0) });
    assert_eq!(story.extend(ADA, None), "session 1 of ada at fence 1, active");
}

#[test]
fn clock_set_back_does_not_shorten_session() {
    let mut story = LockFixture::default();
    story.claim(ADA, None);
    story.apply_change(WorldChange::SetBack { seconds: 300 });
    story.extend(ADA, None);
    story.apply_change(WorldChange::Advance { micros: 500 * SECOND });
    assert_eq!(story.extend(ADA, None), "session 1 of ada at fence 1, active");
}

#[test]
fn environment_is_reset_after_drain_override() {
    let mut story = LockFixture::during_reset();
    story.claim(BOB, None);
    story.deploy(BOB, true);
    story.grant();
    story.report(WhichDeployment::Live(1), ReportedOutcome::Succeeded);
    // At this point the first reset has been ordered to stop and has not confirmed it.
    story.release(BOB);
    assert_eq!(story.lock().state(), EnvironmentStatus::Resetting);
    assert_eq!(story.grant(), "", "the second reset has to wait for the first");
    story.report(WhichDeployment::Live(0), ReportedOutcome::Stopped);
    assert_eq!(story.grant(), "deployment 4 running");
    story.report(WhichDeployment::Live(0), ReportedOutcome::Succeeded);
    assert_eq!(story.lock().state(), EnvironmentStatus::Clean);
}

#[test]
fn extended_session_has_no_expiry_warning() {
    let mut story = LockFixture::default();
    story.claim(ADA, Some(1));
    story.apply_change(WorldChange::AdvanceTo { place: 0, due: DueMoment::Expiry, offset_micros: -1 });
    story.extend(ADA, Some(7_200));
    let mut events = story.model.store.events.iter();
    assert!(!events.any(|event| event.kind == EventKind::SessionExpiring));
}

#[test]
fn deleted_environment_is_not_reset() {
    let mut story = LockFixture::default();
    story.claim(ADA, Some(1));
    story.grant();
    story.release(ADA);
    assert!(story.lock().is_resetting());
    story.send_request(LockRequest::Delete { by: ADA });
    assert!(!story.lock().is_resetting());
}
