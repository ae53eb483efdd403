//! Random sequences: a plan, and commands that mostly advance it and sometimes disturb it.

use berth_core::run::Resolution;
use berth_core::run::retry::From;

use super::command::{Command, Ends, GrantNonce, Pick, ReportNonce, WhichStage};
use super::plans::{Shape, shape};
use crate::chance::Chance;

/// Everything that follows from a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    pub shape: Shape,
    /// Earlier attempts of every step: some are close to the limit.
    pub tries: u32,
    /// The build stage was done by an earlier deployment.
    pub is_built: bool,
    pub commands: Vec<Command>,
}

const LENGTH_MAX: u64 = 54;

pub fn sequence(seed: u64) -> Sequence {
    let mut chance = Chance::from_seed(seed);
    let shape = shape(&mut chance);
    let tries = if chance.percent(4) { 990 + u32::from(chance.small(10)) } else { 0 };
    let is_built = chance.percent(15);
    // Runs in which steps mostly succeed get far; others meet rare outcomes.
    let luck = chance.pick(&[30, 60, 90]);
    let is_calm = chance.percent(50);
    let length = 6 + chance.below(LENGTH_MAX);
    let commands = (0..length).map(|_| command(&mut chance, luck, is_calm)).collect();
    Sequence { shape, tries, is_built, commands }
}

fn command(chance: &mut Chance, luck: u64, is_calm: bool) -> Command {
    match chance.below(if is_calm { 93 } else { 97 }) {
        0..32 => {
            let step = if chance.percent(85) { Pick::Ready(chance.small(8)) } else { pick(chance) };
            let again = if chance.percent(18) { GrantNonce::Again } else { GrantNonce::Fresh };
            Command::Grant { step, nonce: again }
        }
        32..60 => report(chance, luck),
        60..63 => {
            let step = if chance.percent(80) { Pick::Live(chance.small(8)) } else { pick(chance) };
            Command::Beat { step, nonce: nonce(chance) }
        }
        63..73 => Command::Enter,
        73..79 => {
            let stage =
                if chance.percent(80) { WhichStage::Failed } else { WhichStage::Any(chance.small(4)) };
            Command::Retry { stage, from: chance.pick(&[From::Failed, From::Failed, From::Start]) }
        }
        79..84 => {
            let step = if chance.percent(85) { Pick::Waiting(chance.small(4)) } else { pick(chance) };
            let resolution = chance.pick(&[Resolution::Ran, Resolution::Retry, Resolution::Fail]);
            Command::Resolve { step, resolution }
        }
        84..88 => Command::PassUntilReady { offset_micros: chance.pick(&[-1, 0, 0]) },
        88..90 => Command::Pass { micros: chance.pick(&[1, 1_000_000, 4_999_999, 70_000_000]) },
        90..93 => crash(chance, luck),
        93 => Command::Cancel,
        94 => Command::Overtaken,
        _ => Command::CancelStage { stage: chance.small(4) },
    }
}

fn report(chance: &mut Chance, luck: u64) -> Command {
    let step = if chance.percent(85) { Pick::Live(chance.small(8)) } else { pick(chance) };
    Command::Report { step, nonce: nonce(chance), ends: ends(chance, luck) }
}

fn ends(chance: &mut Chance, luck: u64) -> Ends {
    if chance.percent(luck) { Ends::Succeeded } else { chance.pick(&Ends::ALL) }
}

fn nonce(chance: &mut Chance) -> ReportNonce {
    match chance.below(20) {
        0 => ReportNonce::Foreign,
        1..3 => ReportNonce::Old,
        _ => ReportNonce::Right,
    }
}

fn pick(chance: &mut Chance) -> Pick {
    let place = chance.small(32);
    match chance.below(4) {
        0 => Pick::Ready(place),
        1 => Pick::Live(place),
        2 => Pick::Waiting(place),
        _ => Pick::Any(place),
    }
}

fn crash(chance: &mut Chance, luck: u64) -> Command {
    let undone = match chance.below(3) {
        0 => None,
        1 => Some(Box::new(report(chance, luck))),
        _ => Some(Box::new(Command::Grant { step: Pick::Ready(chance.small(8)), nonce: GrantNonce::Fresh })),
    };
    Command::Crash { undone, ends: chance.pick(&[Ends::Lost, Ends::Lost, Ends::Interrupted]) }
}
