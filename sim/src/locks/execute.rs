//! Applies a command to the rules. Accesses records only through [`LockRecords`], so that every backend runs the
//! same code.

use berth_core::decision::RuleDecision;
use berth_core::deployment::environment::report::{DeploymentOutcome, order, report};
use berth_core::deployment::environment::{GrantCommand, cancel::cancel, grant::grant};
use berth_core::deployment::{EnvironmentDeployment, ExecutionFailure, FailureCode};
use berth_core::environment::claim::{ClaimCommand, claim};
use berth_core::environment::declare::{DeclareCommand, declare, delete, redeclare, undeclare};
use berth_core::environment::deploy::{DeployCommand, deploy};
use berth_core::environment::extend::extend;
use berth_core::environment::fence::Fence;
use berth_core::environment::force::{ForceClaimCommand, force_claim};
use berth_core::environment::hand_over::hand_over;
use berth_core::environment::lease::renew_lease;
use berth_core::environment::queue::leave_queue;
use berth_core::environment::release::{ReleaseCommand, release};
use berth_core::environment::{ClaimTerms, DecisionContext, Lock, NamedSession, Session, Ticket, settle};
use berth_core::id::EnvironmentId;

use super::answer::{LockAnswer, ignore_answer, map_answer, ruling_answer};
use super::command::{
    EnvironmentIndex, LockRequest, ReportedOutcome, WhichDeployment, WhichNonce, WhichSession, WhichTicket,
};
use super::fixtures;
use super::surroundings::Surroundings;

/// A backend that stores records. Records are numbered from 1 within each environment.
pub trait LockRecords {
    fn lock(&self, environment: EnvironmentId) -> Option<Lock>;
    fn session(&self, environment: EnvironmentId, number: i64) -> Option<Session>;
    fn ticket(&self, environment: EnvironmentId, number: i64) -> Option<Ticket>;
    fn deployment(&self, environment: EnvironmentId, number: i64) -> Option<EnvironmentDeployment>;
    /// Returns the highest fence of any environment with this name, including deleted ones.
    fn last_fence(&self, place: EnvironmentIndex) -> Fence;
}

/// The decision on a request, or `None` if it names a missing record.
type LockDecision = Option<RuleDecision<LockAnswer>>;

/// Applies a request to the rules. Returns `None` if it names a missing record or its caller is not authorized.
pub fn execute(
    records: &impl LockRecords,
    surroundings: &Surroundings,
    place: EnvironmentIndex,
    request: &LockRequest,
    moment: &DecisionContext,
) -> Option<RuleDecision<LockAnswer>> {
    if request.person().is_some_and(|person| surroundings.revoked_people.contains(&person)) {
        return None;
    }
    let id = surroundings.environment(place);
    if *request == LockRequest::Recreate {
        return recreate(records, surroundings, place, moment);
    }
    let view = RequestView { records, id, lock: &records.lock(id)?, surroundings };
    match request {
        LockRequest::Claim { .. } | LockRequest::Force { .. } | LockRequest::Leave { .. } => {
            view.execute_queue_request(request, moment)
        }
        LockRequest::Extend { .. }
        | LockRequest::RenewLease { .. }
        | LockRequest::Release { .. }
        | LockRequest::HandOver { .. }
        | LockRequest::Deploy { .. } => view.execute_session_request(request, moment),
        LockRequest::Cancel { .. }
        | LockRequest::Grant { .. }
        | LockRequest::Report { .. }
        | LockRequest::Heartbeat { .. } => view.execute_deployment_request(request, moment),
        LockRequest::Sweep => Some(ignore_answer(settle(view.lock, moment))),
        // The remaining requests change the pipeline, which is not possible once it has been deleted.
        _ if surroundings.deleted[usize::from(place)] => None,
        LockRequest::Redeclare { words } => {
            let hash = format!("definition {words}");
            Some(ignore_answer(redeclare(view.lock, fixtures::configuration(*words), hash, moment)))
        }
        LockRequest::Undeclare => Some(ignore_answer(undeclare(view.lock, moment))),
        LockRequest::Delete { by } => {
            Some(ignore_answer(delete(view.lock, fixtures::person(*by).actor(), moment)))
        }
        LockRequest::Recreate => None,
    }
}

