//! The report's table and the limits that `--check` enforces.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;

use crate::lists::{ListCase, ListRounds, PAGE_ROWS};
use crate::load::LoadRound;
use crate::options::ListOptions;
use crate::site::ListSite;

/// For each case, the rate at the largest size must be at least this fraction of the rate at the smallest size.
const FLOORS: &[(ListCase, f64)] =
    &[(ListCase::First, 0.5), (ListCase::Cursor, 0.5), (ListCase::Offset, 0.25)];

pub(crate) fn render(options: &ListOptions, sites: &[ListSite], rounds: &ListRounds) -> String {
    let smallest = options.rows.first().copied().unwrap_or_default();
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "Pages of {PAGE_ROWS}, {} clients, {} rounds of {} ms; client and server share {}.",
        options.clients,
        options.rounds,
        options.round.as_millis(),
        describe_machine(),
    ));
    for site in sites {
        let per_second = site.rows as f64 / site.filled_in.as_secs_f64();
        line(format!(
            "{} rows: filled in {:.1} s ({} rows/s), database of {} MB.",
            group_digits(site.rows),
            site.filled_in.as_secs_f64(),
            format_rate(per_second),
            site.bytes / 1_000_000,
        ));
    }
    line(String::new());
    line(format!(
        "| rows | case | requests/s | p50 ms | p99 ms | against {} rows | against one by id | failed |",
        group_digits(smallest)
    ));
    line("|--:|---|--:|--:|--:|--:|--:|--:|".into());
    for rows in &options.rows {
        for case in ListCase::select(&options.only) {
            let measured = &rounds[&(*rows, case)];
            let mut latencies: Vec<_> = measured.iter().flat_map(|round| &round.latencies).copied().collect();
            latencies.sort_unstable();
            line(format!(
                "| {} | {}{} | {} | {} | {} | {} | {} | {} |",
                group_digits(*rows),
                case.title(),
                if measured.len() < options.rounds { " (measured once)" } else { "" },
                format_rate(median(measured.iter().map(LoadRound::per_second))),
                format_millis(&latencies, 50),
                format_millis(&latencies, 99),
                format_ratio(median_ratio(measured, &rounds[&(smallest, case)])),
                format_ratio(median_ratio(measured, &rounds[&(*rows, ListCase::One)])),
                measured.iter().map(|round| round.failed).sum::<usize>(),
            ));
        }
    }
    out
}

/// Checks the limits. The error lists every limit that is exceeded.
pub(crate) fn check(rows: &[usize], rounds: &ListRounds) -> anyhow::Result<()> {
    let (Some(smallest), Some(largest)) = (rows.first(), rows.last()) else { return Ok(()) };
    let mut broken = Vec::new();
    for (case, floor) in FLOORS {
        let (long, short) = (rounds.get(&(*largest, *case)), rounds.get(&(*smallest, *case)));
        let (Some(long), Some(short)) = (long, short) else { continue };
        let found = median_ratio(long, short);
        if found < *floor {
            let (title, size) = (case.title(), group_digits(*largest));
            broken.push(format!(
                "{title} at {size} rows: {found:.2} of the short list's rate, at least {floor}"
            ));
        }
    }
    for ((rows, case), measured) in rounds {
        let failed: usize = measured.iter().map(|round| round.failed).sum();
        if failed > 0 {
            broken.push(format!(
                "{} at {} rows: {failed} requests failed",
                case.title(),
                group_digits(*rows)
            ));
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Returns the median of the ratios between rounds with the same number.
fn median_ratio(these: &[LoadRound], those: &[LoadRound]) -> f64 {
    median(these.iter().zip(those).map(|(this, that)| this.per_second() / that.per_second()))
}

pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

pub(crate) fn format_millis(sorted: &[Duration], percent: usize) -> String {
    match sorted.is_empty() {
        true => "–".into(),
        false => format!("{:.2}", percentile(sorted, percent).as_secs_f64() * 1_000.0),
    }
}

/// Returns the measured value at this percentile, without interpolation; `Duration::MAX` if there is none.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(Duration::MAX)
}

fn format_ratio(ratio: f64) -> String {
    if ratio < 0.01 { format!("{ratio:.5}") } else { format!("{ratio:.2}") }
}

pub(crate) fn format_rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { group_digits(per_second as usize) }
}

/// Formats `1000000` as `1,000,000`.
pub(crate) fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse().ok());
    let kib: f64 = kib.unwrap_or(0.0);
    format!("{cores} cores and {:.0} GiB of memory", kib / 1024.0 / 1024.0)
}

/// Returns the load average of the last minute, which includes this program.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_numbers_are_grouped_and_rounded() {
        assert_eq!(group_digits(7), "7");
        assert_eq!(group_digits(1_000), "1,000");
        assert_eq!(group_digits(12_345_678), "12,345,678");
        assert_eq!(format_rate(12.34), "12.3");
    }

    #[test]
    fn median_is_the_middle_value() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0].into_iter()) - 2.5).abs() < 1e-9);
        assert!(median(std::iter::empty()).abs() < 1e-9);
    }

    #[test]
    fn percentile_is_a_measured_value() {
        let all: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!((format_millis(&all, 50), format_millis(&all, 99)), ("50.00".into(), "99.00".into()));
        assert_eq!(format_millis(&[], 99), "–");
    }
}
