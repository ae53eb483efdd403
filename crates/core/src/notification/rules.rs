//! Notification rules: through which channels a person is notified, and when.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::NamePattern;
use crate::name::Slug;
use crate::pipeline::window::{DeploymentWindow, WindowHours, ZoneName};
use crate::time::Timestamp;
use crate::webhook::EventKindFilter;

/// Maximum number of rules of a person or a team.
pub const RULES_PER_OWNER_MAX: usize = 20;
pub const KINDS_PER_RULE_MAX: usize = crate::webhook::KINDS_PER_WEBHOOK_MAX;
pub const DIGEST_MINUTES_MAX: i64 = 24 * 60;
/// The digest interval of the default rules.
const DEFAULT_DIGEST_MINUTES: i64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationChannel {
    Inbox,
    Email,
    /// A chat destination of the organization, or without one a direct message to the person.
    Chat,
}

/// Which events a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSubject {
    /// Events that concern the person.
    Mine,
    /// All events that the person may see.
    All,
}

/// One notification rule. It applies to an event that meets all of its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotificationRule {
    pub channel: NotificationChannel,
    /// The chat destination that the rule sends to. Such a rule sends nothing to people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub destination: Option<Slug>,
    pub about: RuleSubject,
    pub kinds: EventKindFilter,
    /// `None` matches all pipelines, and events without a pipeline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pipeline: Option<NamePattern>,
    /// Matches the environment or the stage. `None` matches all, and events without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub environment: Option<NamePattern>,
    /// No message is sent in these hours; it is sent afterwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quiet_hours: Option<QuietHours>,
    /// Minimum time between two messages. Notifications in between are sent together.
    pub digest_minutes: i64,
}

/// Daily hours in a time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuietHours {
    pub hours: WindowHours,
    pub time_zone: ZoneName,
}

impl QuietHours {
    /// Returns the end of the quiet hours, or `now` if they do not apply now.
    pub fn end(&self, now: Timestamp) -> Timestamp {
        let WindowHours { from_min, to_min } = self.hours;
        // The window is open outside of the quiet hours. Its start must be below 24:00.
        let loud = WindowHours { from_min: to_min % (24 * 60), to_min: from_min };
        if loud.from_min == loud.to_min {
            return now;
        }
        let window = DeploymentWindow {
            timezone: self.time_zone.clone(),
            days: BTreeSet::new(),
            hours: Some(loud),
            except: Vec::new(),
        };
        window.opens_next(now).unwrap_or(now)
    }
}

/// The rules of a person who has none, and whose teams have none.
pub fn default_rules() -> Vec<NotificationRule> {
    let rule = |channel, digest_minutes| NotificationRule {
        channel,
        destination: None,
        about: RuleSubject::Mine,
        kinds: EventKindFilter::all(),
        pipeline: None,
        environment: None,
        quiet_hours: None,
        digest_minutes,
    };
    vec![rule(NotificationChannel::Inbox, 0), rule(NotificationChannel::Email, DEFAULT_DIGEST_MINUTES)]
}

/// An event, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    pub kind: &'a str,
    /// The pipeline's slug.
    pub pipeline: Option<&'a str>,
    /// The name of the environment or stage.
    pub place: Option<&'a str>,
    /// Whether the event concerns the person.
    pub is_mine: bool,
}

impl NotificationRule {
    pub fn matches(&self, event: &RuleInput<'_>) -> bool {
        let fits = |pattern: &Option<NamePattern>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| pattern.matches(name)))
        };
        (self.about == RuleSubject::All || event.is_mine)
            && self.kinds.contains(event.kind)
            && fits(&self.pipeline, event.pipeline)
            && fits(&self.environment, event.place)
    }

    /// When a message by this rule is due, if the last one was sent at `last_sent`.
    fn due_at(&self, now: Timestamp, last_sent: Option<Timestamp>) -> Timestamp {
        let next = last_sent.map(|last| last.plus_seconds(self.digest_minutes * 60));
        let due = next.map_or(now, |next| next.max(now));
        self.quiet_hours.as_ref().map_or(due, |quiet| quiet.end(due))
    }
}

/// Where one notification goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotificationRoute {
    pub in_inbox: bool,
    pub mail_due_at: Option<Timestamp>,
    /// When a direct message in a chat is due.
    pub chat_due_at: Option<Timestamp>,
}

/// When the last messages were sent to a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastSent {
    pub mail: Option<Timestamp>,
    pub chat: Option<Timestamp>,
}

