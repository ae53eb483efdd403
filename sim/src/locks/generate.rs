//! Random command sequences, biased towards rare cases: races, expiries, late messages.

use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::force::TakeoverMode;

use super::command::{
    DueMoment, EnvironmentIndex, LockCommand, LockRequest, ReportedOutcome, WhichDeployment, WhichNonce,
    WhichSession, WhichTicket, WorldChange,
};
use super::fixtures;
use crate::random::SeededRandom;

/// Generates commands. The same seed and length always give the same commands.
pub fn generate(seed: u64, length: usize) -> Vec<LockCommand> {
    let mut chance = SeededRandom::from_seed(seed);
    // Prefer one environment: most interesting cases need many commands on the same one.
    let share_of_qa = chance.pick(&[50, 85, 100]);
    let is_calm = chance.percent(60);
    (0..length).map(|_| command(&mut chance, share_of_qa, is_calm)).collect()
}

const LENGTH_MAX: u64 = 60;

/// Like [`generate`], with a length of 1 to 60 derived from the seed.
pub fn sequence(seed: u64) -> Vec<LockCommand> {
    generate(seed, usize::try_from(1 + seed % LENGTH_MAX).unwrap_or(1))
}

fn command(chance: &mut SeededRandom, share_of_qa: u64, is_calm: bool) -> LockCommand {
    let place = EnvironmentIndex::from(!chance.percent(share_of_qa));
    match chance.below(100) {
        0..18 => LockCommand::Change(world_change(chance, place, is_calm)),
        18..22 => LockCommand::Request {
            place,
            request: LockRequest::RenewLease { by: person(chance), session: session(chance) },
        },
        22..28 => {
            LockCommand::Race { place, first: request(chance, is_calm), second: request(chance, is_calm) }
        }
        _ => LockCommand::Request { place, request: request(chance, is_calm) },
    }
}

fn person(chance: &mut SeededRandom) -> u8 {
    // Prefer some people, so that the person who holds the environment makes further requests.
    chance.pick(&[0, 0, 1, 1, 2])
}

/// Generates a request. In a calm run the definition never changes, because such a change ends all sessions and work.
pub(crate) fn request(chance: &mut SeededRandom, is_calm: bool) -> LockRequest {
    let by = person(chance);
    match chance.below(if is_calm { 96 } else { 100 }) {
        0..16 => claim(chance, by),
        16..21 => LockRequest::Extend {
            by,
            session: session(chance),
            ttl_seconds: chance.pick(&[None, None, Some(60), Some(300), Some(3_600)]),
            stale_fence: stale_fence(chance, 20),
        },
        21..30 => LockRequest::Release {
            by,
            session: session(chance),
            may_force: chance.percent(40),
            stale_fence: stale_fence(chance, 10),
        },
        30..38 => force(chance, by),
        38..41 => LockRequest::HandOver { by, session: session(chance), to: person(chance) },
        41..53 => LockRequest::Deploy {
            by,
            session: session(chance),
            commit: chance.below_u8(4),
            on_conflict: chance.pick(&[
                ConflictMode::Queue,
                ConflictMode::Queue,
                ConflictMode::Supersede,
                ConflictMode::Reject,
            ]),
            override_drain: chance.percent(25),
        },
        53..56 => LockRequest::Leave {
            by,
            ticket: match chance.below_u8(4) {
                0 => WhichTicket::Back(chance.below_u8(3)),
                before => WhichTicket::Waiting(before - 1),
            },
            may_force: chance.percent(20),
        },
        56..60 => LockRequest::Cancel { by, deployment: deployment(chance) },
        60..74 => {
            let deployment = if chance.percent(75) { WhichDeployment::Startable } else { deployment(chance) };
            LockRequest::Grant { runner: u16::from(chance.below_u8(fixtures::RUNNERS)), deployment }
        }
        74..88 => LockRequest::Report {
            deployment: if chance.percent(75) {
                WhichDeployment::Live(chance.below_u8(2))
            } else {
                deployment(chance)
            },
            nonce: nonce(chance),
            outcome: outcome(chance),
        },
        88..90 => LockRequest::Heartbeat { deployment: deployment(chance), nonce: nonce(chance) },
        90..96 => LockRequest::Sweep,
        96 => LockRequest::Redeclare { words: chance.below_u8(2) },
        97 => LockRequest::Undeclare,
        98 => LockRequest::Delete { by },
        _ => LockRequest::Recreate,
    }
}

