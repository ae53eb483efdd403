//! Things that took too long, as the log tells. What the engine ended itself is in `ends.rs`.

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
        says: "A test took longer than it may: {what}.",
        advice: "Look what it waits for; raise the limit only if it is meant to take so long.",
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
        says: "Somebody did not answer in time: {what}.",
        advice: "Look whether the other side is up and reachable from here; retry with a pause.",
        ..GENERAL
    },
    Rule {
        id: "timed-out",
        category: Timeout,
        patterns: &[
            r"(?i)(?P<what>\b(?:timed out|timeout (?:expired|exceeded|reached)|deadline exceeded)\b)",
            r"(?P<what>\bTimeoutE(?:rror|xpired)\b)",
        ],
        says: "Something took too long ({what}).",
        advice: "Look what it waited for; raise the limit only if it is meant to take so long.",
        ..GENERAL
    },
    Rule {
        id: "wait-for",
        category: Timeout,
        patterns: &[r"^\[berth\] not yet: (?P<what>.+)"],
        says: "What the step waits for did not come in time: {what}.",
        advice: "Look at what should become ready; raise `within` if it is meant to take so long.",
        ..REPORT
    },
];