/// Applies a person's rules to an event. If several rules send through the same channel, the earliest time counts.
pub fn route(
    rules: &[NotificationRule],
    event: &RuleInput<'_>,
    now: Timestamp,
    last: LastSent,
) -> NotificationRoute {
    let mut route = NotificationRoute::default();
    let for_people = rules.iter().filter(|rule| rule.destination.is_none() && rule.matches(event));
    for rule in for_people {
        let (slot, last) = match rule.channel {
            NotificationChannel::Inbox => {
                route.in_inbox = true;
                continue;
            }
            NotificationChannel::Email => (&mut route.mail_due_at, last.mail),
            NotificationChannel::Chat => (&mut route.chat_due_at, last.chat),
        };
        let due = rule.due_at(now, last);
        *slot = Some(slot.map_or(due, |other| other.min(due)));
    }
    route
}

/// Applies the rules of a team or organization to an event. Returns when a message is due at each destination.
pub fn route_to_destinations(
    rules: &[NotificationRule],
    event: &RuleInput<'_>,
    now: Timestamp,
    last_sent: impl Fn(&Slug) -> Option<Timestamp>,
) -> BTreeMap<Slug, Timestamp> {
    let mut due_at = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.matches(event)) {
        let Some(destination) = &rule.destination else { continue };
        let due = rule.due_at(now, last_sent(destination));
        let slot = due_at.entry(destination.clone()).or_insert(due);
        *slot = due.min(*slot);
    }
    due_at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn quiet(hours: &str, zone: &str) -> QuietHours {
        QuietHours {
            hours: WindowHours::parse(hours).expect("hours"),
            time_zone: ZoneName::parse(zone).expect("a zone"),
        }
    }

    fn email(digest_minutes: i64, quiet_hours: Option<QuietHours>) -> NotificationRule {
        NotificationRule {
            digest_minutes,
            quiet_hours,
            ..default_rules().into_iter().nth(1).expect("the email rule")
        }
    }

    const MINE: RuleInput<'_> =
        RuleInput { kind: "deployment_failed", pipeline: Some("shop"), place: Some("qa-1"), is_mine: true };

    #[test]
    fn default_rules_notify_only_of_own_events() {
        let now = time("2026-11-15T09:30:00Z");
        let own = route(&default_rules(), &MINE, now, LastSent::default());
        let wanted = NotificationRoute { in_inbox: true, mail_due_at: Some(now), chat_due_at: None };
        assert_eq!(own, wanted);
        let other = route(&default_rules(), &RuleInput { is_mine: false, ..MINE }, now, LastSent::default());
        assert_eq!(other, NotificationRoute::default());
    }

    #[test]
    fn rule_with_a_destination_sends_only_there() {
        let now = time("2026-11-15T09:30:00Z");
        let chat = |destination: Option<&str>, digest_minutes| NotificationRule {
            channel: NotificationChannel::Chat,
            destination: destination.map(|name| Slug::parse(name).expect("a name")),
            ..email(digest_minutes, None)
        };
        let rules = [chat(Some("ops"), 30), chat(Some("ops"), 10), chat(None, 0), chat(Some("dev"), 0)];
        let own = route(&rules, &MINE, now, LastSent::default());
        let wanted = NotificationRoute { chat_due_at: Some(now), ..NotificationRoute::default() };
        assert_eq!(own, wanted);
        let last = |name: &Slug| (name.as_str() == "ops").then(|| now.plus_seconds(-60));
        let found = route_to_destinations(&rules, &MINE, now, last);
        let found: Vec<_> = found.iter().map(|(name, due)| (name.as_str(), *due)).collect();
        assert_eq!(found, [("dev", now), ("ops", now.plus_seconds(9 * 60))]);
    }

    #[test]
    fn rule_matches_kinds_pipelines_and_environments() {
        let pattern = |text: &str| Some(NamePattern::parse(text).expect("a pattern"));
        let rule = |kinds: &[&str], pipeline: Option<NamePattern>, environment: Option<NamePattern>| {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            let kinds = EventKindFilter::parse(&kinds).expect("kinds");
            NotificationRule { about: RuleSubject::All, kinds, pipeline, environment, ..email(0, None) }
        };
        let other = RuleInput { is_mine: false, ..MINE };
        for (rule, event, wanted) in [
            (rule(&["*"], None, None), other, true),
            (rule(&["step_failed"], None, None), other, false),
            (rule(&["*"], pattern("sh*"), None), other, true),
            (rule(&["*"], pattern("docs"), None), other, false),
            (rule(&["*"], pattern("shop"), pattern("qa-*")), other, true),
            (rule(&["*"], None, pattern("staging")), other, false),
            (rule(&["*"], pattern("*"), None), RuleInput { pipeline: None, ..other }, false),
            (rule(&["*"], None, pattern("*")), RuleInput { place: None, ..other }, false),
        ] {
            assert_eq!(rule.matches(&event), wanted, "{rule:?}");
        }
    }

    #[test]
    fn quiet_hours_postpone_to_their_end_in_their_time_zone() {
        let night = quiet("22:00-07:00", "Europe/Vienna");
        for (now, wanted) in [
            ("2026-11-15T09:30:00Z", "2026-11-15T09:30:00Z"),
            ("2026-11-15T20:59:00Z", "2026-11-15T20:59:00Z"),
            ("2026-11-15T21:00:00Z", "2026-11-16T06:00:00Z"),
            ("2026-11-16T05:59:59Z", "2026-11-16T06:00:00Z"),
            ("2026-11-16T06:00:00Z", "2026-11-16T06:00:00Z"),
            // Summer time begins in this night.
            ("2026-03-29T00:30:00Z", "2026-03-29T05:00:00Z"),
        ] {
            assert_eq!(night.end(time(now)), time(wanted), "{now}");
        }
        let evening = quiet("20:00-24:00", "UTC");
        assert_eq!(evening.end(time("2026-11-15T23:00:00Z")), time("2026-11-16T00:00:00Z"));
    }

    #[test]
    fn digest_sends_the_first_message_at_once_and_collects_the_rest() {
        let rules = [email(10, None)];
        let due = |now: &str, last: Option<&str>| {
            let last = LastSent { mail: last.map(time), chat: None };
            route(&rules, &MINE, time(now), last).mail_due_at.expect("an email")
        };
        assert_eq!(due("2026-11-15T09:30:00Z", None), time("2026-11-15T09:30:00Z"));
        let last = Some("2026-11-15T09:30:00Z");
        assert_eq!(due("2026-11-15T09:31:00Z", last), time("2026-11-15T09:40:00Z"));
        assert_eq!(due("2026-11-15T09:39:59Z", last), time("2026-11-15T09:40:00Z"));
        assert_eq!(due("2026-11-15T09:41:00Z", last), time("2026-11-15T09:41:00Z"));
    }

    proptest! {
        /// An email is never due in the past, never in quiet hours, and within two days.
        #[test]
        fn email_is_due_outside_of_quiet_hours(
            now in 1_794_729_600i64..1_826_265_600, last in proptest::option::of(0i64..200_000),
            digest in 0i64..=DIGEST_MINUTES_MAX, from in 0u16..1_440, to in 0u16..=1_440,
            zone in prop::sample::select(vec!["UTC", "Europe/Vienna", "America/New_York", "Asia/Kathmandu"]),
        ) {
            prop_assume!(from != to && !(from == 0 && to == 1_440));
            let now = Timestamp::from_micros(now * 1_000_000);
            let last = last.map(|ago| now.plus_seconds(-ago));
            let quiet = QuietHours {
                hours: WindowHours { from_min: from, to_min: to },
                time_zone: ZoneName::parse(zone).expect("a zone"),
            };
            let due = email(digest, Some(quiet.clone())).due_at(now, last);
            prop_assert!(due >= now);
            prop_assert!(due.seconds_since(now) <= 2 * 24 * 60 * 60 + 2 * 60 * 60);
            prop_assert_eq!(quiet.end(due), due);
            prop_assert!(last.is_none_or(|last| due >= last.plus_seconds(digest * 60)));
        }

        /// Adding a rule never removes a channel, and never delays an email.
        #[test]
        fn adding_a_rule_only_adds(digests in prop::collection::vec(0i64..60, 0..4), added in 0i64..60, ago in 0i64..7_200) {
            let now = time("2026-11-15T09:30:00Z");
            let last = LastSent { mail: Some(now.plus_seconds(-ago)), chat: None };
            let mut rules: Vec<_> = digests.into_iter().map(|digest| email(digest, None)).collect();
            let before = route(&rules, &MINE, now, last);
            rules.push(email(added, None));
            let after = route(&rules, &MINE, now, last);
            prop_assert!(after.mail_due_at.is_some());
            prop_assert!(before.mail_due_at.is_none_or(|before| after.mail_due_at <= Some(before)));
        }
    }
}
