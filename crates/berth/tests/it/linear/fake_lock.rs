//! An in-memory fake lock with injectable bugs. It shows that the clients, the recorder and the checks together detect
//! such bugs under real races.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check_history;
use super::history::{LockAnswer, LockCall, SessionRef};
use super::recorder::{HistoryRecorder, LockService};
use crate::random::SeededRandom;

const CLIENTS: u64 = 8;
const ENVIRONMENTS: usize = 3;
const OPERATIONS: usize = 3_000;
const CRASHES: usize = 2;
/// A bug that depends on a race must be detected within this many runs.
const RUNS_MAX: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InjectedBug {
    None,
    /// Checks whether the lock is free, and takes it only a moment later.
    ChecksThenActs,
    ForcesThroughFree,
    IgnoresIfMatch,
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
struct FakeLockState {
    holder: Option<SessionRef>,
    fence: u64,
    /// The state before the last change.
    before: Option<Box<FakeLockState>>,
    previous: Option<SessionRef>,
    /// Number of sessions ever opened.
    sessions: u64,
}

impl FakeLockState {
    fn open(&mut self, mistake: InjectedBug) -> LockAnswer {
        self.fence += match mistake {
            InjectedBug::KeepsTheFence if self.fence == 7 => 0,
            InjectedBug::SkipsAFence if self.fence == 7 => 2,
            _ => 1,
        };
        self.sessions += 1;
        let hold = SessionRef { session: format!("s{}", self.sessions).into(), fence: self.fence };
        self.previous = self.holder.replace(hold.clone());
        LockAnswer::Opened(hold)
    }

    fn to_answer(&self) -> LockAnswer {
        match &self.holder {
            Some(hold) => LockAnswer::Held(hold.clone()),
            None => LockAnswer::Free { fence: self.fence },
        }
    }
}

struct FakeLocks {
    mistake: InjectedBug,
    states: Vec<Mutex<FakeLockState>>,
    is_down: AtomicBool,
}

impl FakeLocks {
    fn change<T>(&self, environment: usize, change: impl FnOnce(&mut FakeLockState) -> T) -> T {
        let mut state = self.states[environment].lock().expect("unpoisoned");
        let before = FakeLockState { before: None, ..state.clone() };
        let told = change(&mut state);
        if state.to_answer() != before.to_answer() {
            state.before = Some(Box::new(before));
        }
        told
    }

    fn snapshot(&self, environment: usize) -> FakeLockState {
        self.states[environment].lock().expect("unpoisoned").clone()
    }

    fn claim(&self, environment: usize) -> LockAnswer {
        if self.mistake == InjectedBug::ChecksThenActs {
            let seen = self.snapshot(environment);
            std::thread::yield_now();
            return match seen.holder {
                Some(hold) => LockAnswer::Held(hold),
                None => self.change(environment, |state| state.open(self.mistake)),
            };
        }
        self.change(environment, |state| match (&state.holder, &state.previous) {
            (Some(_), Some(previous)) if self.mistake == InjectedBug::NamesThePrevious => {
                LockAnswer::Held(previous.clone())
            }
            (Some(hold), _) => LockAnswer::Held(hold.clone()),
            (None, _) => state.open(self.mistake),
        })
    }

    fn force(&self, environment: usize, only: Option<u64>) -> LockAnswer {
        if self.mistake == InjectedBug::ForcesThroughFree && only.is_none() {
            self.change(environment, |state| state.holder = None);
            std::thread::yield_now();
        }
        self.change(environment, |state| {
            let holds = state.holder.as_ref().map(|hold| hold.fence);
            if only.is_some() && only != holds && self.mistake != InjectedBug::IgnoresIfMatch {
                return LockAnswer::Moved;
            }
            state.open(self.mistake)
        })
    }

    fn release(&self, environment: usize, session: &str) -> LockAnswer {
        self.change(environment, |state| {
            let is_meant = |hold: &SessionRef| {
                &*hold.session == session || self.mistake == InjectedBug::ReleasesTheCurrent
            };
            match state.holder.take_if(|hold| is_meant(hold)) {
                Some(_) => LockAnswer::Released,
                None => LockAnswer::NotActive,
            }
        })
    }

    /// Simulates a restart. No calls are in flight at this point.
    fn restart(&self) {
        for state in &self.states {
            let mut state = state.lock().expect("unpoisoned");
            let sessions = state.sessions;
            match self.mistake {
                InjectedBug::LosesTheLastChange => {
                    if let Some(before) = state.before.take() {
                        *state = FakeLockState { sessions, ..*before };
                    }
                }
                InjectedBug::FenceRestartsWithCrash => state.fence = 0,
                _ => {}
            }
        }
        self.is_down.store(false, Ordering::SeqCst);
    }
}

impl LockService for &FakeLocks {
    fn send_call(&mut self, environment: usize, call: &LockCall) -> Option<LockAnswer> {
        let is_lost = self.is_down.load(Ordering::SeqCst);
        let answer = match call {
            // A crash may come before or after a change takes effect. Here it comes before the change in environments
            // with an even number.
            _ if is_lost && environment.is_multiple_of(2) => return None,
            LockCall::Claim => self.claim(environment),
            LockCall::Force { only } => self.force(environment, *only),
            LockCall::Release { session } => self.release(environment, session),
            LockCall::Get if self.mistake == InjectedBug::ReadsACopy => {
                self.snapshot(environment).before.unwrap_or_default().to_answer()
            }
            LockCall::Get => self.snapshot(environment).to_answer(),
        };
        // Delay some responses, as a real server would.
        std::thread::yield_now();
        (!is_lost).then_some(answer)
    }
}

/// Performs one run with crashes and returns the result of the checks.
fn run(mistake: InjectedBug, seed: u64) -> Result<(), String> {
    // An environment is replaced after 200 operations, or earlier because of a crash. Twice as many are created as the
    // operations need, in case a crash comes late.
    let count = 2 * OPERATIONS / 200 + (CRASHES + 2) * (ENVIRONMENTS + 1);
    let states = (0..count).map(|_| Mutex::default()).collect();
    let fake = FakeLocks { mistake, states, is_down: AtomicBool::new(false) };
    let recorder = HistoryRecorder::new(ENVIRONMENTS);
    let mut random = SeededRandom::from_seed(seed);
    for _ in 0..=CRASHES {
        let most = OPERATIONS / (CRASHES + 1);
        let until = recorder.response_count() + most;
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (mut random, mut fake, recorder) =
                    (SeededRandom::from_seed(random.next_u64()), &fake, &recorder);
                scope.spawn(move || {
                    recorder.run_client(&mut fake, &mut random, |recorder| {
                        recorder.response_count() < until + most / 2
                    });
                });
            }
            while recorder.response_count() < until {
                std::thread::yield_now();
            }
            fake.is_down.store(true, Ordering::SeqCst);
        });
        fake.restart();
        recorder.read_all(&mut &fake);
    }
    recorder.histories().iter().try_for_each(|history| check_history(history))
}

