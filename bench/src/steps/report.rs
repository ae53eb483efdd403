//! The report's table, the ratios, and the goals that `--check` enforces.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;

use super::{MeasuredLevel, StepMeasurements};
use crate::report::{describe_machine, format_millis, load_average, median, percentile};

/// Goal for a step without a sandbox: at most `TIMES_MAX` times the time of a bare process. `TIMES_AIM` is the
/// long-term goal.
const TIMES_MAX: f64 = 2.2;
const TIMES_AIM: f64 = 1.35;
/// Goal for the p99 time from the request to the first step: at most `START_MAX`. `START_AIM` is the long-term goal.
const START_MAX: Duration = Duration::from_millis(10);
const START_AIM: Duration = Duration::from_millis(2);

fn ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1_000.0
}

/// Returns the ratio of a step's time to that of a bare process, for each round.
fn ratios(level: &MeasuredLevel, bare: &[Duration]) -> Vec<f64> {
    level.rounds.iter().zip(bare).map(|((took, _), bare)| ms(*took) / ms(*bare)).collect()
}

pub(super) fn render(steps: usize, measured: &StepMeasurements) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Deployments of {steps} script steps `true` in sequence, {} rounds; everything shares {}, load {}.\n",
        measured.bare.len(),
        describe_machine(),
        load_average(),
    );
    let _ = writeln!(out, "| | ms per step | times bare | least to most | server CPU ms per step |");
    let _ = writeln!(out, "|---|--:|--:|--:|--:|");
    let bare = median(measured.bare.iter().map(|took| ms(*took)));
    let _ = writeln!(out, "| bare `sh -c true` | {bare:.2} | 1.00 | | |");
    for level in &measured.levels {
        let ratios = ratios(level, &measured.bare);
        let _ = writeln!(
            out,
            "| sandbox {} | {:.2} | {:.2} | {:.2} to {:.2} | {:.2} |",
            level.name,
            median(level.rounds.iter().map(|(took, _)| ms(*took))),
            median(ratios.iter().copied()),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
            median(level.rounds.iter().map(|(_, cpu)| ms(*cpu))),
        );
    }
    let _ = writeln!(out, "\nGoal without a sandbox: at most {TIMES_MAX} times bare (aim {TIMES_AIM}).");
    if let [without, others @ ..] = measured.levels.as_slice() {
        for level in others {
            let costs =
                level.rounds.iter().zip(&without.rounds).map(|((with, _), (off, _))| ms(*with) - ms(*off));
            let _ = writeln!(out, "Cost of the sandbox {}: {:.2} ms per step.", level.name, median(costs));
        }
    }
    for name in &measured.missing {
        let _ = writeln!(out, "The sandbox {name} does not work here.");
    }
    let starts = &measured.starts;
    let _ = writeln!(
        out,
        "\nFrom the accepted request to the first step, {} deployments of one step:\n",
        starts.recorded.len()
    );
    let _ = writeln!(out, "| | p50 ms | p99 ms |\n|---|--:|--:|");
    for (what, times) in [
        ("`createdAt` to the first `startedAt` (whole milliseconds)", &starts.recorded),
        ("request sent to the time that the step's `date` prints", &starts.seen),
    ] {
        let _ = writeln!(out, "| {what} | {} | {} |", format_millis(times, 50), format_millis(times, 99));
    }
    let _ =
        writeln!(out, "\nGoal: at most {} ms at p99 (aim {}).", START_MAX.as_millis(), START_AIM.as_millis());
    out
}

/// Checks the goals. The error lists every goal that was missed.
pub(super) fn check(measured: &StepMeasurements) -> anyhow::Result<()> {
    let mut broken = Vec::new();
    if let Some(level) = measured.levels.iter().find(|level| level.name == "off") {
        let times = median(ratios(level, &measured.bare).into_iter());
        if times > TIMES_MAX {
            broken.push(format!("a step costs {times:.2} times a bare process, at most {TIMES_MAX}"));
        }
    }
    let start = percentile(&measured.starts.recorded, 99);
    if start > START_MAX {
        broken.push(format!("the first step begins after {start:?} at p99, at most {START_MAX:?}"));
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}
