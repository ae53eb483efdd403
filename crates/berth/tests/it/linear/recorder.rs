//! The environments in use, the recorded history of each, and clients that choose random calls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::history::{CallOutcome, LockAnswer, LockCall, Operation, SessionRef, Tick};
use crate::random::SeededRandom;

/// To keep the search small, an environment is replaced after `OPERATIONS_MAX` operations, or after `LOST_MAX`
/// operations without a response.
const OPERATIONS_MAX: usize = 200;
const LOST_MAX: usize = 6;
/// Number of past sessions to keep, so that clients sometimes use an old one.
const HOLDS_MAX: usize = 4;

/// A service that calls can be sent to. A call returns `None` if no response arrived.
pub(crate) trait LockService {
    fn send_call(&mut self, environment: usize, call: &LockCall) -> Option<LockAnswer>;
}

pub(crate) struct RecordedEnvironment {
    number: usize,
    record: Mutex<OperationLog>,
}

#[derive(Default)]
struct OperationLog {
    history: Vec<Operation>,
    lost: usize,
    /// The sessions with the highest fences, newest first.
    holds: VecDeque<SessionRef>,
}

pub(crate) struct HistoryRecorder {
    start: Instant,
    open: Vec<Mutex<Arc<RecordedEnvironment>>>,
    all: Mutex<Vec<Arc<RecordedEnvironment>>>,
    answered: AtomicUsize,
}

impl HistoryRecorder {
    /// Creates a recorder that uses `width` environments at a time.
    pub(crate) fn new(width: usize) -> Self {
        let all: Vec<_> = (0..width).map(RecordedEnvironment::new).collect();
        let open = all.iter().cloned().map(Mutex::new).collect();
        Self { start: Instant::now(), open, all: Mutex::new(all), answered: AtomicUsize::new(0) }
    }

    /// Number of responses so far.
    pub(crate) fn response_count(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Runs one client until it gets no response or is asked to stop.
    pub(crate) fn run_client(
        &self,
        service: &mut impl LockService,
        random: &mut SeededRandom,
        goes_on: impl Fn(&Self) -> bool,
    ) {
        while goes_on(self) {
            let environment = self.pick(random);
            let call = environment.next_call(random);
            if self.send_and_record(service, &environment, call).is_none() {
                return;
            }
        }
    }

    /// Records a call that the client may send several times. Every send that could take effect is recorded as an
    /// operation of its own.
    pub(crate) fn record_call(
        &self,
        random: &mut SeededRandom,
        ask: impl FnOnce(usize, &LockCall) -> Vec<Option<CallOutcome>>,
    ) {
        let environment = self.pick(random);
        let call = environment.next_call(random);
        let invoked = self.now();
        for outcome in ask(environment.number, &call) {
            self.answered.fetch_add(usize::from(outcome.is_some()), Ordering::Relaxed);
            environment.record(Operation { call: call.clone(), invoked, outcome });
        }
    }

    /// Reads every environment in use once; called after a crash, before any other call.
    pub(crate) fn read_all(&self, service: &mut impl LockService) {
        for open in &self.open {
            let environment = open.lock().expect("unpoisoned").clone();
            let seen = self.send_and_record(service, &environment, LockCall::Get);
            assert!(seen.is_some(), "no response from a server that was not killed");
        }
    }

    /// Returns the history of each environment, by number.
    pub(crate) fn histories(self) -> Vec<Vec<Operation>> {
        let all = self.all.into_inner().expect("unpoisoned");
        let taken = |environment: &Arc<RecordedEnvironment>| {
            std::mem::take(&mut environment.record.lock().expect("unpoisoned").history)
        };
        all.iter().map(taken).collect()
    }

    fn pick(&self, random: &mut SeededRandom) -> Arc<RecordedEnvironment> {
        let mut open = random.pick(&self.open).lock().expect("unpoisoned");
        if open.is_used_up() {
            let mut all = self.all.lock().expect("unpoisoned");
            let next = RecordedEnvironment::new(all.len());
            all.push(next.clone());
            *open = next;
        }
        open.clone()
    }

    fn send_and_record(
        &self,
        service: &mut impl LockService,
        environment: &RecordedEnvironment,
        call: LockCall,
    ) -> Option<LockAnswer> {
        let invoked = self.now();
        let answer = service.send_call(environment.number, &call);
        let returned = self.now();
        let outcome = answer.clone().map(|answer| CallOutcome { returned, answer });
        environment.record(Operation { call, invoked, outcome });
        if answer.is_some() {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    pub(crate) fn now(&self) -> Tick {
        self.start.elapsed().as_nanos().try_into().expect("less than five hundred years")
    }
}

impl RecordedEnvironment {
    fn new(number: usize) -> Arc<Self> {
        Arc::new(Self { number, record: Mutex::default() })
    }

    fn is_used_up(&self) -> bool {
        let record = self.record.lock().expect("unpoisoned");
        record.history.len() >= OPERATIONS_MAX || record.lost >= LOST_MAX
    }

    /// Chooses mostly what a well-behaved client would send, based on the last state it saw.
    fn next_call(&self, random: &mut SeededRandom) -> LockCall {
        let record = self.record.lock().expect("unpoisoned");
        let old = random.next_in(0..2 * HOLDS_MAX as u64) as usize;
        let Some(newest) = record.holds.front() else { return LockCall::Claim };
        let hold = record.holds.get(old).unwrap_or(newest);
        match random.next_in(0..100) {
            0..40 => LockCall::Claim,
            40..70 => LockCall::Release { session: hold.session.clone() },
            70..77 => LockCall::Force { only: None },
            77..86 => LockCall::Force { only: Some(hold.fence) },
            _ => LockCall::Get,
        }
    }

    fn record(&self, operation: Operation) {
        let mut record = self.record.lock().expect("unpoisoned");
        match operation.answer() {
            // A read without a response carries no information.
            None if operation.call == LockCall::Get => return,
            None => record.lost += 1,
            Some(LockAnswer::Opened(hold) | LockAnswer::Held(hold)) => {
                if record.holds.front().is_none_or(|newest| newest.fence < hold.fence) {
                    record.holds.push_front(hold.clone());
                    record.holds.truncate(HOLDS_MAX);
                }
            }
            Some(_) => {}
        }
        record.history.push(operation);
    }
}