#[track_caller]
fn check_detected(mistake: InjectedBug) {
    let found = (0..RUNS_MAX).find_map(|seed| run(mistake, seed).err());
    let found = found.unwrap_or_else(|| panic!("{mistake:?} was not found in {RUNS_MAX} runs"));
    println!("{mistake:?}: {found}");
}

#[test]
fn fake_lock_without_bugs_passes() {
    for seed in 0..5 {
        assert_eq!(run(InjectedBug::None, seed), Ok(()));
    }
}

#[test]
fn fake_lock_check_then_act_is_detected() {
    check_detected(InjectedBug::ChecksThenActs);
}

#[test]
fn fake_lock_non_atomic_force_is_detected() {
    check_detected(InjectedBug::ForcesThroughFree);
}

#[test]
fn fake_lock_ignored_if_match_is_detected() {
    check_detected(InjectedBug::IgnoresIfMatch);
}

#[test]
fn fake_lock_release_of_the_successor_is_detected() {
    check_detected(InjectedBug::ReleasesTheCurrent);
}

#[test]
fn fake_lock_repeated_or_skipped_fence_is_detected() {
    check_detected(InjectedBug::KeepsTheFence);
    check_detected(InjectedBug::SkipsAFence);
}

#[test]
fn fake_lock_refusal_with_wrong_holder_is_detected() {
    check_detected(InjectedBug::NamesThePrevious);
}

#[test]
fn fake_lock_stale_read_is_detected() {
    check_detected(InjectedBug::ReadsACopy);
}

#[test]
fn fake_lock_change_lost_in_a_crash_is_detected() {
    check_detected(InjectedBug::LosesTheLastChange);
    check_detected(InjectedBug::FenceRestartsWithCrash);
}