fn claim(chance: &mut SeededRandom, by: u8) -> LockRequest {
    LockRequest::Claim {
        by,
        commit: if chance.percent(60) { Some(chance.below_u8(4)) } else { None },
        deploy: chance.percent(80),
        ttl_seconds: chance.pick(&[None, None, Some(60), Some(300), Some(3_600)]),
        lease_seconds: chance.pick(&[None, None, Some(15), Some(90), Some(600)]),
        wait_seconds: chance.pick(&[None, Some(1), Some(90), Some(500), Some(3_600)]),
    }
}

fn force(chance: &mut SeededRandom, by: u8) -> LockRequest {
    let mode = match chance.below(5) {
        0..3 => TakeoverMode::Now,
        3 => TakeoverMode::AfterCurrentDeployment,
        _ => TakeoverMode::Grace { seconds: chance.pick(&[1, 30, 300]) },
    };
    let commit = if chance.percent(60) { Some(chance.below_u8(4)) } else { None };
    LockRequest::Force { by, commit, mode, stale_fence: stale_fence(chance, 40) }
}

fn stale_fence(chance: &mut SeededRandom, sent: u64) -> Option<bool> {
    if chance.percent(sent) { Some(chance.percent(40)) } else { None }
}

fn session(chance: &mut SeededRandom) -> WhichSession {
    if chance.percent(80) { WhichSession::Current } else { WhichSession::Back(chance.below_u8(4)) }
}

fn deployment(chance: &mut SeededRandom) -> WhichDeployment {
    match chance.below(10) {
        0 => WhichDeployment::Startable,
        1..4 => WhichDeployment::Live(chance.below_u8(2)),
        4..6 => WhichDeployment::Queued(chance.below_u8(3)),
        6 => WhichDeployment::Reset,
        _ => WhichDeployment::Back(chance.below_u8(5)),
    }
}

fn nonce(chance: &mut SeededRandom) -> WhichNonce {
    if chance.percent(75) {
        WhichNonce::Granted
    } else {
        WhichNonce::OfRunner(u16::from(chance.below_u8(fixtures::RUNNERS)))
    }
}

fn outcome(chance: &mut SeededRandom) -> ReportedOutcome {
    chance.pick(&[
        ReportedOutcome::Succeeded,
        ReportedOutcome::Succeeded,
        ReportedOutcome::Failed,
        ReportedOutcome::Stopped,
        ReportedOutcome::Stopped,
        ReportedOutcome::Lost,
    ])
}

fn world_change(chance: &mut SeededRandom, place: EnvironmentIndex, is_calm: bool) -> WorldChange {
    const SECOND: i64 = 1_000_000;
    match chance.below(if is_calm { 72 } else { 100 }) {
        0..24 => WorldChange::Advance {
            micros: chance.pick(&[1, SECOND, 20 * SECOND, 100 * SECOND, 350 * SECOND]),
        },
        24..27 => {
            WorldChange::Advance { micros: chance.pick(&[700 * SECOND, 4_000 * SECOND, 86_400 * SECOND]) }
        }
        27..72 => WorldChange::AdvanceTo {
            place,
            due: chance.pick(&[
                DueMoment::Expiry,
                DueMoment::Idle,
                DueMoment::Lease,
                DueMoment::Ticket,
                DueMoment::Takeover,
                DueMoment::Next,
            ]),
            offset_micros: chance.pick(&[-SECOND, -1, 0, 1]),
        },
        72..80 => WorldChange::SetBack { seconds: chance.pick(&[1, 30, 500, 5_000]) },
        80..83 => WorldChange::RevokePerson(chance.below_u8(3)),
        83..88 => WorldChange::RevokeToken(chance.below_u8(3)),
        88..91 => WorldChange::Stop,
        91..94 => WorldChange::Resume,
        94..98 => WorldChange::Track(chance.percent(50)),
        _ => WorldChange::RaiseEpoch,
    }
}
