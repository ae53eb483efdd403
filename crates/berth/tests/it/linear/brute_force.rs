//! Compares the search with brute force over every order, on short histories.

use super::history::{Answer, Call, Hold, Operation, Outcome, print};
use super::intervals;
use super::lock::Lock;
use super::search::{Specification, Verdict, search};
use crate::random::Random;

const HISTORIES: usize = 20_000;
const OPERATIONS: std::ops::Range<u64> = 2..8;

fn is_linearizable(state: &<Lock as Specification>::State, left: &[&Operation]) -> bool {
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
            && Lock::step(state, next).is_some_and(|after| {
                is_linearizable(&after, &rest().map(|(_, operation)| *operation).collect::<Vec<_>>())
            })
    })
}

/// Random short history: few sessions and fences, overlapping calls, responses that match their calls.
fn some_history(random: &mut Random) -> Vec<Operation> {
    let count = random.within(OPERATIONS);
    (0..count).map(|at| some_operation(random, at)).collect()
}

fn some_operation(random: &mut Random, at: u64) -> Operation {
    let fence = random.within(1..4);
    let session: std::sync::Arc<str> = format!("s{fence}").into();
    let hold = Hold { session: session.clone(), fence };
    let (call, answers) = match random.within(0..4) {
        0 => (Call::Claim, vec![Answer::Opened(hold.clone()), Answer::Held(hold)]),
        1 => {
            let only = Some(random.within(1..4)).filter(|_| fence != 2);
            (Call::Force { only }, vec![Answer::Opened(hold.clone()), Answer::Opened(hold), Answer::Moved])
        }
        2 => (Call::Release { session }, vec![Answer::Released, Answer::NotActive]),
        _ => (Call::Get, vec![Answer::Held(hold), Answer::Free { fence: fence - 1 }]),
    };
    let invoked = 10 * at;
    let returned = invoked + random.within(1..40);
    let outcome = Outcome { returned, answer: random.pick(&answers).clone() };
    Operation { call, invoked, outcome: (random.within(0..8) > 0).then_some(outcome) }
}

#[test]
fn search_agrees_with_brute_force() {
    let mut random = Random::from_env("LINEAR_SEED");
    let (mut right, mut seen_cheaply) = (0, 0);
    for _ in 0..HISTORIES {
        let history = some_history(&mut random);
        let is_right = is_linearizable(&Lock::start(), &history.iter().collect::<Vec<_>>());
        let found = search::<Lock>(&history);
        assert_eq!(found == Verdict::Linearizable, is_right, "{found:?}\n{}", print(&history));
        let cheap = intervals::check(&history);
        assert!(!is_right || cheap.is_ok(), "{cheap:?}\n{}", print(&history));
        right += usize::from(is_right);
        seen_cheaply += usize::from(cheap.is_err());
    }
    println!("{right} of {HISTORIES} histories are right, {seen_cheaply} of the wrong ones are seen cheaply");
    assert!(right > HISTORIES / 50 && right < HISTORIES / 2, "{right} histories say little");
}
