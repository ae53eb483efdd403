//! Identifiers: a prefix for the type, followed by 128 bits that sort by time.
//!
//! `pl_01k9x8…` is a UUIDv7 as 26 characters of lower-case Crockford base32. It is safe in URLs, and its text sorts by
//! time. Ids are built from a time and entropy passed in; nothing here reads a clock.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// The random part of an identifier.
pub type IdEntropy = [u8; 10];

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Maps each character of the base32 alphabet to its value.
const DIGITS: [Option<u8>; 256] = {
    let (mut digits, mut digit) = ([None; 256], 0u8);
    while digit < 32 {
        digits[ALPHABET[digit as usize] as usize] = Some(digit);
        digit += 1;
    }
    digits
};
const ENCODED_CHARS: usize = 26;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of this kind: expected {prefix}_ and 26 characters")]
pub struct InvalidId {
    prefix: &'static str,
}

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn from_parts(now: Timestamp, entropy: IdEntropy) -> Self {
                Self(sortable(now, entropy))
            }

            fn with_text<T>(self, work: impl FnOnce(&str) -> T) -> T {
                let mut text = [b'_'; $prefix.len() + 1 + ENCODED_CHARS];
                text[..$prefix.len()].copy_from_slice($prefix.as_bytes());
                encode(self.0, &mut text[$prefix.len() + 1..]);
                work(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_text(|text| f.pad(text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.with_text(|text| serializer.serialize_str(text))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(IdVisitor(PhantomData))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let rest = text.strip_prefix($prefix).and_then(|rest| rest.strip_prefix('_'));
                rest.and_then(decode).map(Self).ok_or(InvalidId { prefix: $prefix })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    )+};
}

id! {
    /// An organization, to which every token and record belongs.
    OrgId = "org",
    /// A person or a service account.
    UserId = "usr",
    /// A group of members that has grants.
    TeamId = "tm",
    /// A role on a part of an organization, given to a member or a team.
    GrantId = "gnt",
    PipelineId = "pl",
    EnvironmentId = "env",
    /// A session: the exclusive use of an environment.
    SessionId = "ses",
    /// A claim that waits in an environment's queue.
    TicketId = "tkt",
    /// Groups the tickets of one claim for any of several environments.
    TicketGroupId = "tkg",
    DeploymentId = "dep",
    /// An analysis of a failed step.
    AnalysisId = "anl",
    /// A request for approval.
    ApprovalId = "apr",
    /// A step of one deployment in one stage.
    StepRunId = "stp",
    RepositoryId = "rep",
    /// A step registry: a repository of custom steps.
    RegistryId = "reg",
    /// A machine that executes steps.
    RunnerId = "run",
    TokenId = "tok",
    /// An account at an identity provider that is linked to a user.
    IdentityId = "idn",
    /// An invitation to an organization.
    InvitationId = "inv",
    EventId = "evt",
    SecretId = "sec",
    /// A key that encrypts an organization's secrets.
    DataKeyId = "key",
    /// A login session in a browser.
    SignInId = "sgn",
    /// The webhook through which a forge reports events of a repository.
    HookId = "hook",
    /// A GitHub App that connects repositories to their forge.
    ForgeAppId = "app",
    WebhookId = "whk",
    /// One event to be delivered to one webhook.
    DeliveryId = "dlv",
    /// A notification of one event for one person.
    NotificationId = "ntf",
    /// A link in a message with which its recipient can act once.
    ActionLinkId = "lnk",
    /// A place in a chat that notification rules can name.
    ChatDestinationId = "chat",
    /// A message to a chat about one event.
    ChatMessageId = "msg",
    /// An entry in the outbox.
    EffectId = "eff",
}

/// Number of bits of an event id that hold the event's sequence number.
const NUMBER_BITS: u32 = 40;

impl EventId {
    /// Embeds the sequence number in the id, so that the event can be looked up by its sequence number when only the id
    /// is known.
    #[must_use]
    pub fn with_number(self, number: i64) -> Self {
        let number = u128::from(number.unsigned_abs()) & ((1 << NUMBER_BITS) - 1);
        Self(self.0 >> NUMBER_BITS << NUMBER_BITS | number)
    }

    /// The embedded sequence number. Arbitrary for old ids, which were created without one.
    pub fn number(self) -> i64 {
        i64::try_from(self.0 & ((1 << NUMBER_BITS) - 1)).unwrap_or(i64::MAX)
    }
}

/// Deserializes an id without copying its text.
struct IdVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = InvalidId>> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

fn sortable(now: Timestamp, mut entropy: IdEntropy) -> u128 {
    let micros = u64::try_from(now.as_micros()).unwrap_or(0);
    let millis = micros / 1_000;
    // The twelve bits after the milliseconds hold the fraction of a millisecond, as RFC 9562 allows, so that ids
    // created within one millisecond also sort by time.
    let [_, _, .., high, low] = (micros % 1_000 * 4_096 / 1_000).to_be_bytes();
    entropy[..2].copy_from_slice(&[high, low]);
    uuid::Builder::from_unix_timestamp_millis(millis, &entropy).into_uuid().as_u128()
}

/// Writes into a buffer instead of allocating, because every SQL statement encodes ids.
fn encode(mut bits: u128, into: &mut [u8]) {
    for place in into.iter_mut().rev() {
        *place = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
}

fn decode(text: &str) -> Option<u128> {
    // 26 characters hold 130 bits, so the first character may only use three of its five.
    if text.len() != ENCODED_CHARS || text.as_bytes()[0] > b'7' {
        return None;
    }
    text.bytes().try_fold(0u128, |bits, byte| Some(bits << 5 | u128::from(DIGITS[usize::from(byte)]?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn id_round_trips_through_text_and_sorts_by_time(
            a in 0i64..4_000_000_000_000_000, b in 0i64..4_000_000_000_000_000, entropy: IdEntropy
        ) {
            let make = |micros| PipelineId::from_parts(Timestamp::from_micros(micros), entropy);
            prop_assert_eq!(make(a).to_string().parse::<PipelineId>(), Ok(make(a)));
            if a < b {
                prop_assert!(make(a).to_string() < make(b).to_string());
            }
        }

        #[test]
        fn event_id_contains_sequence_number(
            micros in 0i64..4_000_000_000_000_000, entropy: IdEntropy, number in 0i64..1 << 40
        ) {
            let id = EventId::from_parts(Timestamp::from_micros(micros), entropy);
            let numbered = id.with_number(number);
            prop_assert_eq!(numbered.number(), number);
            prop_assert_eq!(numbered.to_string().parse::<EventId>(), Ok(numbered));
            let millis = |id: EventId| id.0 >> 80;
            prop_assert_eq!(millis(numbered), millis(id));
            prop_assert_eq!(id.with_number(id.number()), id);
        }

        #[test]
        fn id_parser_accepts_only_canonical_text(text in ".{0,40}") {
            if let Ok(id) = text.parse::<PipelineId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn id_with_prefix_of_other_type_is_rejected() {
        let id = PipelineId::from_parts(Timestamp::from_micros(1), [7; 10]).to_string();
        assert!(id.parse::<OrgId>().is_err());
        assert!(id.starts_with("pl_"));
    }
}
