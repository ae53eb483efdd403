//! Rules for compilers and linkers.

use crate::category::Category::{Compile, Dependency};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gcc-header",
        category: Compile,
        patterns: &[
            r"fatal error: (?P<file>\S+): No such file or directory",
            r"fatal error: '(?P<file>[^']+)' file not found",
        ],
        after: 2,
        says: "The compiler cannot find the header {file}.",
        advice: "Install the package that contains the header, or add its directory with -I.",
        ..CAUSE
    },
    Rule {
        id: "gcc-error",
        category: Compile,
        patterns: &[
            r"(?P<file>[^\s:]+\.(?:c|cc|cpp|cxx|c\+\+|h|hh|hpp|m|mm|S|cu)):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<what>.+)",
        ],
        after: 2,
        says: "{file} does not compile, at line {line}: {what}.",
        advice: "Fix that line; later errors often follow from the first.",
        ..CAUSE
    },
    Rule {
        id: "linker-undefined",
        category: Compile,
        patterns: &[
            r"undefined reference to [`'‘](?P<name>[^'’]+)['’]",
            r"Undefined symbols for architecture (?P<name>\S+)",
            r"undefined symbol: (?P<name>\S+)",
        ],
        says: "Undefined symbol: {name}.",
        advice: "Link the object or library that defines it, after the objects that use it.",
        ..CAUSE
    },
    Rule {
        id: "linker-library",
        category: Dependency,
        patterns: &[
            r"cannot find -l(?P<name>[^\s:]+)",
            r"library not found for -l(?P<name>\S+)",
            r"unable to find library -l(?P<name>\S+)",
        ],
        says: "The linker cannot find the library {name}.",
        advice: "Install its development package, or add its directory with -L.",
        ..CAUSE
    },
    Rule {
        id: "rust-error",
        category: Compile,
        patterns: &[r"error\[(?P<code>E\d{4})\]: (?P<what>.+)"],
        after: 4,
        says: "Rust compilation failed ({code}): {what}.",
        advice: "Fix the first error; `rustc --explain {code}` has details.",
        ..CAUSE
    },
    Rule {
        id: "java-error",
        category: Compile,
        patterns: &[
            r"(?P<file>[^\s:]+\.(?:java|kt|scala|groovy)):(?P<line>\d+):(?:\d+:)? error: (?P<what>.+)",
            r"\[ERROR\] (?P<file>\S+\.(?:java|kt)):\[(?P<line>\d+),\d+\] (?P<what>.+)",
            r"^e: (?:file://)?(?P<file>\S+\.kts?):\(?(?P<line>\d+)[:,] ?\d+\)?:? (?P<what>.+)",
        ],
        after: 2,
        says: "{file} does not compile, at line {line}: {what}.",
        advice: "Fix that line; later errors often follow from the first.",
        ..CAUSE
    },
    Rule {
        id: "typescript-error",
        category: Compile,
        patterns: &[
            r"(?P<file>[^\s(:]+\.[cm]?tsx?)\((?P<line>\d+),\d+\): error (?P<code>TS\d+): (?P<what>.+)",
            r"(?P<file>[^\s(:]+\.[cm]?tsx?):(?P<line>\d+):\d+ - error (?P<code>TS\d+): (?P<what>.+)",
            r"(?P<file>)(?P<line>)\berror (?P<code>TS\d+): (?P<what>.+)",
        ],
        says: "TypeScript compilation failed ({code}): {what}.",
        advice: "Fix the types at {file} line {line}, or run `tsc --noEmit` to list all errors.",
        ..CAUSE
    },
    Rule {
        id: "go-error",
        category: Compile,
        patterns: &[r"(?:^|\s)(?P<file>[^\s:]+\.go):(?P<line>\d+):\d+: (?P<what>.+)"],
        says: "{file} does not compile, at line {line}: {what}.",
        advice: "Fix that line; `go vet ./...` lists all errors.",
        ..CAUSE
    },
    Rule {
        id: "csharp-error",
        category: Compile,
        patterns: &[
            r"(?P<file>[^\s(]+\.(?:cs|fs|vb))\((?P<line>\d+),\d+\): error (?P<code>[A-Z]{2}\d+): (?P<what>.+)",
        ],
        says: "{file} does not compile, at line {line} ({code}): {what}.",
        advice: "Fix that line; later errors often follow from the first.",
        ..CAUSE
    },
    Rule {
        id: "swift-error",
        category: Compile,
        patterns: &[r"(?P<file>[^\s:]+\.swift):(?P<line>\d+):\d+: error: (?P<what>.+)"],
        says: "{file} does not compile, at line {line}: {what}.",
        advice: "Fix that line; later errors often follow from the first.",
        ..CAUSE
    },
    Rule {
        id: "bundler-error",
        category: Compile,
        patterns: &[
            r"Module not found: (?:Error: )?(?P<what>.+)",
            r"(?:Rollup failed to resolve import|Could not resolve) (?P<what>\x22.+)",
        ],
        says: "The bundler cannot find a module: {what}.",
        advice: "Fix the import, or add the package to the dependencies.",
        ..CAUSE
    },
    Rule {
        id: "compile-report",
        category: Compile,
        patterns: &[
            r"error: could not compile `(?P<what>[^`]+)`",
            r"(?P<what>Compilation failed|COMPILATION ERROR|Compilation error)",
        ],
        says: "Compilation failed: {what}.",
        advice: "See the first error above this line.",
        ..REPORT
    },
    Rule {
        id: "build-report",
        category: Compile,
        patterns: &[
            r"make(?:\[\d+\])?: \*\*\* \[(?P<what>[^\]]+\.o)\] Error \d+",
            r"ninja: (?P<what>build stopped)",
            r"collect2: error: (?P<what>ld returned)",
        ],
        says: "A build command failed: {what}.",
        advice: "See the first error above this line.",
        ..REPORT
    },
];