/// The session, ticket, deployment, fence and nonce that a request refers to, looked up just before the request is
/// executed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSubject {
    pub session: Option<Session>,
    pub ticket: Option<Ticket>,
    pub deployment: Option<EnvironmentDeployment>,
    /// The fence sent in `If-Match`, if any.
    pub expected: Option<Fence>,
    pub nonce: Option<String>,
}

/// Finds the records that a request refers to, in the same way as [`execute`].
pub fn find_subject(
    records: &impl LockRecords,
    surroundings: &Surroundings,
    place: EnvironmentIndex,
    request: &LockRequest,
) -> RequestSubject {
    let id = surroundings.environment(place);
    let Some(lock) = records.lock(id) else { return RequestSubject::default() };
    let view = RequestView { records, id, lock: &lock, surroundings };
    match request {
        LockRequest::Extend { session, stale_fence, .. }
        | LockRequest::Release { session, stale_fence, .. } => RequestSubject {
            session: view.find_session(*session),
            expected: view.if_match_fence(*stale_fence),
            ..RequestSubject::default()
        },
        LockRequest::RenewLease { session, .. }
        | LockRequest::HandOver { session, .. }
        | LockRequest::Deploy { session, .. } => {
            RequestSubject { session: view.find_session(*session), ..RequestSubject::default() }
        }
        LockRequest::Force { stale_fence, .. } => {
            RequestSubject { expected: view.if_match_fence(*stale_fence), ..RequestSubject::default() }
        }
        LockRequest::Leave { ticket, .. } => {
            RequestSubject { ticket: view.find_ticket(*ticket), ..RequestSubject::default() }
        }
        LockRequest::Cancel { deployment, .. } => {
            RequestSubject { deployment: view.find_deployment(*deployment), ..RequestSubject::default() }
        }
        LockRequest::Grant { deployment, runner } => RequestSubject {
            deployment: view.find_deployment(*deployment),
            nonce: Some(nonce_text(*runner)),
            ..RequestSubject::default()
        },
        LockRequest::Report { deployment, nonce, .. } | LockRequest::Heartbeat { deployment, nonce } => {
            let deployment = view.find_deployment(*deployment);
            let nonce = deployment.as_ref().map(|it| sent_nonce(it, *nonce));
            RequestSubject { deployment, nonce, ..RequestSubject::default() }
        }
        _ => RequestSubject::default(),
    }
}

impl Surroundings {
    /// Must be called after a request was committed, because some requests determine which environment the name refers
    /// to from then on.
    pub fn record_commit(&mut self, place: EnvironmentIndex, request: &LockRequest) {
        let place = usize::from(place);
        match request {
            LockRequest::Delete { .. } => self.deleted[place] = true,
            LockRequest::Recreate => {
                self.deleted[place] = false;
                self.incarnations[place] += 1;
            }
            _ => {}
        }
    }
}

/// Returns a runner's nonce as a string.
pub(crate) fn nonce_text(runner: u16) -> String {
    format!("n{runner}")
}

/// Returns the command that declares an environment. It is the first one with its name, or it reuses the name after a
/// deletion.
pub(crate) fn declare_command(
    place: EnvironmentIndex,
    incarnation: u8,
    id: EnvironmentId,
    last_fence: Fence,
) -> DeclareCommand {
    DeclareCommand {
        id,
        pipeline: fixtures::pipeline(place, incarnation),
        name: fixtures::name(place),
        configuration: fixtures::configuration(place),
        definition_hash: format!("definition {place}"),
        last_fence,
    }
}

fn recreate(
    records: &impl LockRecords,
    surroundings: &Surroundings,
    place: EnvironmentIndex,
    moment: &DecisionContext,
) -> Option<RuleDecision<LockAnswer>> {
    let index = usize::from(place);
    if !surroundings.deleted[index] {
        return None;
    }
    let incarnation = surroundings.incarnations[index] + 1;
    let declaration =
        declare_command(place, incarnation, surroundings.next_environment(place), records.last_fence(place));
    Some(ignore_answer(declare(declaration, moment.now)))
}

struct RequestView<'a, R> {
    records: &'a R,
    id: EnvironmentId,
    lock: &'a Lock,
    surroundings: &'a Surroundings,
}

