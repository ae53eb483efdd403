//! Exhaustive exploration: one environment, two people, and every order of a few commands.

use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::force::TakeoverMode;
use berth_sim::locks::{
    DueMoment, LockCommand, LockRequest, ReportedOutcome, WhichDeployment, WhichNonce, WhichSession,
    WhichTicket, WorldChange, explore,
};
use berth_testkit::outcome;

fn to_commands(asks: &[LockRequest]) -> Vec<LockCommand> {
    asks.iter().map(|request| LockCommand::Request { place: 0, request: request.clone() }).collect()
}

fn claim(by: u8, wait_seconds: Option<i64>) -> LockRequest {
    LockRequest::Claim {
        by,
        commit: Some(by),
        deploy: true,
        ttl_seconds: None,
        lease_seconds: None,
        wait_seconds,
    }
}

fn force(by: u8, mode: TakeoverMode) -> LockRequest {
    LockRequest::Force { by, commit: Some(by), mode, stale_fence: None }
}

fn release(by: u8, may_force: bool) -> LockRequest {
    LockRequest::Release { by, session: WhichSession::Current, may_force, stale_fence: None }
}

fn deploy(by: u8, override_drain: bool) -> LockRequest {
    let (session, on_conflict) = (WhichSession::Current, ConflictMode::Queue);
    LockRequest::Deploy { by, session, commit: 2, on_conflict, override_drain }
}

fn grant() -> LockRequest {
    LockRequest::Grant { runner: 0, deployment: WhichDeployment::Startable }
}

fn report(before: u8, outcome: ReportedOutcome) -> LockRequest {
    LockRequest::Report { deployment: WhichDeployment::Live(before), nonce: WhichNonce::Granted, outcome }
}

#[test]
fn all_orders_of_lock_commands_keep_promises() {
    let mut alphabet = to_commands(&[
        claim(0, None),
        claim(1, Some(90)),
        LockRequest::Extend { by: 0, session: WhichSession::Current, ttl_seconds: None, stale_fence: None },
        release(0, false),
        release(1, true),
        LockRequest::Release { by: 1, session: WhichSession::Back(1), may_force: true, stale_fence: None },
        force(1, TakeoverMode::Now),
        force(1, TakeoverMode::Grace { seconds: 30 }),
        force(0, TakeoverMode::AfterCurrentDeployment),
        LockRequest::HandOver { by: 0, session: WhichSession::Current, to: 1 },
        LockRequest::Leave { by: 1, ticket: WhichTicket::Waiting(0), may_force: false },
        deploy(0, false),
        LockRequest::Cancel { by: 0, deployment: WhichDeployment::Queued(0) },
        grant(),
        report(0, ReportedOutcome::Succeeded),
        LockRequest::Undeclare,
        LockRequest::Redeclare { words: 0 },
        LockRequest::Delete { by: 0 },
    ]);
    let turns = [
        WorldChange::AdvanceTo { place: 0, due: DueMoment::Next, offset_micros: 0 },
        WorldChange::Advance { micros: 350_000_000 },
        WorldChange::SetBack { seconds: 500 },
        WorldChange::RevokePerson(1),
    ];
    alphabet.extend(turns.map(LockCommand::Change));
    check(&alphabet, 6);
}

#[test]
fn all_orders_of_deployment_commands_keep_promises() {
    let alphabet = to_commands(&[
        claim(0, None),
        release(0, true),
        force(1, TakeoverMode::Now),
        force(0, TakeoverMode::AfterCurrentDeployment),
        deploy(1, true),
        deploy(1, false),
        LockRequest::Cancel { by: 0, deployment: WhichDeployment::Reset },
        grant(),
        report(0, ReportedOutcome::Succeeded),
        report(1, ReportedOutcome::Stopped),
        report(0, ReportedOutcome::Lost),
    ]);
    check(&alphabet, 11);
}

fn check(alphabet: &[LockCommand], depth: usize) {
    match explore(alphabet, depth) {
        Ok(explored) => {
            let [states, steps] = [explored.states, explored.steps].map(outcome::group_digits);
            let commands = alphabet.len();
            outcome::report_coverage(&format!(
                "every sequence of up to {depth} of {commands} commands, {states} states, {steps} steps"
            ));
        }
        Err(failed) => panic!("{failed}"),
    }
}
