//! Formats times and durations for people.

use berth_core::pipeline::seconds::DurationSeconds;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};

/// Formats a time as "14:02" if it is today, otherwise as "Nov 14 14:02".
pub(crate) fn format_clock(time: &str) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return time.to_owned() };
    let zone = TimeZone::system();
    let there = time.to_zoned(zone.clone());
    let today = Timestamp::now().to_zoned(zone).date();
    there.strftime(if there.date() == today { "%H:%M" } else { "%b %-d %H:%M" }).to_string()
}

/// Formats a time as "12 min ago".
pub(crate) fn format_ago(time: &str) -> String {
    match seconds_since(time) {
        None => time.to_owned(),
        Some(..5) => "just now".to_owned(),
        Some(seconds) => format!("{} ago", format_duration(seconds)),
    }
}

/// Formats a time as "in 12 min", rounded up so that a fresh two-hour session does not show "1 h 59 min".
pub(crate) fn format_time_left(time: &str) -> String {
    match seconds_since(time) {
        None => time.to_owned(),
        Some(seconds) if seconds >= 0 => "now".to_owned(),
        Some(seconds) if seconds > -90 => format!("in {}", format_duration(-seconds)),
        Some(seconds) => format!("in {}", format_duration((59 - seconds) / 60 * 60)),
    }
}

/// Formats a duration with at most two units: "45 s", "12 min", "1 h 30 min", "3 days".
pub(crate) fn format_duration(seconds: i64) -> String {
    match seconds {
        ..90 => format!("{seconds} s"),
        90..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => match seconds % 3_600 / 60 {
            0 => format!("{} h", seconds / 3_600),
            minutes => format!("{} h {minutes} min", seconds / 3_600),
        },
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats the time from `from` to `to`, or to now if `to` is `None`.
pub(crate) fn format_elapsed(from: Option<&str>, to: Option<&str>) -> Option<String> {
    let from: Timestamp = from?.parse().ok()?;
    let to = to.map_or_else(|| Some(Timestamp::now()), |to| to.parse().ok())?;
    let seconds = to.since(from).ok()?.total(Unit::Second).ok()?;
    Some(if seconds < 10.0 { format!("{seconds:.1} s") } else { format_duration(seconds as i64) })
}

/// Whole seconds from `from` to `to`, rounded.
pub(crate) fn seconds_between(from: Option<&str>, to: Option<&str>) -> Option<i64> {
    let (from, to): (Timestamp, Timestamp) = (from?.parse().ok()?, to?.parse().ok()?);
    Some((to.as_millisecond() - from.as_millisecond() + 500).div_euclid(1_000))
}

fn seconds_since(time: &str) -> Option<i64> {
    Some(Timestamp::now().as_second() - time.parse::<Timestamp>().ok()?.as_second())
}

/// Parses "30m", "2h" or "1h30m".
pub(crate) fn parse_seconds(text: &str) -> Result<i64, String> {
    let seconds = DurationSeconds::parse(text).map_err(|error| error.to_string())?;
    i64::try_from(seconds.as_secs()).map_err(|_| "too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_at_most_two_units() {
        let said: Vec<_> = [0, 45, 90, 3_599, 3_600, 5_400, 259_200].map(format_duration).into();
        assert_eq!(said, ["0 s", "45 s", "1 min", "59 min", "1 h", "1 h 30 min", "3 days"]);
    }
}
