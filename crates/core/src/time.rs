//! Timestamps in microseconds since 1970, UTC. They are always passed in; nothing here reads a clock.

use std::fmt;

use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a time: expected RFC 3339, like 2026-11-15T09:30:00Z")]
pub struct InvalidTimestamp;

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Truncated to milliseconds, the precision of the API.
    pub const fn whole_millis(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1_000))
    }

    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }

    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// Whole seconds since `earlier`; negative if `earlier` is in fact later.
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }

    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        text.parse::<jiff::Timestamp>().map(|time| Self(time.as_microsecond())).map_err(|_| InvalidTimestamp)
    }
}

const WIRE_FORM: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// RFC 3339 in UTC with milliseconds, the format of the API.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        WIRE_FORM.print_timestamp(&time, jiff::fmt::StdFmtWrite(f)).map_err(|_| fmt::Error)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_displayed_in_utc_with_milliseconds() {
        let time = Timestamp::parse("2026-11-15T10:30:00.123456+01:00").expect("a time");
        assert_eq!(time.to_string(), "2026-11-15T09:30:00.123Z");
        assert_eq!(time.plus_seconds(60).seconds_since(time), 60);
        assert_eq!(time.whole_millis(), Timestamp::parse("2026-11-15T09:30:00.123Z").expect("a time"));
        assert_eq!(Timestamp::parse("yesterday"), Err(InvalidTimestamp));
    }
}
