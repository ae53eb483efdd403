//! Rules for permissions on the machine that runs the step.

use crate::category::Category::Permission;
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "not-executable",
        category: Permission,
        patterns: &[
            r"(?:^|: )(?P<file>\.{0,2}/[^:]+): Permission denied$",
            r"(?:^|[\s:])(?P<file>[\w@+~.-]*/[\w./@+~-]+): Permission denied$",
            r"(?:^|[\s:])(?P<file>[\w@+~.-]+\.(?:sh|bash|py|pl|rb|js)): Permission denied$",
        ],
        exits: &[126],
        says: "{file} is not executable: it has lost its executable bit.",
        advice: "Run `git update-index --chmod=+x` on it and commit, or run it with its interpreter (`sh FILE`).",
        ..CAUSE
    },
    Rule {
        id: "sudo",
        category: Permission,
        patterns: &[
            r"sudo: (?P<what>a (?:terminal|password) is required.*|no tty present.*|.*must be (?:owned by uid 0|setuid root).*)",
            r"(?P<what>\S+ is not in the sudoers file)",
            r"(?P<what>[Tt]he \x22no new privileges\x22 flag is set.*)",
            r"(?P<what>(?:must be|are you|requires?|need to be) (?:run as )?root\b.*)",
        ],
        says: "The step requires root privileges: {what}.",
        advice: "Do this when the machine or image is set up: steps cannot become root.",
        ..CAUSE
    },
    Rule {
        id: "permission-denied",
        category: Permission,
        patterns: &[
            r"(?:cannot \w+(?: \w+)*|can't \w+|unable to \w+|could not \w+) [‘'\x22](?P<what>[^’'\x22]+)[’'\x22].*: Permission denied",
            r"EACCES: permission denied, \w+ (?P<what>'.+')",
            r"PermissionError: .*?(?P<what>(?:Permission denied|Operation not permitted).*)",
            r"(?P<what>[^\s:]+): [Pp]ermission denied\b",
            r"(?P<what>[Pp]ermission denied\b.*|\bEACCES\b|\bEPERM\b.*|Operation not permitted.*|AccessDeniedException: .+|Access is denied)",
        ],
        says: "Permission denied: {what}.",
        advice: "Check owner and mode; write to the workspace or $TMPDIR, which belong to the step.",
        ..GENERAL
    },
];
