//! The report's table, the ratios, and the goals that `--check` enforces.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;

use super::{ClientRounds, LockRound};
use crate::report::{describe_machine, format_millis, format_rate, group_digits, median, percentile};

/// Goal: Berth's pairs per second are at least this multiple of etcd's.
const PAIRS_TIMES_MIN: f64 = 4.0;
/// Goal: Berth's p99 latency is at most this fraction of etcd's.
const P99_PART_MAX: f64 = 1.0 / 3.0;

/// Ratio of a Berth value to the same value of etcd, over all rounds.
struct RatioRange {
    median: f64,
    least: f64,
    most: f64,
}

impl RatioRange {
    fn from_rounds(row: &ClientRounds, figure: impl Fn(&LockRound) -> f64) -> Option<Self> {
        let ratios: Vec<_> =
            row.berth.iter().zip(&row.etcd).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect();
        let (least, most) =
            (ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?);
        Some(Self { median: median(ratios.into_iter()), least, most })
    }

    fn pairs(row: &ClientRounds) -> Option<Self> {
        Self::from_rounds(row, LockRound::per_second)
    }

    fn p99(row: &ClientRounds) -> Option<Self> {
        Self::from_rounds(row, |round| percentile(&round.latencies, 99).as_secs_f64())
    }
}

pub(super) fn render(rounds: usize, length: Duration, rows: &[ClientRounds]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Claim and release over HTTP, {rounds} rounds of {} ms each; clients and servers share {}.\n\
         A pair is two requests, each answered when it is on disk; every client has an environment of its own.\n",
        length.as_millis(),
        describe_machine(),
    );
    let _ = writeln!(out, "| clients | server | pairs/s | p50 ms | p99 ms | pairs | server CPU µs/pair |");
    let _ = writeln!(out, "|--:|---|--:|--:|--:|--:|--:|");
    for row in rows {
        for (name, measured) in [("Berth", &row.berth), ("etcd", &row.etcd)] {
            if !measured.is_empty() {
                let _ = writeln!(out, "| {} | {name} | {} |", row.clients, render_figures(measured));
            }
        }
    }
    out.push('\n');
    for row in rows {
        if let (Some(pairs), Some(p99)) = (RatioRange::pairs(row), RatioRange::p99(row)) {
            let _ = writeln!(
                out,
                "{} clients: {:.1} times etcd's pairs/s ({:.1} to {:.1}), {:.2} of its p99 ({:.2} to {:.2}).",
                row.clients, pairs.median, pairs.least, pairs.most, p99.median, p99.least, p99.most
            );
        }
    }
    match rows.iter().all(|row| row.etcd.is_empty()) {
        true => out.push_str(
            "etcd is not installed, so there is nothing to compare with: `apt-get install etcd-server`.\n",
        ),
        false => out.push_str(
            "\nThey do not do the same: etcd writes no history and no audit event. Berth does, in the transaction of \
             each request: the session stays as a record, each change is an event in a hash-chained history, and the \
             claim's idempotency key is kept with its answer.\n",
        ),
    }
    out
}

fn render_figures(rounds: &[LockRound]) -> String {
    let mut latencies: Vec<_> = rounds.iter().flat_map(|round| &round.latencies).copied().collect();
    latencies.sort_unstable();
    let cpu: Duration = rounds.iter().map(|round| round.cpu).sum();
    format!(
        "{} | {} | {} | {} | {:.0}",
        format_rate(median(rounds.iter().map(LockRound::per_second))),
        format_millis(&latencies, 50),
        format_millis(&latencies, 99),
        group_digits(latencies.len()),
        cpu.as_secs_f64() * 1e6 / latencies.len().max(1) as f64,
    )
}

/// Checks the goals, using only the first row (the first number of clients). The error lists every goal that was
/// missed.
pub(super) fn check(rows: &[ClientRounds]) -> anyhow::Result<()> {
    let Some(row) = rows.first() else { return Ok(()) };
    let (Some(pairs), Some(p99)) = (RatioRange::pairs(row), RatioRange::p99(row)) else {
        anyhow::bail!("there is nothing to check without etcd")
    };
    ensure!(
        pairs.median >= PAIRS_TIMES_MIN && p99.median <= P99_PART_MAX,
        "with {} clients {:.1} times etcd's pairs/s, at least {PAIRS_TIMES_MIN}; {:.2} of its p99, at most \
         {P99_PART_MAX:.2}",
        row.clients,
        pairs.median,
        p99.median
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(pairs: usize, millis: u64) -> Vec<LockRound> {
        let round = || LockRound {
            latencies: vec![Duration::from_millis(millis); pairs],
            took: Duration::from_secs(1),
            cpu: Duration::from_millis(10),
        };
        vec![round(), round(), round()]
    }

    #[test]
    fn goal_check_fails_on_low_rate_high_latency_or_missing_etcd() {
        let row = |ours, theirs| vec![ClientRounds { clients: 64, berth: ours, etcd: theirs }];
        assert!(check(&row(rounds(400, 2), rounds(100, 9))).is_ok());
        assert!(check(&row(rounds(399, 2), rounds(100, 9))).is_err());
        assert!(check(&row(rounds(400, 4), rounds(100, 9))).is_err());
        assert!(check(&row(rounds(400, 2), Vec::new())).is_err());
    }

    #[test]
    fn report_describes_the_comparison() {
        let both = [ClientRounds { clients: 64, berth: rounds(400, 3), etcd: rounds(100, 9) }];
        let text = render(3, Duration::from_secs(1), &both);
        assert!(
            text.contains("64 clients: 4.0 times etcd's pairs/s (4.0 to 4.0), 0.33 of its p99"),
            "{text}"
        );
        assert!(text.contains("etcd writes no history and no audit event"), "{text}");
        let alone = [ClientRounds { clients: 1, berth: rounds(4, 3), etcd: Vec::new() }];
        assert!(render(3, Duration::from_secs(1), &alone).contains("apt-get install etcd-server"));
    }
}
