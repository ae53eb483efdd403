//! Rules for timeouts that tools report in the log. Timeouts that the engine enforces are in `endings.rs`.

use crate::category::Category::Timeout;
use crate::rule::{CAUSE, GENERAL, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "test-timeout",
        category: Timeout,
        patterns: &[
            r"(?P<what>(?:Test|Hook) timed out in \d+ ?ms)",
            r"(?P<what>Exceeded timeout of \d+ ?ms for a (?:test|hook))",
            r"(?P<what>panic: test timed out after \S+)",
            r"(?P<what>Timeout of \d+ms exceeded)",
        ],
        says: "A test timed out: {what}.",
        advice: "Find out what it waits for; raise the limit only if it is expected to take longer.",
        ..CAUSE
    },
    Rule {
        id: "connection-timeout",
        category: Timeout,
        patterns: &[
            r"(?i)(?P<what>\b(?:connection|operation|request|read|connect|lookup|handshake|gateway)[ -]?(?:to \S+ )?time(?:d )?[ -]?out\b.*)",
            r"\b(?P<what>ETIMEDOUT|ESOCKETTIMEDOUT|ERR_SOCKET_TIMEOUT|UND_ERR_CONNECT_TIMEOUT)\b",
            r"(?P<what>i/o timeout|context deadline exceeded|TLS handshake timeout)",
            r"(?P<what>(?:Read|Connect|Connection)Timeout(?:Error)?\b)",
            r"returned error: (?P<what>504)\b",
        ],
        says: "A connection timed out: {what}.",
        advice: "Check that the other side is up and reachable from here; retry with a delay.",
        ..GENERAL
    },
    Rule {
        id: "timed-out",
        category: Timeout,
        patterns: &[
            r"(?i)(?P<what>\b(?:timed out|timeout (?:expired|exceeded|reached)|deadline exceeded)\b)",
            r"(?P<what>\bTimeoutE(?:rror|xpired)\b)",
        ],
        says: "An operation timed out ({what}).",
        advice: "Find out what it waited for; raise the limit only if it is expected to take longer.",
        ..GENERAL
    },
    Rule {
        id: "wait-for",
        category: Timeout,
        patterns: &[r"^\[berth\] not yet: (?P<what>.+)"],
        says: "The condition was not met in time: {what}.",
        advice: "Check what should become ready; raise `within` if it is expected to take longer.",
        ..REPORT
    },
];
