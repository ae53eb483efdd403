//! Rules for memory shortage.

use crate::category::Category::Memory;
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "node-memory",
        category: Memory,
        patterns: &[
            r"(?P<what>JavaScript heap out of memory)",
            r"(?P<what>Allocation failed - process out of memory)",
        ],
        says: "Node ran out of memory ({what}).",
        advice: "Raise the limit with NODE_OPTIONS=--max-old-space-size, or find the leak.",
        ..CAUSE
    },
    Rule {
        id: "java-memory",
        category: Memory,
        patterns: &[
            r"java\.lang\.(?P<what>OutOfMemoryError.*)",
            r"(?P<what>There is insufficient memory for the Java Runtime Environment)",
            r"(?P<what>GC overhead limit exceeded)",
        ],
        says: "Java ran out of memory ({what}).",
        advice: "Raise -Xmx (or the build tool's jvmargs), or find the leak.",
        ..CAUSE
    },
    Rule {
        id: "python-memory",
        category: Memory,
        patterns: &[
            r"^(?P<what>MemoryError)(?:$|:)",
            r"(?P<what>Unable to allocate \S+ \w+ for an array)",
            r"(?P<what>numpy\S*ArrayMemoryError)",
        ],
        says: "Python ran out of memory ({what}).",
        advice: "Process less data at a time, or add memory to the step.",
        ..CAUSE
    },
    Rule {
        id: "out-of-memory",
        category: Memory,
        patterns: &[
            r"(?P<what>[Cc]annot allocate memory|\bENOMEM\b|std::bad_alloc|virtual memory exhausted.*)",
            r"(?P<what>memory allocation of \d+ bytes failed)",
            r"(?P<what>runtime: out of memory)",
            r"(?i)(?P<what>out of memory: killed process.*|oom-kill\S*|\bout of memory\b)",
            r"(?P<what>CUDA out of memory)",
        ],
        says: "Out of memory: {what}.",
        advice: "Add memory to the step or the machine, or reduce parallelism.",
        ..CAUSE
    },
    Rule {
        id: "killed-line",
        category: Memory,
        patterns: &[
            r"^(?:.*: line \d+:\s+\d+ )?(?P<what>Killed)\b(?: .*)?$",
            r"(?P<what>signal: 9, SIGKILL: kill|signal: killed|terminated by signal SIGKILL|Killed signal terminated program \w+)",
        ],
        exits: &[1, 2, 4, 101, 137, 255],
        says: "A program was killed ({what}), most likely because memory ran out.",
        advice: "Add memory to the step or the machine, or reduce parallelism.",
        ..GENERAL
    },
];
