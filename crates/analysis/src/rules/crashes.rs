//! Programs that end by their own error.

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
        says: "A source file cannot be read ({kind}): {what}.",
        advice: "Correct the line that stands above; look whether the interpreter is old for it.",
        ..CAUSE
    },
    Rule {
        id: "segmentation-fault",
        category: Crash,
        patterns: &[
            r"(?P<what>[Ss]egmentation [Ff]ault|SIGSEGV|[Bb]us error|[Ii]llegal instruction|[Ff]loating point exception)",
        ],
        says: "A program crashed: {what}.",
        advice: "Run it under a debugger or sanitizer; look whether it was built for this machine.",
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
        says: "A program found itself in a state that must not be: {what}.",
        advice: "It is an error of that program: look at the place named.",
        ..CAUSE
    },
    Rule {
        id: "rust-panic",
        category: Crash,
        patterns: &[r"thread '[^']+'.* panicked at (?P<what>.+?):?$"],
        after: 1,
        says: "A Rust program panicked at {what}.",
        advice: "It is an error of that program: RUST_BACKTRACE=1 shows the way there.",
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
        advice: "It is an error of that program: the goroutines below show the place.",
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
        says: "A Java program ended by an exception: {what}.",
        advice: "The last \"Caused by\" is the root of it.",
        ..GENERAL
    },
    Rule {
        id: "python-exception",
        category: Crash,
        patterns: &[
            r"^(?P<what>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)(?:: .+)?)$",
        ],
        with: &[r"Traceback \(most recent call last\)"],
        says: "A Python program ended by an exception: {what}.",
        advice: "The lines above show the way there, the last one the place.",
        ..GENERAL
    },
    Rule {
        id: "node-exception",
        category: Crash,
        patterns: &[
            r"^(?:Uncaught |\[?UnhandledPromiseRejection\S* )?(?P<what>(?:[A-Z]\w*)?(?:Error|Exception)(?: \[\w+\])?: .+)",
        ],
        with: &[r"^\s+at .+(?::\d+:\d+\)?|<anonymous>)", r"^Node\.js v\d+"],
        says: "A JavaScript program ended by an error: {what}.",
        advice: "The lines below show the place.",
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
        says: "A program ended by an error: {what}.",
        advice: "Look at the place named.",
        ..GENERAL
    },
    Rule {
        id: "aborted",
        category: Crash,
        patterns: &[r"(?P<what>\bAborted\b(?: \(core dumped\))?|SIGABRT|core dumped)"],
        says: "A program gave up ({what}).",
        advice: "The lines above say why.",
        ..REPORT
    },
];
