//! Rules for crashes and uncaught exceptions.

use crate::category::Category::{Compile, Crash};
use crate::rule::{CAUSE, GENERAL, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "script-source",
        category: Compile,
        patterns: &[
            r"^(?:E\s+)?(?P<kind>SyntaxError|IndentationError|TabError)(?: \[\w+\])?: (?P<what>.+)",
            r"PHP (?P<kind>Parse error):\s+(?P<what>.+)",
            r"(?P<kind>syntax error)(?:,| found| at) (?P<what>.+)",
        ],
        says: "A source file has a syntax error ({kind}): {what}.",
        advice: "Fix the line shown above, and check that the interpreter's version supports the syntax.",
        ..CAUSE
    },
    Rule {
        id: "segmentation-fault",
        category: Crash,
        patterns: &[
            r"(?P<what>[Ss]egmentation [Ff]ault|SIGSEGV|[Bb]us error|[Ii]llegal instruction|[Ff]loating point exception)",
        ],
        says: "A program crashed: {what}.",
        advice: "Run it under a debugger or sanitizer, and check that it was built for this machine.",
        ..CAUSE
    },
    Rule {
        id: "assertion",
        category: Crash,
        patterns: &[
            r"(?P<what>Assertion [`'‘]?.+ failed)",
            r"(?P<what>Assertion failed: .+)",
            r"terminate called after throwing an instance of (?P<what>.+)",
            r"(?P<what>(?:double )?free\(\): .+|malloc\(\): .+|stack smashing detected|corrupted size vs\. prev_size)",
        ],
        says: "A program failed an internal check: {what}.",
        advice: "This is a bug in that program; see the reported location.",
        ..CAUSE
    },
    Rule {
        id: "rust-panic",
        category: Crash,
        patterns: &[r"thread '[^']+'.* panicked at (?P<what>.+?):?$"],
        after: 1,
        says: "A Rust program panicked at {what}.",
        advice: "This is a bug in that program; RUST_BACKTRACE=1 shows a backtrace.",
        ..CAUSE
    },
    Rule {
        id: "go-panic",
        category: Crash,
        patterns: &[
            r"^panic: (?P<what>.+)",
            r"^fatal error: (?P<what>all goroutines are asleep.*|concurrent map .+|stack overflow)",
        ],
        says: "A Go program panicked: {what}.",
        advice: "This is a bug in that program; the goroutines below show where.",
        ..CAUSE
    },
    Rule {
        id: "java-exception",
        category: Crash,
        patterns: &[
            r"Exception in thread \x22[^\x22]*\x22 (?P<what>.+)",
            r"^(?:Caused by: )(?P<what>[\w.$]+(?:Exception|Error)(?:: .*)?)",
        ],
        after: 2,
        says: "A Java program failed with an exception: {what}.",
        advice: "The last \"Caused by\" is the root cause.",
        ..GENERAL
    },
    Rule {
        id: "python-exception",
        category: Crash,
        patterns: &[
            r"^(?P<what>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)(?:: .+)?)$",
        ],
        with: &[r"Traceback \(most recent call last\)"],
        says: "A Python program failed with an exception: {what}.",
        advice: "The traceback above ends at the failing line.",
        ..GENERAL
    },
    Rule {
        id: "node-exception",
        category: Crash,
        patterns: &[
            r"^(?:Uncaught |\[?UnhandledPromiseRejection\S* )?(?P<what>(?:[A-Z]\w*)?(?:Error|Exception)(?: \[\w+\])?: .+)",
        ],
        with: &[r"^\s+at .+(?::\d+:\d+\)?|<anonymous>)", r"^Node\.js v\d+"],
        says: "A JavaScript program failed with an error: {what}.",
        advice: "The stack trace below shows where.",
        ..GENERAL
    },
    Rule {
        id: "perl-ruby-exception",
        category: Crash,
        patterns: &[
            r"^(?P<what>\S+\.rb:\d+:in .+\(\w+(?:Error)?\))",
            r"^(?P<what>.+ at \S+\.p[lm] line \d+\.)$",
            r"PHP (?P<what>Fatal error:.+)",
        ],
        says: "A program failed with an error: {what}.",
        advice: "See the reported location.",
        ..GENERAL
    },
    Rule {
        id: "aborted",
        category: Crash,
        patterns: &[r"(?P<what>\bAborted\b(?: \(core dumped\))?|SIGABRT|core dumped)"],
        says: "A program aborted ({what}).",
        advice: "The lines above say why.",
        ..REPORT
    },
];
