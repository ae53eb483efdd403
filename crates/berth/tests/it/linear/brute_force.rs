//! Compares the search with a brute-force check of every possible order, on short histories.

use super::history::{CallOutcome, LockAnswer, LockCall, Operation, SessionRef, format_history};
use super::intervals;
use super::lock::LockSpec;
use super::search::{SearchVerdict, Specification, search};
use crate::random::SeededRandom;

const HISTORIES: usize = 20_000;
const OPERATIONS: std::ops::Range<u64> = 2..8;

fn is_linearizable(state: &<LockSpec as Specification>::State, left: &[&Operation]) -> bool {
    if left.iter().all(|operation| operation.outcome.is_none()) {
        return true;
    }
    let may_be_next = |next: &Operation| {
        let mut others = left.iter().filter_map(|other| other.outcome.as_ref());
        others.all(|other| other.returned >= next.invoked)
    };
    left.iter().enumerate().any(|(place, next)| {
        let rest = || left.iter().enumerate().filter(move |(other, _)| *other != place);
        may_be_next(next)
            && LockSpec::step(state, next).is_some_and(|after| {
                is_linearizable(&after, &rest().map(|(_, operation)| *operation).collect::<Vec<_>>())
            })
    })
}

/// Returns a random short history: few sessions and fences, overlapping calls, and responses of the kind that fits each
/// call.
fn some_history(random: &mut SeededRandom) -> Vec<Operation> {
    let count = random.next_in(OPERATIONS);
    (0..count).map(|at| some_operation(random, at)).collect()
}

fn some_operation(random: &mut SeededRandom, at: u64) -> Operation {
    let fence = random.next_in(1..4);
    let session: std::sync::Arc<str> = format!("s{fence}").into();
    let hold = SessionRef { session: session.clone(), fence };
    let (call, answers) = match random.next_in(0..4) {
        0 => (LockCall::Claim, vec![LockAnswer::Opened(hold.clone()), LockAnswer::Held(hold)]),
        1 => {
            let only = Some(random.next_in(1..4)).filter(|_| fence != 2);
            (
                LockCall::Force { only },
                vec![LockAnswer::Opened(hold.clone()), LockAnswer::Opened(hold), LockAnswer::Moved],
            )
        }
        2 => (LockCall::Release { session }, vec![LockAnswer::Released, LockAnswer::NotActive]),
        _ => (LockCall::Get, vec![LockAnswer::Held(hold), LockAnswer::Free { fence: fence - 1 }]),
    };
    let invoked = 10 * at;
    let returned = invoked + random.next_in(1..40);
    let outcome = CallOutcome { returned, answer: random.pick(&answers).clone() };
    Operation { call, invoked, outcome: (random.next_in(0..8) > 0).then_some(outcome) }
}

#[test]
fn search_agrees_with_brute_force() {
    let mut random = SeededRandom::from_env("LINEAR_SEED");
    let (mut right, mut seen_cheaply) = (0, 0);
    for _ in 0..HISTORIES {
        let history = some_history(&mut random);
        let is_right = is_linearizable(&LockSpec::start(), &history.iter().collect::<Vec<_>>());
        let found = search::<LockSpec>(&history);
        assert_eq!(found == SearchVerdict::Linearizable, is_right, "{found:?}\n{}", format_history(&history));
        let cheap = intervals::check(&history);
        assert!(!is_right || cheap.is_ok(), "{cheap:?}\n{}", format_history(&history));
        right += usize::from(is_right);
        seen_cheaply += usize::from(cheap.is_err());
    }
    println!("{right} of {HISTORIES} histories are right, {seen_cheaply} of the wrong ones are seen cheaply");
    assert!(right > HISTORIES / 50 && right < HISTORIES / 2, "{right} histories say little");
}
