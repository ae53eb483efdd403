//! Space and files of the machine.

use crate::category::Category::Disk;
use crate::rule::{CAUSE, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "file-watchers",
        category: Disk,
        patterns: &[
            r"(?P<what>System limit for number of file watchers reached)",
            r"(?P<what>inotify_add_watch.*No space left on device|inotify watch limit reached)",
        ],
        says: "The machine has no file watchers left ({what}).",
        advice: "Raise fs.inotify.max_user_watches there, or switch watching off.",
        ..CAUSE
    },
    Rule {
        id: "disk-full",
        category: Disk,
        patterns: &[
            r"(?i)(?P<what>no space left on device|\bENOSPC\b|not enough (?:free )?(?:disk )?space|\bdisk (?:is )?full\b|There is not enough space on the disk)",
            r"(?P<what>You don't have enough free space)",
        ],
        says: "The disk is full: {what}.",
        advice: "Free space on the machine that runs the step (old images, caches, workspaces), or give it more.",
        ..CAUSE
    },
    Rule {
        id: "disk-quota",
        category: Disk,
        patterns: &[
            r"(?P<what>Disk quota exceeded|EDQUOT)",
            r"(?P<what>File size limit exceeded|File too large)",
        ],
        says: "The step may not write more: {what}.",
        advice: "Write less, or raise the quota or the limit of the file's size.",
        ..CAUSE
    },
    Rule {
        id: "disk-read-only",
        category: Disk,
        patterns: &[r"(?P<what>Read-only file system|\bEROFS\b|read-only file system)"],
        says: "The step writes to a place that is read-only: {what}.",
        advice: "Write into the workspace or $TMPDIR: with the sandbox nothing else can be written.",
        ..CAUSE
    },
    Rule {
        id: "disk-error",
        category: Disk,
        patterns: &[r"(?P<what>Input/output error|\bEIO\b|Structure needs cleaning|Stale file handle)"],
        says: "The disk or its network fails: {what}.",
        advice: "Look at the machine's kernel log; run the step on another one.",
        ..CAUSE
    },
    Rule {
        id: "open-files",
        category: Disk,
        patterns: &[r"(?P<what>[Tt]oo many open files(?: in system)?|\bEMFILE\b|\bENFILE\b)"],
        says: "The program has too many files open: {what}.",
        advice: "Close what is not needed, or raise `ulimit -n` in the step.",
        ..CAUSE
    },
];
