//! Random sequences: a plan, and commands that mostly advance it and sometimes disrupt it.

use berth_core::deployment::run::OutcomeResolution;
use berth_core::deployment::run::retry::RetryStart;

use super::command::{GrantNonce, ReportNonce, RunCommand, SimulatedEnd, StepPick, WhichStage};
use super::plans::{PlanShape, shape};
use crate::random::SeededRandom;

/// A plan and a sequence of commands, both determined by a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSequence {
    pub shape: PlanShape,
    /// Number of earlier attempts of every step; in some sequences it is close to the limit.
    pub tries: u32,
    /// Whether the build stage's results come from an earlier deployment.
    pub is_built: bool,
    pub commands: Vec<RunCommand>,
}

const LENGTH_MAX: u64 = 54;

/// Generates the sequence for a seed.
pub fn sequence(seed: u64) -> RunSequence {
    let mut chance = SeededRandom::from_seed(seed);
    let shape = shape(&mut chance);
    let tries = if chance.percent(4) { 990 + u32::from(chance.below_u8(10)) } else { 0 };
    let is_built = chance.percent(15);
    // Percentage of steps that succeed: high values reach the end of a plan, low values reach rare outcomes.
    let luck = chance.pick(&[30, 60, 90]);
    let is_calm = chance.percent(50);
    let length = 6 + chance.below(LENGTH_MAX);
    let commands = (0..length).map(|_| command(&mut chance, luck, is_calm)).collect();
    RunSequence { shape, tries, is_built, commands }
}

fn command(chance: &mut SeededRandom, luck: u64, is_calm: bool) -> RunCommand {
    match chance.below(if is_calm { 93 } else { 97 }) {
        0..32 => {
            let step = if chance.percent(85) { StepPick::Ready(chance.below_u8(8)) } else { pick(chance) };
            let again = if chance.percent(18) { GrantNonce::Again } else { GrantNonce::Fresh };
            RunCommand::Grant { step, nonce: again }
        }
        32..60 => report(chance, luck),
        60..63 => {
            let step = if chance.percent(80) { StepPick::Live(chance.below_u8(8)) } else { pick(chance) };
            RunCommand::Heartbeat { step, nonce: nonce(chance) }
        }
        63..73 => RunCommand::Enter,
        73..79 => {
            let stage =
                if chance.percent(80) { WhichStage::Failed } else { WhichStage::Any(chance.below_u8(4)) };
            RunCommand::Retry {
                stage,
                from: chance.pick(&[RetryStart::Failed, RetryStart::Failed, RetryStart::Start]),
            }
        }
        79..84 => {
            let step = if chance.percent(85) { StepPick::Waiting(chance.below_u8(4)) } else { pick(chance) };
            let resolution =
                chance.pick(&[OutcomeResolution::Ran, OutcomeResolution::Retry, OutcomeResolution::Fail]);
            RunCommand::Resolve { step, resolution }
        }
        84..88 => RunCommand::AdvanceUntilReady { offset_micros: chance.pick(&[-1, 0, 0]) },
        88..90 => RunCommand::AdvanceClock { micros: chance.pick(&[1, 1_000_000, 4_999_999, 70_000_000]) },
        90..93 => crash(chance, luck),
        93 => RunCommand::Cancel,
        94 => RunCommand::Superseded,
        _ => RunCommand::CancelStage { stage: chance.below_u8(4) },
    }
}

fn report(chance: &mut SeededRandom, luck: u64) -> RunCommand {
    let step = if chance.percent(85) { StepPick::Live(chance.below_u8(8)) } else { pick(chance) };
    RunCommand::Report { step, nonce: nonce(chance), ends: random_end(chance, luck) }
}

fn random_end(chance: &mut SeededRandom, luck: u64) -> SimulatedEnd {
    if chance.percent(luck) { SimulatedEnd::Succeeded } else { chance.pick(&SimulatedEnd::ALL) }
}

fn nonce(chance: &mut SeededRandom) -> ReportNonce {
    match chance.below(20) {
        0 => ReportNonce::Foreign,
        1..3 => ReportNonce::Old,
        _ => ReportNonce::Right,
    }
}

fn pick(chance: &mut SeededRandom) -> StepPick {
    let place = chance.below_u8(32);
    match chance.below(4) {
        0 => StepPick::Ready(place),
        1 => StepPick::Live(place),
        2 => StepPick::Waiting(place),
        _ => StepPick::Any(place),
    }
}

fn crash(chance: &mut SeededRandom, luck: u64) -> RunCommand {
    let undone = match chance.below(3) {
        0 => None,
        1 => Some(Box::new(report(chance, luck))),
        _ => Some(Box::new(RunCommand::Grant {
            step: StepPick::Ready(chance.below_u8(8)),
            nonce: GrantNonce::Fresh,
        })),
    };
    RunCommand::Crash {
        undone,
        ends: chance.pick(&[SimulatedEnd::Lost, SimulatedEnd::Lost, SimulatedEnd::Interrupted]),
    }
}
