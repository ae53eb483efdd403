//! In-memory fake lock with injectable bugs. It shows that clients, recorder and checks together find such bugs under
//! real races.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check_history;
use super::history::{Answer, Call, Hold};
use super::recorder::{Board, Service};
use crate::random::Random;

const CLIENTS: u64 = 8;
const ENVIRONMENTS: usize = 3;
const OPERATIONS: usize = 3_000;
const CRASHES: usize = 2;
/// Runs until a race must have been found.
const RUNS_MAX: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Checks whether the lock is free, and takes it a moment later.
    ChecksThenActs,
    ForcesThroughFree,
    ForgetsIfMatch,
    ReleasesTheCurrent,
    KeepsTheFence,
    SkipsAFence,
    /// A refusal names the previous holder.
    NamesThePrevious,
    ReadsACopy,
    /// The last change before a crash is acknowledged but lost.
    LosesTheLastChange,
    FenceRestartsWithCrash,
}

#[derive(Debug, Clone, Default)]
struct State {
    holder: Option<Hold>,
    fence: u64,
    /// The state one change ago.
    before: Option<Box<State>>,
    previous: Option<Hold>,
    /// Number of sessions ever opened.
    sessions: u64,
}

impl State {
    fn open(&mut self, mistake: Mistake) -> Answer {
        self.fence += match mistake {
            Mistake::KeepsTheFence if self.fence == 7 => 0,
            Mistake::SkipsAFence if self.fence == 7 => 2,
            _ => 1,
        };
        self.sessions += 1;
        let hold = Hold { session: format!("s{}", self.sessions).into(), fence: self.fence };
        self.previous = self.holder.replace(hold.clone());
        Answer::Opened(hold)
    }

    fn shown(&self) -> Answer {
        match &self.holder {
            Some(hold) => Answer::Held(hold.clone()),
            None => Answer::Free { fence: self.fence },
        }
    }
}

struct FakeLocks {
    mistake: Mistake,
    states: Vec<Mutex<State>>,
    is_down: AtomicBool,
}

impl FakeLocks {
    fn change<T>(&self, environment: usize, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.states[environment].lock().expect("unpoisoned");
        let before = State { before: None, ..state.clone() };
        let told = change(&mut state);
        if state.shown() != before.shown() {
            state.before = Some(Box::new(before));
        }
        told
    }

    fn look(&self, environment: usize) -> State {
        self.states[environment].lock().expect("unpoisoned").clone()
    }

    fn claim(&self, environment: usize) -> Answer {
        if self.mistake == Mistake::ChecksThenActs {
            let seen = self.look(environment);
            std::thread::yield_now();
            return match seen.holder {
                Some(hold) => Answer::Held(hold),
                None => self.change(environment, |state| state.open(self.mistake)),
            };
        }
        self.change(environment, |state| match (&state.holder, &state.previous) {
            (Some(_), Some(previous)) if self.mistake == Mistake::NamesThePrevious => {
                Answer::Held(previous.clone())
            }
            (Some(hold), _) => Answer::Held(hold.clone()),
            (None, _) => state.open(self.mistake),
        })
    }

    fn force(&self, environment: usize, only: Option<u64>) -> Answer {
        if self.mistake == Mistake::ForcesThroughFree && only.is_none() {
            self.change(environment, |state| state.holder = None);
            std::thread::yield_now();
        }
        self.change(environment, |state| {
            let holds = state.holder.as_ref().map(|hold| hold.fence);
            if only.is_some() && only != holds && self.mistake != Mistake::ForgetsIfMatch {
                return Answer::Moved;
            }
            state.open(self.mistake)
        })
    }

    fn release(&self, environment: usize, session: &str) -> Answer {
        self.change(environment, |state| {
            let is_meant =
                |hold: &Hold| &*hold.session == session || self.mistake == Mistake::ReleasesTheCurrent;
            match state.holder.take_if(|hold| is_meant(hold)) {
                Some(_) => Answer::Released,
                None => Answer::NotActive,
            }
        })
    }

