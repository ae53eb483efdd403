//! Deployment windows of a stage: the days and hours, in a time zone, in which it may be entered, with exceptions.

use std::collections::BTreeSet;
use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZoneDatabase;
use serde::{Deserialize, Serialize};

use crate::name::InvalidName;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentWindow {
    pub timezone: ZoneName,
    /// Empty means every day.
    pub days: BTreeSet<WindowDay>,
    /// `None` means the whole day.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hours: Option<WindowHours>,
    /// Days on which the window stays closed.
    pub except: Vec<DateRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowDay {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl WindowDay {
    pub const ALL: [(&'static str, WindowDay); 7] = [
        ("mon", WindowDay::Mon),
        ("tue", WindowDay::Tue),
        ("wed", WindowDay::Wed),
        ("thu", WindowDay::Thu),
        ("fri", WindowDay::Fri),
        ("sat", WindowDay::Sat),
        ("sun", WindowDay::Sun),
    ];
}

/// The name of a time zone in the bundled IANA database, such as `Europe/Vienna`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ZoneName(String);

/// Start and end in minutes since midnight. An end before the start means that time on the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WindowHours {
    pub from_min: u16,
    pub to_min: u16,
}

/// One day or an inclusive range of days: `2026-12-24` or `2026-12-24/2027-01-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DateRange {
    pub first: Date,
    pub last: Date,
}

impl ZoneName {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let zone = TimeZoneDatabase::bundled().get(text).ok();
        let name = zone.as_ref().and_then(|zone| zone.iana_name());
        name.map(|name| Self(name.to_owned())).ok_or(InvalidName(
            "is not a time zone; write a name of the IANA database like Europe/Vienna or UTC",
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// All names that [`ZoneName::parse`] accepts.
    pub fn all_names() -> Vec<String> {
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect()
    }
}

impl WindowHours {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        const HOW: InvalidName =
            InvalidName("is not a span of hours; write it like \"09:00-17:00\", in quotes");
        let (from, to) = text.split_once('-').ok_or(HOW)?;
        let (from_min, to_min) = (minutes(from).ok_or(HOW)?, minutes(to).ok_or(HOW)?);
        if from_min == to_min || from_min == MINUTES_PER_DAY {
            return Err(InvalidName("is an empty span of hours; leave `hours` out for the whole day"));
        }
        Ok(Self { from_min, to_min })
    }
}

impl DateRange {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        const HOW: InvalidName =
            InvalidName("is not a date or range of dates; write 2026-12-24 or 2026-12-24/2027-01-01");
        let (first, last) = text.split_once('/').unwrap_or((text, text));
        let (first, last) = (date(first).ok_or(HOW)?, date(last).ok_or(HOW)?);
        if last < first {
            return Err(InvalidName("ends before it begins; write the earlier date first"));
        }
        Ok(Self { first, last })
    }
}

const MINUTES_PER_DAY: u16 = 24 * 60;

/// Parses `HH:MM`, up to `24:00`, to minutes.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two_digits(hours) || !two_digits(minutes) {
        return None;
    }
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= MINUTES_PER_DAY).then_some(total)
}

/// Accepts exactly `YYYY-MM-DD`; the library alone would accept more formats.
fn date(text: &str) -> Option<Date> {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if shape { text.parse().ok() } else { None }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WindowHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from_min, self.to_min);
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

impl fmt::Display for DateRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.last)
        }
    }
}

macro_rules! as_text {
    ($($name:ident),+) => {
        $(
            impl TryFrom<String> for $name {
                type Error = InvalidName;
                fn try_from(text: String) -> Result<Self, InvalidName> {
                    Self::parse(&text)
                }
            }

            impl From<$name> for String {
                fn from(value: $name) -> String {
                    value.to_string()
                }
            }
        )+
    };
}

as_text!(ZoneName, WindowHours, DateRange);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_hours_accept_only_valid_times() {
        for good in ["09:00-17:00", "00:00-24:00", "22:00-04:00"] {
            assert_eq!(WindowHours::parse(good).expect(good).to_string(), good);
        }
        for bad in [
            "",
            "9-17",
            "9:00-17:00",
            "09:00",
            "09:00-25:00",
            "09:60-10:00",
            "09:00-09:00",
            "24:00-01:00",
            "+9:00-10:00",
        ] {
            assert!(WindowHours::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn date_range_accepts_single_days_and_ordered_ranges() {
        for good in ["2026-12-24", "2026-12-24/2027-01-01", "2028-02-29"] {
            assert_eq!(DateRange::parse(good).expect(good).to_string(), good);
        }
        for bad in [
            "",
            "2026-2-3",
            "2026-02-30",
            "2027-02-29",
            "24.12.2026",
            "2027-01-01/2026-12-24",
            "2026-12-24/",
            "2026-12-24T00",
        ] {
            assert!(DateRange::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn zone_name_is_normalized_to_bundled_database() {
        assert_eq!(ZoneName::parse("europe/vienna").expect("a zone").as_str(), "Europe/Vienna");
        assert_eq!(ZoneName::parse("UTC").expect("a zone").as_str(), "UTC");
        for bad in ["", "Europe/Wien", "CEST+2", "../../etc/passwd", "Local"] {
            assert!(ZoneName::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
