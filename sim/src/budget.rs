//! How much the tests cover: a short form for every change, a long one with `BERTH_TEST_LONG=1`.

use std::fmt::Display;
use std::ops::Range;

/// Environment variable that selects the long form.
const VARIABLE: &str = "BERTH_TEST_LONG";

/// Returns the size of a test: `long` if the long form is selected, else `short`.
pub fn size(short: u64, long: u64) -> u64 {
    let is_long = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
    if is_long { long } else { short }
}

/// Returns the seeds of one of several tests that share a range, `size` seeds each.
pub fn part(number: u64, size: u64) -> Range<u64> {
    number * size..(number + 1) * size
}

/// Prints what a test has covered, as a line that begins with `COVERED: `.
pub fn report(what: &str, seeds: &Range<u64>) {
    let count = group_digits(seeds.end - seeds.start);
    println!("COVERED: {count} {what}, seeds {}..{}", seeds.start, seeds.end);
}

/// Formats a number with a comma between thousands.
pub fn group_digits(number: impl Display) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
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
