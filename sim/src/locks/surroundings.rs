//! The surroundings of the locks, the same for every backend: the clock, the epoch, revoked tokens and paused
//! pipelines.

use berth_core::environment::limits::RUNNER_LOST_S;
use berth_core::environment::{DecisionContext, Lock};
use berth_core::id::EnvironmentId;
use berth_core::time::Timestamp;

use super::command::{DueMoment, EnvironmentIndex, WorldChange};
use super::fixtures;

/// The surroundings of the locks, which commands change and rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Distinguishes the environments of this run from those of other runs.
    pub run: u32,
    pub now: Timestamp,
    pub epoch: i64,
    pub is_paused: bool,
    /// Whether the head of the tracked branch is known.
    pub is_tracked: bool,
    pub revoked_people: Vec<u8>,
    pub revoked_tokens: Vec<u8>,
    /// Number of environments created with each name so far.
    pub incarnations: [u8; 2],
    /// Whether the environment of each name has been deleted.
    pub deleted: [bool; 2],
    /// Number of decisions so far, from which each decision's entropy is derived.
    decision_count: u64,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            run: 0,
            now: fixtures::START,
            epoch: 0,
            is_paused: false,
            is_tracked: true,
            revoked_people: Vec::new(),
            revoked_tokens: Vec::new(),
            incarnations: [0; 2],
            deleted: [false; 2],
            decision_count: 0,
        }
    }
}

impl Surroundings {
    pub fn environment(&self, place: EnvironmentIndex) -> EnvironmentId {
        fixtures::environment(self.run, place, self.incarnations[usize::from(place)])
    }

    /// Returns the id of the environment that is created if the name is reused.
    pub fn next_environment(&self, place: EnvironmentIndex) -> EnvironmentId {
        fixtures::environment(self.run, place, self.incarnations[usize::from(place)] + 1)
    }

    /// Returns the time, the epoch and unique entropy for a decision. In a race, each of the two decisions gets its
    /// own.
    pub fn decision_context(&mut self) -> DecisionContext {
        self.decision_count += 1;
        let mut entropy = [0; 10];
        // Ids overwrite the first bytes of the entropy, and the rules use the last byte as a counter, so the decision's
        // number is in the bytes between them.
        entropy[3] = 0x80;
        entropy[4..9].copy_from_slice(&self.decision_count.to_be_bytes()[3..]);
        DecisionContext { now: self.now, epoch: self.epoch, lost_s: RUNNER_LOST_S, entropy }
    }

    /// Applies a change. `lock` is the lock of the environment that the change refers to, if any.
    pub fn apply_change(&mut self, turn: WorldChange, lock: Option<&Lock>) {
        let after = |at: Timestamp, micros: i64| Timestamp::from_micros(at.as_micros() + micros);
        match turn {
            WorldChange::Advance { micros } => self.now = after(self.now, micros),
            WorldChange::AdvanceTo { due, offset_micros, .. } => {
                if let Some(at) = lock.and_then(|lock| due_time(lock, due)) {
                    self.now = self.now.max(after(at, offset_micros));
                }
            }
            WorldChange::SetBack { seconds } => self.now = self.now.plus_seconds(-seconds),
            WorldChange::RevokePerson(person) => insert_once(&mut self.revoked_people, person),
            WorldChange::RevokeToken(person) => insert_once(&mut self.revoked_tokens, person),
            WorldChange::Stop => self.is_paused = true,
            WorldChange::Resume => self.is_paused = false,
            WorldChange::Track(is_known) => self.is_tracked = is_known,
            WorldChange::RaiseEpoch => self.epoch += 1,
        }
    }
}

impl WorldChange {
    /// Returns the environment whose lock [`Surroundings::apply_change`] needs.
    pub const fn environment_index(self) -> Option<EnvironmentIndex> {
        match self {
            WorldChange::AdvanceTo { place, .. } => Some(place),
            _ => None,
        }
    }
}

fn due_time(lock: &Lock, due: DueMoment) -> Option<Timestamp> {
    let session = lock.session.as_ref();
    match due {
        DueMoment::Expiry => session?.expires_at,
        DueMoment::Idle => Some(session?.active_at.plus_seconds(session?.idle_seconds?)),
        DueMoment::Lease => session?.lease_expires_at,
        DueMoment::Ticket => lock.tickets.first().map(|ticket| ticket.expires_at),
        DueMoment::Takeover => lock.tickets.first()?.takeover.as_ref()?.at,
        DueMoment::Next => lock.environment.agenda.due_at,
    }
}

fn insert_once(list: &mut Vec<u8>, person: u8) {
    if !list.contains(&person) {
        list.push(person);
    }
}
