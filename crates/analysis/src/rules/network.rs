//! Rules for the network.

use crate::category::Category::Network;
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "name-unknown",
        category: Network,
        patterns: &[
            r"Could not resolve (?:host(?:name)?|proxy):? (?P<name>[^\s:]+)",
            r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (?P<name>\S+)",
            r"lookup (?P<name>\S+?)(?: on \S+)?: (?:no such host|server misbehaving)",
            r"(?P<name>Name or service not known|Temporary failure in name resolution|nodename nor servname provided|No address associated with hostname|Name does not resolve)",
            r"unable to resolve host address [‘'](?P<name>[^’']+)",
            r"UnknownHostException: (?P<name>\S+)",
            r"(?P<name>dns error: .+|failed to lookup address information)",
        ],
        says: "A host name could not be resolved: {name}.",
        advice: "Fix the name, and check DNS on the machine that runs the step.",
        ..GENERAL
    },
    Rule {
        id: "address-in-use",
        category: Network,
        patterns: &[
            r"\bEADDRINUSE\b:? ?(?P<what>.*)",
            r"(?P<what>[Aa]ddress already in use.*)",
            r"(?P<what>[Pp]ort \d+ is already (?:in use|allocated).*)",
        ],
        says: "The address is already in use: {what}.",
        advice: "Use a free port (0 lets the system choose), and stop processes of earlier runs.",
        ..GENERAL
    },
    Rule {
        id: "connection-refused",
        category: Network,
        patterns: &[
            r"Failed to connect to (?P<what>\S+ port \d+)",
            r"connect to (?:host )?(?P<what>\S+ port \d+): Connection refused",
            r"ECONNREFUSED (?P<what>\S+)",
            r"dial tcp (?P<what>\S+): connect: connection refused",
            r"(?i)(?P<what>connection refused|\bECONNREFUSED\b|ConnectionRefusedError.*|couldn't connect to server|actively refused it)",
        ],
        says: "Connection refused: {what}.",
        advice: "Start the service first and wait until it is ready, then check host and port.",
        ..GENERAL
    },
    Rule {
        id: "connection-lost",
        category: Network,
        patterns: &[
            r"(?i)(?P<what>connection reset by peer|\bECONNRESET\b|socket hang up|empty reply from server|remote end closed connection|connection (?:was )?closed unexpectedly|unexpected disconnect while reading sideband packet|early EOF|transfer closed with .* remaining|\bConnectionResetError\b)",
        ],
        says: "The connection was closed by the other side: {what}.",
        advice: "Retry. If it persists, check the other side's log and any proxies in between.",
        ..GENERAL
    },
    Rule {
        id: "unreachable",
        category: Network,
        patterns: &[
            r"(?P<what>No route to host|Network is unreachable|Host is unreachable|\bEHOSTUNREACH\b|\bENETUNREACH\b|network is unreachable)",
        ],
        says: "The host is unreachable: {what}.",
        advice: "Check network, firewall and proxy of the machine that runs the step.",
        ..GENERAL
    },
    Rule {
        id: "rate-limit",
        category: Network,
        patterns: &[
            r"(?P<what>429:? Too Many Requests|returned error: 429|HTTP (?:Error )?429|[Rr]ate limit exceeded|secondary rate limit)",
        ],
        says: "A server's rate limit was reached ({what}).",
        advice: "Send fewer requests, log in, or wait and retry.",
        ..GENERAL
    },
    Rule {
        id: "http-not-found",
        category: Network,
        patterns: &[
            r"(?P<what>ERROR 404|returned error: 404|HTTP (?:Error )?404|\b404:? (?:Client Error: )?Not Found|status(?: code)?:? 404\b)",
        ],
        says: "The server returned 404 ({what}).",
        advice: "Fix the URL, and check that the file has been published.",
        ..GENERAL
    },
    Rule {
        id: "http-error",
        category: Network,
        patterns: &[
            r"returned error: (?P<what>[45]\d\d)",
            r"(?P<what>ERROR [45]\d\d: .+)",
            r"(?P<what>\b(?:500:? Internal Server Error|502:? Bad Gateway|503:? Service (?:Temporarily )?Unavailable|400:? Bad Request)\b)",
            r"(?i)(?:unexpected |response )?(?:http )?status(?: code)?:? (?P<what>[45]\d\d)\b",
            r"HTTP (?:Error |error )?(?P<what>5\d\d)\b",
        ],
        says: "A server returned an error: {what}.",
        advice: "Check that server's log; a 4xx status means the request is wrong.",
        ..GENERAL
    },
    Rule {
        id: "http-check",
        category: Network,
        patterns: &[
            r"^\[berth\] (?:GET|HEAD) (?P<what>\S+ answered \d+) in \d+ ms",
            r"^\[berth\] (?:GET|HEAD) (?P<what>\S+: .+)",
        ],
        says: "The HTTP check failed: {what}.",
        advice: "Request the URL by hand, and check the log of the deployed service.",
        ..CAUSE
    },
];
