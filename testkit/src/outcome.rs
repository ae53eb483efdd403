//! Output lines by which a test reports that it was skipped, or what it covered. `cargo xtask test` collects them for
//! its summary.

use std::fmt::Display;
use std::ops::Range;

/// The test needs a program that is missing but can be installed.
pub const SKIPPED: &str = "SKIPPED:";
/// The machine's kernel or privileges do not allow the test.
pub const IMPOSSIBLE: &str = "NOT POSSIBLE:";
/// Marks what was covered by a test that has a short and a long form.
pub const COVERED: &str = "COVERED:";
/// Environment variable: if it is `1`, a test whose program is missing fails. Set by `cargo xtask test --strict`.
pub const STRICT_VARIABLE: &str = "BERTH_TEST_STRICT";
/// Environment variable: if it is `1`, tests with a short and a long form run the long one. Set by `cargo xtask test
/// --long`.
pub const LONG_VARIABLE: &str = "BERTH_TEST_LONG";

/// Reports that a program that the test needs is missing, and how to install it. Panics in strict mode.
pub fn skip(missing: &str, install: &str) {
    let line = format!("{missing} is missing: {install}");
    assert!(!is_set(STRICT_VARIABLE), "{line}");
    eprintln!("{SKIPPED} {line}");
}

/// Reports that this machine cannot run the test, and what a probe found.
pub fn report_impossible(what: &str, found: &str) {
    eprintln!("{IMPOSSIBLE} {what}: {found}");
}

/// Returns the seeds for one part of a test that is split into parts with `size` seeds each.
pub fn seed_range(part: u64, size: u64) -> Range<u64> {
    part * size..(part + 1) * size
}

/// Reports which seeds a test covered.
pub fn report_seed_coverage(what: &str, seeds: &Range<u64>) {
    let count = group_digits(seeds.end - seeds.start);
    report_coverage(&format!("{count} {what}, seeds {}..{}", seeds.start, seeds.end));
}

/// Formats a number with a comma between thousands.
pub fn group_digits(number: impl Display) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

/// Reports what the test covered.
pub fn report_coverage(what: &str) {
    println!("{COVERED} {what}");
}

/// Returns the size for the form of the test that was chosen: short or long.
pub fn short_or_long<T>(short: T, long: T) -> T {
    if is_set(LONG_VARIABLE) { long } else { short }
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_thousands() {
        let grouped = [7, 400, 2_500, 25_000, 1_000_000].map(group_digits);
        assert_eq!(grouped, ["7", "400", "2,500", "25,000", "1,000,000"]);
    }
}
