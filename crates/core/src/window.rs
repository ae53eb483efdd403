//! Computes when a deployment window is open. Hours are local time in the window's time zone.
//!
//! A window belongs to the day on which it begins, even if it ends on the next day. On an excepted date it is closed
//! all day. If the start or end falls into the hour that is skipped when clocks go forward, the moment of the change
//! counts; if it falls into the hour that is repeated when clocks go back, its first occurrence counts.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::pipeline::window::{DateRange, DeploymentWindow, WindowDay};
use crate::time::Timestamp;

/// How many days after an exception are searched for the next opening: a week plus a margin for clock changes.
const DAYS_BETWEEN_EXCEPTIONS_MAX: usize = 10;
const MINUTES_PER_DAY: u16 = 24 * 60;

impl DeploymentWindow {
    pub fn is_open_at(&self, now: Timestamp) -> bool {
        self.opens_next(now) == Some(now)
    }

    /// When the window opens next, or `now` if it is open. `None` if it never opens again.
    pub fn opens_next(&self, now: Timestamp) -> Option<Timestamp> {
        let zone = self.zone()?;
        let today = zone.to_datetime(jiff::Timestamp::from_microsecond(now.as_micros()).ok()?).date();
        // A window that began yesterday may last until today.
        let mut date = today.yesterday().ok()?;
        for _ in 0..(self.except.len() + 1) * DAYS_BETWEEN_EXCEPTIONS_MAX {
            if let Some(shut) = self.exception(date) {
                date = shut.last.tomorrow().ok()?;
                continue;
            }
            if let Some((from, to)) = self.open_span(&zone, date)
                && now < to
            {
                return Some(from.max(now));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Whether the window never opens after its last exception.
    pub fn never_opens_again(&self) -> bool {
        let Some(last) = self.except.iter().map(|range| range.last).max() else { return false };
        let after = last.tomorrow().ok().and_then(|date| to_timestamp(&self.zone()?, date.at(0, 0, 0, 0)));
        after.and_then(|after| self.opens_next(after)).is_none()
    }

    fn zone(&self) -> Option<TimeZone> {
        TimeZoneDatabase::bundled().get(self.timezone.as_str()).ok()
    }

    fn exception(&self, date: Date) -> Option<&DateRange> {
        self.except.iter().find(|range| (range.first..=range.last).contains(&date))
    }

    /// When the window that begins on this date opens and closes. The caller has checked that the date is not excepted.
    fn open_span(&self, zone: &TimeZone, date: Date) -> Option<(Timestamp, Timestamp)> {
        let (_, day) = WindowDay::ALL[usize::try_from(date.weekday().to_monday_zero_offset()).ok()?];
        if !self.days.is_empty() && !self.days.contains(&day) {
            return None;
        }
        let next = date.tomorrow().ok()?;
        let (from_min, to_min) = self.hours.map_or((0, MINUTES_PER_DAY), |it| (it.from_min, it.to_min));
        let is_overnight = to_min <= from_min;
        let end = match to_min % MINUTES_PER_DAY {
            _ if is_overnight && self.exception(next).is_some() => next.at(0, 0, 0, 0),
            0 => next.at(0, 0, 0, 0),
            minutes => time_at(if is_overnight { next } else { date }, minutes)?,
        };
        let (from, to) = (to_timestamp(zone, time_at(date, from_min)?)?, to_timestamp(zone, end)?);
        (from < to).then_some((from, to))
    }
}

fn time_at(date: Date, minutes: u16) -> Option<DateTime> {
    let (hour, minute) = (i8::try_from(minutes / 60).ok()?, i8::try_from(minutes % 60).ok()?);
    Some(date.at(hour, minute, 0, 0))
}

fn to_timestamp(zone: &TimeZone, clock: DateTime) -> Option<Timestamp> {
    let found = zone.to_ambiguous_timestamp(clock);
    let time = match found.offset() {
        AmbiguousOffset::Gap { .. } => {
            // The library would shift a skipped time by the length of the gap; find the moment of the clock change
            // instead.
            let past = found.compatible().ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
            zone.preceding(past).next()?.timestamp()
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => found.compatible().ok()?,
    };
    Some(Timestamp::from_micros(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::window::{WindowHours, ZoneName};

    /// Parses a window such as `Europe/Vienna mon,tue 09:00-17:00 2026-12-24`; `-` means every day or all hours.
    fn window(text: &str) -> DeploymentWindow {
        let mut parts = text.split(' ');
        let timezone = ZoneName::parse(parts.next().expect("a zone")).expect("a zone");
        let days = parts.next().expect("days").split(',').filter(|word| *word != "-");
        let day = |word: &str| WindowDay::ALL.into_iter().find(|(name, _)| *name == word).expect("a day").1;
        let days = days.map(day).collect();
        let hours = parts.next().filter(|word| *word != "-");
        let hours = hours.map(|text| WindowHours::parse(text).expect("hours"));
        let except = parts.map(|text| DateRange::parse(text).expect("dates")).collect();
        DeploymentWindow { timezone, days, hours, except }
    }

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    /// Compares one line per moment: `open`, or the time of the next opening.
    fn check(text: &str, moments: &[&str], expected: &Expect) {
        let window = window(text);
        let told = moments.iter().map(|text| {
            let now = time(text);
            let said = match window.opens_next(now) {
                Some(at) if at == now => "open".to_owned(),
                Some(at) => format!("opens {at}"),
                None => "never".to_owned(),
            };
            assert_eq!(window.is_open_at(now), said == "open");
            format!("{text} {said}\n")
        });
        expected.assert_eq(&told.collect::<String>());
    }

    #[test]
    fn window_respects_days_hours_and_exceptions() {
        check(
            "Europe/Vienna mon,tue,wed,thu,fri 09:00-17:00 2026-12-24/2027-01-01",
            &[
                "2026-11-16T07:59:59Z",
                "2026-11-16T08:00:00Z",
                "2026-11-16T15:59:59Z",
                "2026-11-16T16:00:00Z",
                "2026-11-20T16:00:00Z",
                "2026-12-23T16:30:00Z",
                "2026-12-28T10:00:00Z",
            ],
            &expect![[r#"
                2026-11-16T07:59:59Z opens 2026-11-16T08:00:00.000Z
                2026-11-16T08:00:00Z open
                2026-11-16T15:59:59Z open
                2026-11-16T16:00:00Z opens 2026-11-17T08:00:00.000Z
                2026-11-20T16:00:00Z opens 2026-11-23T08:00:00.000Z
                2026-12-23T16:30:00Z opens 2027-01-04T08:00:00.000Z
                2026-12-28T10:00:00Z opens 2027-01-04T08:00:00.000Z
            "#]],
        );
    }

    #[test]
    fn window_across_midnight_belongs_to_day_it_begins_on() {
        check(
            "UTC fri 22:00-04:00 2026-11-28",
            &[
                "2026-11-20T21:59:59Z",
                "2026-11-20T23:59:59Z",
                "2026-11-21T03:59:59Z",
                "2026-11-21T04:00:00Z",
                "2026-11-27T23:59:59Z",
                "2026-11-28T00:00:00Z",
            ],
            &expect![[r#"
                2026-11-20T21:59:59Z opens 2026-11-20T22:00:00.000Z
                2026-11-20T23:59:59Z open
                2026-11-21T03:59:59Z open
                2026-11-21T04:00:00Z opens 2026-11-27T22:00:00.000Z
                2026-11-27T23:59:59Z open
                2026-11-28T00:00:00Z opens 2026-12-04T22:00:00.000Z
            "#]],
        );
    }

    #[test]
    fn window_opens_at_clock_change_if_start_is_skipped() {
        // On 2026-03-29 in Vienna, clocks go from 02:00 to 03:00, at 01:00 UTC.
        check(
            "Europe/Vienna - 02:30-03:30",
            &["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T01:29:59Z", "2026-03-29T01:30:00Z"],
            &expect![[r#"
                2026-03-29T00:59:59Z opens 2026-03-29T01:00:00.000Z
                2026-03-29T01:00:00Z open
                2026-03-29T01:29:59Z open
                2026-03-29T01:30:00Z opens 2026-03-30T00:30:00.000Z
            "#]],
        );
        check(
            "Europe/Vienna - 02:00-02:59",
            &["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z"],
            &expect![[r#"
                2026-03-28T02:00:00Z opens 2026-03-30T00:00:00.000Z
                2026-03-29T01:00:00Z opens 2026-03-30T00:00:00.000Z
            "#]],
        );
        check(
            "Europe/Vienna sat 22:00-06:00",
            &["2026-03-28T20:59:59Z", "2026-03-29T03:59:59Z", "2026-03-29T04:00:00Z"],
            &expect![[r#"
                2026-03-28T20:59:59Z opens 2026-03-28T21:00:00.000Z
                2026-03-29T03:59:59Z open
                2026-03-29T04:00:00Z opens 2026-04-04T20:00:00.000Z
            "#]],
        );
    }

    #[test]
    fn window_uses_first_occurrence_of_repeated_hour() {
        // On 2026-10-25 in Vienna, clocks go from 03:00 back to 02:00, at 01:00 UTC.
        check(
            "Europe/Vienna - 02:10-02:50",
            &["2026-10-25T00:09:59Z", "2026-10-25T00:10:00Z", "2026-10-25T00:50:00Z", "2026-10-25T01:10:00Z"],
            &expect![[r#"
                2026-10-25T00:09:59Z opens 2026-10-25T00:10:00.000Z
                2026-10-25T00:10:00Z open
                2026-10-25T00:50:00Z opens 2026-10-26T01:10:00.000Z
                2026-10-25T01:10:00Z opens 2026-10-26T01:10:00.000Z
            "#]],
        );
        check(
            "Europe/Vienna - 02:00-03:00",
            &["2026-10-25T00:00:00Z", "2026-10-25T01:59:59Z", "2026-10-25T02:00:00Z"],
            &expect![[r#"
                2026-10-25T00:00:00Z open
                2026-10-25T01:59:59Z open
                2026-10-25T02:00:00Z opens 2026-10-26T01:00:00.000Z
            "#]],
        );
    }

    #[test]
    fn window_handles_unusual_time_zones() {
        // A day that begins at one o'clock, a daylight saving shift of half an hour, and a date that a zone skipped.
        check(
            "America/Havana sun -",
            &["2026-03-08T04:59:59Z", "2026-03-08T05:00:00Z", "2026-03-09T03:59:59Z", "2026-03-09T04:00:00Z"],
            &expect![[r#"
                2026-03-08T04:59:59Z opens 2026-03-08T05:00:00.000Z
                2026-03-08T05:00:00Z open
                2026-03-09T03:59:59Z open
                2026-03-09T04:00:00Z opens 2026-03-15T04:00:00.000Z
            "#]],
        );
        check(
            "Australia/Lord_Howe - 02:15-02:45",
            &["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z"],
            &expect![[r#"
                2026-10-03T15:30:00Z open
                2026-10-03T15:45:00Z opens 2026-10-04T15:15:00.000Z
            "#]],
        );
        check(
            "Pacific/Apia fri 09:00-17:00",
            &["2011-12-29T12:00:00Z"],
            &expect![[r#"
                2011-12-29T12:00:00Z opens 2012-01-05T19:00:00.000Z
            "#]],
        );
    }

    #[test]
    fn window_with_all_days_excepted_never_opens() {
        assert!(window("UTC - - 2026-01-01/9999-12-31").never_opens_again());
        assert!(!window("UTC mon - 2026-01-01/2030-12-31").never_opens_again());
        assert!(!window("UTC mon -").never_opens_again());
        assert_eq!(window("UTC - - 2026-01-01/9999-12-31").opens_next(time("2026-06-01T00:00:00Z")), None);
    }

    proptest! {
        #[test]
        fn opens_next_is_first_open_moment(
            minutes in 0i64..2_000_000, from in 0u16..1_440, to in 0u16..1_440, days in 0u8..128,
            zone in prop::sample::select(vec!["UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata"]),
        ) {
            prop_assume!(from != to);
            let days = WindowDay::ALL.iter().enumerate().filter(|(at, _)| days & (1 << at) != 0);
            let days = days.map(|(_, (_, day))| *day).collect();
            let timezone = ZoneName::parse(zone).expect("a zone");
            let hours = Some(WindowHours { from_min: from, to_min: to });
            let window = DeploymentWindow { timezone, days, hours, except: Vec::new() };
            let now = time("2026-01-01T00:00:00Z").plus_seconds(minutes * 60);
            let opens = window.opens_next(now).expect("it opens");
            prop_assert!(opens >= now && window.is_open_at(opens));
            if opens > now {
                prop_assert!(!window.is_open_at(now));
                prop_assert!(!window.is_open_at(opens.plus_seconds(-1).max(now)));
            }
        }
    }
}
