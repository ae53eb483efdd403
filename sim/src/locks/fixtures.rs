//! The participants of a simulation: three people and two environments.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::environment::LockHolder;
use berth_core::event::ActorType;
use berth_core::id::{EnvironmentId, PipelineId, TokenId, UserId};
use berth_core::name::{CommitId, EnvName, Reason};
use berth_core::pipeline::model::{EnvironmentDefinition, QueuePolicy, ReleaseAction, ReleaseCondition};
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::time::Timestamp;

pub const PEOPLE: [&str; 3] = ["ada", "bob", "cy"];
pub const RUNNERS: u8 = 3;
pub const PLACES: [&str; 2] = ["qa", "plain"];

/// TTL and idle timeout of sessions in the environment `qa`.
pub const TTL_S: i64 = 600;
pub const IDLE_S: i64 = 400;

/// 2026-11-15T08:00:00.000123Z. The microseconds reveal rounding errors.
pub const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_123);

pub fn person(index: u8) -> LockHolder {
    let id = UserId::from_parts(START, [0, 0, 0, 1, 0, 0, 0, 0, 0, index]);
    LockHolder {
        kind: ActorType::User,
        id,
        name: PEOPLE[usize::from(index)].to_owned(),
        session_token: None,
        agent: None,
    }
}

/// Returns the person's only token.
pub fn token(person: u8) -> TokenId {
    TokenId::from_parts(START, [0, 0, 0, 2, 0, 0, 0, 0, 0, person])
}

/// Returns the id of an environment's pipeline. Each environment has its own, created and deleted together with it.
pub fn pipeline(place: u8, incarnation: u8) -> PipelineId {
    PipelineId::from_parts(START, [0, 0, 0, 3, 0, 0, 0, 0, incarnation, place])
}

/// Returns the id of an environment. A name that is reused after a deletion gets a new id. Ids also differ between
/// runs, because many runs share a database.
pub fn environment(run: u32, place: u8, incarnation: u8) -> EnvironmentId {
    let [a, b, c, d] = run.to_be_bytes();
    EnvironmentId::from_parts(START, [0, 0, 0, 4, a, b, c, d, incarnation, place])
}

pub fn name(place: u8) -> EnvName {
    valid_name(EnvName::parse(PLACES[usize::from(place)]))
}

pub fn commit(number: u8) -> CommitId {
    valid_name(CommitId::parse(&format!("c{number}")))
}

pub fn tracked_commit() -> CommitId {
    valid_name(CommitId::parse("main"))
}

pub fn reason(text: &str) -> Reason {
    valid_name(Reason::parse(text))
}

/// Returns the configuration: in `qa` sessions expire and the environment is reset, in `plain` neither happens.
pub fn configuration(place: u8) -> EnvironmentDefinition {
    let seconds = |value: i64| DurationSeconds::from_secs(value.unsigned_abs());
    let mut plain = EnvironmentDefinition {
        triggers: Vec::new(),
        release: Vec::new(),
        on_release: ReleaseAction::None,
        ttl: None,
        labels: Vec::new(),
        owner: None,
        queue: QueuePolicy::default(),
        vars: BTreeMap::new(),
        skip: BTreeSet::new(),
    };
    if place == 0 {
        plain.release =
            vec![ReleaseCondition::PrClosed, ReleaseCondition::Timeout { after_idle: seconds(IDLE_S) }];
        plain.on_release = ReleaseAction::DeployTracked;
        plain.ttl = Some(seconds(TTL_S));
    }
    plain
}

/// Unwraps a name from this file. They are all valid.
fn valid_name<T>(parsed: Result<T, berth_core::name::InvalidName>) -> T {
    parsed.unwrap_or_else(|wrong| unreachable!("{wrong}"))
}
