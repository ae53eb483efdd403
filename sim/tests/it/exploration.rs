//! Exhaustive exploration: one environment, two people, every order of a few commands.

use berth_core::environment::deploy::OnConflict;
use berth_core::environment::force::Mode;
use berth_sim::locks::{
    Ask, Command, Due, Nonce, Outcomes, Turn, WhichDeployment, WhichSession, WhichTicket, explore,
};
use berth_testkit::outcome;

fn asks(asks: &[Ask]) -> Vec<Command> {
    asks.iter().map(|ask| Command::Ask { place: 0, ask: ask.clone() }).collect()
}

fn claim(by: u8, wait_seconds: Option<i64>) -> Ask {
    Ask::Claim { by, commit: Some(by), deploy: true, ttl_seconds: None, wait_seconds }
}

fn force(by: u8, mode: Mode) -> Ask {
    Ask::Force { by, commit: Some(by), mode, stale_fence: None }
}

fn release(by: u8, may_force: bool) -> Ask {
    Ask::Release { by, session: WhichSession::Current, may_force, stale_fence: None }
}

fn deploy(by: u8, override_drain: bool) -> Ask {
    let (session, on_conflict) = (WhichSession::Current, OnConflict::Queue);
    Ask::Deploy { by, session, commit: 2, on_conflict, override_drain }
}

fn grant() -> Ask {
    Ask::Grant { runner: 0, deployment: WhichDeployment::Startable }
}

fn report(before: u8, outcome: Outcomes) -> Ask {
    Ask::Report { deployment: WhichDeployment::Live(before), nonce: Nonce::Right, outcome }
}

#[test]
fn all_orders_of_lock_commands_keep_promises() {
    let mut alphabet = asks(&[
        claim(0, None),
        claim(1, Some(90)),
        Ask::Extend { by: 0, session: WhichSession::Current, ttl_seconds: None, stale_fence: None },
        release(0, false),
        release(1, true),
        Ask::Release { by: 1, session: WhichSession::Back(1), may_force: true, stale_fence: None },
        force(1, Mode::Now),
        force(1, Mode::Grace { seconds: 30 }),
        force(0, Mode::AfterCurrentDeployment),
        Ask::HandOver { by: 0, session: WhichSession::Current, to: 1 },
        Ask::Leave { by: 1, ticket: WhichTicket::Waiting(0), may_force: false },
        deploy(0, false),
        Ask::Cancel { by: 0, deployment: WhichDeployment::Queued(0) },
        grant(),
        report(0, Outcomes::Succeeded),
        Ask::Undeclare,
        Ask::Redeclare { words: 0 },
        Ask::Delete { by: 0 },
    ]);
    let turns = [
        Turn::To { place: 0, due: Due::Next, offset_micros: 0 },
        Turn::Advance { micros: 350_000_000 },
        Turn::Back { seconds: 500 },
        Turn::RevokePerson(1),
    ];
    alphabet.extend(turns.map(Command::Turn));
    check(&alphabet, 6);
}

#[test]
fn all_orders_of_deployment_commands_keep_promises() {
    let alphabet = asks(&[
        claim(0, None),
        release(0, true),
        force(1, Mode::Now),
        force(0, Mode::AfterCurrentDeployment),
        deploy(1, true),
        deploy(1, false),
        Ask::Cancel { by: 0, deployment: WhichDeployment::Reset },
        grant(),
        report(0, Outcomes::Succeeded),
        report(1, Outcomes::Stopped),
        report(0, Outcomes::Lost),
    ]);
    check(&alphabet, 11);
}

fn check(alphabet: &[Command], depth: usize) {
    match explore(alphabet, depth) {
        Ok(explored) => {
            let [states, steps] = [explored.states, explored.steps].map(outcome::group_digits);
            let commands = alphabet.len();
            outcome::covered(&format!(
                "every sequence of up to {depth} of {commands} commands, {states} states, {steps} steps"
            ));
        }
        Err(failed) => panic!("{failed}"),
    }
}
