//! The report's tables and the goals that `--check` enforces.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;

use super::{LogMeasurements, LogRound};
use crate::report::{describe_machine, format_millis, group_digits, load_average, median, percentile};

/// Goal: the step takes at most this multiple of the time of the same command writing to a file.
const TIMES_MAX: f64 = 2.0;
/// Goal: the p99 latency of a line is at most this.
const DELAY_MAX: Duration = Duration::from_millis(100);

fn ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1_000.0
}

/// Returns the ratio of the step's time to that of the command writing to a file, for each round.
fn ratios(rounds: &[LogRound]) -> Vec<f64> {
    rounds.iter().map(|round| ms(round.step) / ms(round.file)).collect()
}

pub(super) fn render(measured: &LogMeasurements) -> String {
    let (mut out, rounds) = (String::new(), &measured.rounds);
    let _ = writeln!(
        out,
        "A step `{}` with two secrets to mask, {} rounds; everything shares {}, load {}.\n",
        measured.command,
        rounds.len(),
        describe_machine(),
        load_average(),
    );
    let _ = writeln!(out, "| | ms |\n|---|--:|");
    for (what, length) in [
        (
            "the command alone, into nothing",
            &(|round: &LogRound| round.alone) as &dyn Fn(&LogRound) -> Duration,
        ),
        ("into a file", &|round| round.file),
        ("as a step", &|round| round.step),
    ] {
        let _ = writeln!(out, "| {what} | {:.1} |", median(rounds.iter().map(|round| ms(length(round)))));
    }
    let ratios = ratios(rounds);
    let _ = writeln!(
        out,
        "\nThe step takes {:.2} times as long as the file ({:.2} to {:.2}). Goal: at most {TIMES_MAX} times.",
        median(ratios.iter().copied()),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    );
    let delays = &measured.delays;
    let _ = writeln!(
        out,
        "\nFrom the time that a line holds to its arrival at a reader, {} lines: p50 {} ms, p99 {} ms, slowest {} ms. \
         Goal: at most {} ms at p99.\n",
        delays.len(),
        format_millis(delays, 50),
        format_millis(delays, 99),
        format_millis(delays, 100),
        DELAY_MAX.as_millis(),
    );
    let _ = writeln!(
        out,
        "| a step prints | bytes | seconds | MB/s | server's memory at most | small GET p50 ms | p99 ms |"
    );
    let _ = writeln!(out, "|---|--:|--:|--:|--:|--:|--:|");
    for it in &measured.stress {
        let seconds = it.took.as_secs_f64();
        let _ = writeln!(
            out,
            "| {} | {} | {seconds:.1} | {:.1} | {} MB | {} | {} |",
            it.what,
            group_digits(usize::try_from(it.bytes).unwrap_or(usize::MAX)),
            it.bytes as f64 / 1e6 / seconds,
            it.peak / 1_000_000,
            format_millis(&it.latencies, 50),
            format_millis(&it.latencies, 99),
        );
    }
    out
}

/// Checks the goals. The error lists every goal that was missed.
pub(super) fn check(measured: &LogMeasurements) -> anyhow::Result<()> {
    let times = median(ratios(&measured.rounds).into_iter());
    let delay = percentile(&measured.delays, 99);
    ensure!(
        times <= TIMES_MAX && delay <= DELAY_MAX,
        "a step takes {times:.2} times as long as a file, at most {TIMES_MAX}; a line arrives after {delay:?} at p99, \
         at most {DELAY_MAX:?}"
    );
    Ok(())
}
