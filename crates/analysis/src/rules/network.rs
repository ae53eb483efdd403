//! Reaching others.

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
        says: "A name leads to no address: {name}.",
        advice: "Correct the name; look at the DNS of the machine that runs the step.",
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
        says: "Another program listens there already: {what}.",
        advice: "Choose a free port (0 lets the system choose), and end what an earlier run left behind.",
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
        says: "Nobody listens there: {what}.",
        advice: "Start the service first and wait until it answers; then look at host and port.",
        ..GENERAL
    },
    Rule {
        id: "connection-lost",
        category: Network,
        patterns: &[
            r"(?i)(?P<what>connection reset by peer|\bECONNRESET\b|socket hang up|empty reply from server|remote end closed connection|connection (?:was )?closed unexpectedly|unexpected disconnect while reading sideband packet|early EOF|transfer closed with .* remaining|\bConnectionResetError\b)",
        ],
        says: "The other side ended the connection: {what}.",
        advice: "Try again; if it stays, look at the other side's log and at proxies between.",
        ..GENERAL
    },
    Rule {
        id: "unreachable",
        category: Network,
        patterns: &[
            r"(?P<what>No route to host|Network is unreachable|Host is unreachable|\bEHOSTUNREACH\b|\bENETUNREACH\b|network is unreachable)",
        ],
        says: "No way leads there: {what}.",
        advice: "Look at network, firewall and proxy of the machine that runs the step.",
        ..GENERAL
    },
    Rule {
        id: "rate-limit",
        category: Network,
        patterns: &[
            r"(?P<what>429:? Too Many Requests|returned error: 429|HTTP (?:Error )?429|[Rr]ate limit exceeded|secondary rate limit)",
        ],
        says: "A server answers no more for a while ({what}).",
        advice: "Ask less often, log in, or wait and retry.",
        ..GENERAL
    },
    Rule {
        id: "http-not-found",
        category: Network,
        patterns: &[
            r"(?P<what>ERROR 404|returned error: 404|HTTP (?:Error )?404|\b404:? (?:Client Error: )?Not Found|status(?: code)?:? 404\b)",
        ],
        says: "The server does not have what is asked for ({what}).",
        advice: "Correct the address; look whether the file was published before.",
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
        says: "A server answered with an error: {what}.",
        advice: "Look at the log of that server; a 4xx is about our request.",
        ..GENERAL
    },
    Rule {
        id: "http-check",
        category: Network,
        patterns: &[
            r"^\[berth\] (?:GET|HEAD) (?P<what>\S+ answered \d+) in \d+ ms",
            r"^\[berth\] (?:GET|HEAD) (?P<what>\S+: .+)",
        ],
        says: "The check does not get the answer it wants: {what}.",
        advice: "Open the address by hand; look at the log of what was deployed.",
        ..CAUSE
    },
];