    /// Restarts with no calls in flight.
    fn restart(&self) {
        for state in &self.states {
            let mut state = state.lock().expect("unpoisoned");
            let sessions = state.sessions;
            match self.mistake {
                Mistake::LosesTheLastChange => {
                    if let Some(before) = state.before.take() {
                        *state = State { sessions, ..*before };
                    }
                }
                Mistake::FenceRestartsWithCrash => state.fence = 0,
                _ => {}
            }
        }
        self.is_down.store(false, Ordering::SeqCst);
    }
}

impl Service for &FakeLocks {
    fn ask(&mut self, environment: usize, call: &Call) -> Option<Answer> {
        let is_lost = self.is_down.load(Ordering::SeqCst);
        let answer = match call {
            // A crash may come before or after the change.
            _ if is_lost && environment.is_multiple_of(2) => return None,
            Call::Claim => self.claim(environment),
            Call::Force { only } => self.force(environment, *only),
            Call::Release { session } => self.release(environment, session),
            Call::Get if self.mistake == Mistake::ReadsACopy => {
                self.look(environment).before.unwrap_or_default().shown()
            }
            Call::Get => self.look(environment).shown(),
        };
        // Like real responses, some are delayed.
        std::thread::yield_now();
        (!is_lost).then_some(answer)
    }
}

/// One run with crashes; returns the verdict of the checks.
fn run(mistake: Mistake, seed: u64) -> Result<(), String> {
    // An environment serves 200 operations, or fewer because of a crash. Twice as many for a late crash.
    let count = 2 * OPERATIONS / 200 + (CRASHES + 2) * (ENVIRONMENTS + 1);
    let states = (0..count).map(|_| Mutex::default()).collect();
    let fake = FakeLocks { mistake, states, is_down: AtomicBool::new(false) };
    let board = Board::new(ENVIRONMENTS);
    let mut random = Random::seeded(seed);
    for _ in 0..=CRASHES {
        let most = OPERATIONS / (CRASHES + 1);
        let until = board.answered() + most;
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (mut random, mut fake, board) = (Random::seeded(random.next()), &fake, &board);
                scope.spawn(move || {
                    board.play(&mut fake, &mut random, |board| board.answered() < until + most / 2);
                });
            }
            while board.answered() < until {
                std::thread::yield_now();
            }
            fake.is_down.store(true, Ordering::SeqCst);
        });
        fake.restart();
        board.look_at_all(&mut &fake);
    }
    board.histories().iter().try_for_each(|history| check_history(history))
}

#[track_caller]
fn is_found(mistake: Mistake) {
    let found = (0..RUNS_MAX).find_map(|seed| run(mistake, seed).err());
    let found = found.unwrap_or_else(|| panic!("{mistake:?} was not found in {RUNS_MAX} runs"));
    println!("{mistake:?}: {found}");
}

#[test]
fn fake_lock_without_bugs_passes() {
    for seed in 0..5 {
        assert_eq!(run(Mistake::None, seed), Ok(()));
    }
}

#[test]
fn fake_lock_check_then_act_is_detected() {
    is_found(Mistake::ChecksThenActs);
}

#[test]
fn fake_lock_non_atomic_force_is_detected() {
    is_found(Mistake::ForcesThroughFree);
}

#[test]
fn fake_lock_ignored_if_match_is_detected() {
    is_found(Mistake::ForgetsIfMatch);
}

#[test]
fn fake_lock_release_of_the_successor_is_detected() {
    is_found(Mistake::ReleasesTheCurrent);
}

#[test]
fn fake_lock_repeated_or_skipped_fence_is_detected() {
    is_found(Mistake::KeepsTheFence);
    is_found(Mistake::SkipsAFence);
}

#[test]
fn fake_lock_refusal_with_wrong_holder_is_detected() {
    is_found(Mistake::NamesThePrevious);
}

#[test]
fn fake_lock_stale_read_is_detected() {
    is_found(Mistake::ReadsACopy);
}

#[test]
fn fake_lock_change_lost_in_a_crash_is_detected() {
    is_found(Mistake::LosesTheLastChange);
    is_found(Mistake::FenceRestartsWithCrash);
}