impl<R: LockRecords> RequestView<'_, R> {
    fn execute_queue_request(&self, request: &LockRequest, moment: &DecisionContext) -> LockDecision {
        let wish = |commit: &Option<u8>, deploy, ttl_seconds, lease_seconds| ClaimTerms {
            commit: commit.map(fixtures::commit),
            context: Some(fixtures::reason("because")),
            contact: None,
            ttl_seconds,
            lease_seconds,
            deploy,
            is_untrusted: false,
        };
        match request {
            LockRequest::Claim { by, commit, deploy, ttl_seconds, lease_seconds, wait_seconds } => {
                let wish = wish(commit, *deploy, *ttl_seconds, *lease_seconds);
                let (holder, token) = (fixtures::person(*by), self.valid_token(*by));
                let cmd = ClaimCommand { by: holder, token, terms: wish, wait_seconds: *wait_seconds };
                Some(ruling_answer(claim(self.lock, &cmd, moment), |it| LockAnswer::Claimed(Box::new(it))))
            }
            LockRequest::Force { by, commit, mode, stale_fence } => {
                let cmd = ForceClaimCommand {
                    by: fixtures::person(*by),
                    token: self.valid_token(*by),
                    terms: wish(commit, true, None, None),
                    why: Some(fixtures::reason("urgent")),
                    mode: *mode,
                    expected: self.if_match_fence(*stale_fence),
                };
                Some(ruling_answer(force_claim(self.lock, &cmd, moment), |it| {
                    LockAnswer::Claimed(Box::new(it))
                }))
            }
            LockRequest::Leave { by, ticket, may_force } => {
                let ticket = self.find_ticket(*ticket)?;
                let ruling = leave_queue(self.lock, &ticket, &fixtures::person(*by), *may_force, moment);
                Some(ruling_answer(ruling, |it| LockAnswer::Ticket(Box::new(it))))
            }
            _ => None,
        }
    }

    fn execute_session_request(&self, request: &LockRequest, moment: &DecisionContext) -> LockDecision {
        let lock = self.lock;
        match request {
            LockRequest::Extend { by, session, ttl_seconds, stale_fence } => {
                let session = self.find_session(*session)?;
                let named = NamedSession { session: &session, expected: self.if_match_fence(*stale_fence) };
                let ruling = extend(lock, &named, &fixtures::person(*by), *ttl_seconds, moment);
                Some(ruling_answer(ruling, |it| LockAnswer::Session(Box::new(it))))
            }
            LockRequest::RenewLease { by, session } => {
                let session = self.find_session(*session)?;
                let named = NamedSession { session: &session, expected: None };
                let ruling = renew_lease(lock, &named, &fixtures::person(*by), moment);
                Some(ruling_answer(ruling, |it| LockAnswer::Session(Box::new(it))))
            }
            LockRequest::Release { by, session, may_force, stale_fence } => {
                let session = self.find_session(*session)?;
                let named = NamedSession { session: &session, expected: self.if_match_fence(*stale_fence) };
                let cmd = ReleaseCommand { by: fixtures::person(*by), may_force: *may_force };
                Some(ruling_answer(release(lock, &named, &cmd, moment), |it| {
                    LockAnswer::Released(Box::new(it))
                }))
            }
            LockRequest::HandOver { by, session, to } if !self.surroundings.revoked_people.contains(to) => {
                let session = self.find_session(*session)?;
                let named = NamedSession { session: &session, expected: None };
                let ruling = hand_over(lock, &named, &fixtures::person(*by), &fixtures::person(*to), moment);
                Some(ruling_answer(ruling, |it| LockAnswer::Session(Box::new(it))))
            }
            LockRequest::Deploy { by, session, commit, on_conflict, override_drain } => {
                let session = self.find_session(*session)?;
                let named = NamedSession { session: &session, expected: None };
                let cmd = DeployCommand {
                    by: fixtures::person(*by),
                    commit: fixtures::commit(*commit),
                    context: None,
                    on_conflict: *on_conflict,
                    override_drain: override_drain.then(|| fixtures::reason("cannot wait")),
                    is_untrusted: false,
                };
                Some(ruling_answer(deploy(lock, &named, &cmd, moment), |it| {
                    LockAnswer::Deployment(Box::new(it))
                }))
            }
            _ => None,
        }
    }

    fn execute_deployment_request(&self, request: &LockRequest, moment: &DecisionContext) -> LockDecision {
        let lock = self.lock;
        match request {
            LockRequest::Cancel { by, deployment } => {
                let (deployment, by) = (self.find_deployment(*deployment)?, fixtures::person(*by).actor());
                let ruling = cancel(lock, &deployment, by, None, moment);
                Some(ruling_answer(ruling, |it| LockAnswer::Deployment(Box::new(it))))
            }
            LockRequest::Grant { runner, deployment } => {
                let deployment = self.find_deployment(*deployment)?.id;
                let cmd =
                    GrantCommand { deployment, runner: format!("r{runner}"), nonce: nonce_text(*runner) };
                Some(ruling_answer(grant(lock, &cmd, moment), |it| LockAnswer::Deployment(Box::new(it))))
            }
            LockRequest::Report { deployment, nonce, outcome } => {
                let deployment = self.find_deployment(*deployment)?;
                let nonce = sent_nonce(&deployment, *nonce);
                let decision = report(lock, deployment.id, &nonce, &outcome.to_outcome(), moment);
                Some(map_answer(decision, LockAnswer::Order))
            }
            LockRequest::Heartbeat { deployment, nonce } => {
                let deployment = self.find_deployment(*deployment)?;
                let order = order(lock, deployment.id, &sent_nonce(&deployment, *nonce));
                Some(RuleDecision::without_changes(LockAnswer::Order(order)))
            }
            _ => None,
        }
    }

    fn valid_token(&self, person: u8) -> Option<berth_core::id::TokenId> {
        (!self.surroundings.revoked_tokens.contains(&person)).then(|| fixtures::token(person))
    }

    fn if_match_fence(&self, stale_fence: Option<bool>) -> Option<Fence> {
        let active = self.lock.session.as_ref().map(|session| session.fence);
        let seen = active.unwrap_or(self.lock.environment.fence);
        stale_fence.map(|is_stale| Fence::from_number(seen.number() - i64::from(is_stale)))
    }

    fn find_session(&self, which: WhichSession) -> Option<Session> {
        let last = self.lock.environment.sessions;
        match which {
            WhichSession::Current => {
                self.lock.session.clone().or_else(|| self.records.session(self.id, last))
            }
            WhichSession::Back(count) => self.records.session(self.id, last - i64::from(count)),
        }
    }

    fn find_ticket(&self, which: WhichTicket) -> Option<Ticket> {
        match which {
            WhichTicket::Waiting(before) => self.lock.tickets.get(usize::from(before)).cloned(),
            WhichTicket::Back(count) => {
                self.records.ticket(self.id, self.lock.environment.tickets - i64::from(count))
            }
        }
    }

    fn find_deployment(&self, which: WhichDeployment) -> Option<EnvironmentDeployment> {
        let mut unfinished = self.lock.deployments.iter();
        match which {
            WhichDeployment::Startable => {
                self.lock.environment.agenda.startable.and_then(|id| self.lock.deployment(id).cloned())
            }
            WhichDeployment::Live(before) => {
                unfinished.filter(|it| it.attempt().is_some()).nth(usize::from(before)).cloned()
            }
            WhichDeployment::Queued(before) => {
                unfinished.filter(|it| it.attempt().is_none()).nth(usize::from(before)).cloned()
            }
            WhichDeployment::Reset => unfinished
                .find(|it| it.target.purpose == berth_core::deployment::DeploymentPurpose::Reset)
                .cloned(),
            WhichDeployment::Back(count) => {
                self.records.deployment(self.id, self.lock.environment.deployments - i64::from(count))
            }
            WhichDeployment::Numbered(number) => self.records.deployment(self.id, number),
        }
    }
}

impl ReportedOutcome {
    pub fn to_outcome(self) -> DeploymentOutcome {
        match self {
            ReportedOutcome::Succeeded => DeploymentOutcome::Succeeded,
            ReportedOutcome::Failed => DeploymentOutcome::Failed(ExecutionFailure {
                cause: FailureCode::StepFailed,
                detail: "exit code 1".into(),
            }),
            ReportedOutcome::Stopped => DeploymentOutcome::Stopped,
            ReportedOutcome::Lost => DeploymentOutcome::Lost,
        }
    }
}

fn sent_nonce(deployment: &EnvironmentDeployment, nonce: WhichNonce) -> String {
    match nonce {
        WhichNonce::OfRunner(runner) => nonce_text(runner),
        WhichNonce::Granted => deployment.attempt().map_or_else(|| nonce_text(0), |it| it.nonce.clone()),
    }
}
