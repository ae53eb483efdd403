//! A duration as written in definitions: `5s`, `10m`, `24h`, `7d`, `1h30m`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limits::DURATION_S_MAX;
use crate::name::InvalidName;

/// A duration in whole seconds. Displayed with the largest unit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DurationSeconds(u64);

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
const HOW: InvalidName = InvalidName("is not a duration; write it like 30s, 10m, 24h, 7d or 1h30m");
const TOO_LONG: InvalidName = InvalidName("is longer than the 366 days a duration can be");

impl DurationSeconds {
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// Each unit may occur once, in descending order: `1h30m`, not `30m1h`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let mut total: u64 = 0;
        let mut units = UNITS.as_slice();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let amount: u64 = rest[..digits].parse().map_err(|_| HOW)?;
            let unit = rest[digits..].chars().next().ok_or(HOW)?;
            let at = units.iter().position(|(name, _)| *name == unit).ok_or(HOW)?;
            total =
                amount.checked_mul(units[at].1).and_then(|more| total.checked_add(more)).ok_or(TOO_LONG)?;
            units = &units[at + 1..];
            rest = &rest[digits + unit.len_utf8()..];
        }
        match total {
            _ if text.is_empty() => Err(HOW),
            seconds if seconds > DURATION_S_MAX => Err(TOO_LONG),
            seconds => Ok(Self(seconds)),
        }
    }
}

impl fmt::Display for DurationSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut left = self.0;
        for (name, length) in UNITS {
            if left / length > 0 {
                write!(f, "{}{name}", left / length)?;
                left %= length;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for DurationSeconds {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::parse(&text)
    }
}

impl From<DurationSeconds> for String {
    fn from(seconds: DurationSeconds) -> String {
        seconds.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parses_units_in_descending_order() {
        for (text, seconds) in [
            ("0s", 0),
            ("5s", 5),
            ("90s", 90),
            ("10m", 600),
            ("24h", 86_400),
            ("7d", 604_800),
            ("1h30m", 5_400),
            ("1d2h3m4s", 93_784),
        ] {
            assert_eq!(DurationSeconds::parse(text).map(DurationSeconds::as_secs), Ok(seconds), "{text}");
        }
        for bad in [
            "",
            "5",
            "s",
            "5 s",
            "5S",
            "5sec",
            "-5s",
            "1.5h",
            "30m1h",
            "1h1h",
            "5s ",
            "ten",
            "5ü",
            "99999999999999999999s",
        ] {
            assert!(DurationSeconds::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn duration_longer_than_a_year_is_rejected() {
        assert!(DurationSeconds::parse("366d").is_ok());
        assert_eq!(DurationSeconds::parse("366d1s"), Err(TOO_LONG));
        assert_eq!(DurationSeconds::parse("999999999999999999d"), Err(TOO_LONG));
    }

    #[test]
    fn duration_is_displayed_in_largest_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (5_400, "1h30m"), (86_400, "1d"), (93_784, "1d2h3m4s")]
        {
            assert_eq!(DurationSeconds::from_secs(seconds).to_string(), text);
        }
    }
}
