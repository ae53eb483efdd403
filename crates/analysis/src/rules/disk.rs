//! Rules for disk space and the file system.

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
        says: "The machine's limit for file watchers is reached ({what}).",
        advice: "Raise fs.inotify.max_user_watches on the machine, or disable watching.",
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
        advice: "Free up space on the machine that runs the step (old images, caches, workspaces), or add more.",
        ..CAUSE
    },
    Rule {
        id: "disk-quota",
        category: Disk,
        patterns: &[
            r"(?P<what>Disk quota exceeded|EDQUOT)",
            r"(?P<what>File size limit exceeded|File too large)",
        ],
        says: "A disk quota or file size limit was exceeded: {what}.",
        advice: "Write less, or raise the quota or limit.",
        ..CAUSE
    },
    Rule {
        id: "disk-read-only",
        category: Disk,
        patterns: &[r"(?P<what>Read-only file system|\bEROFS\b|read-only file system)"],
        says: "The file system is read-only: {what}.",
        advice: "Write to the workspace or $TMPDIR; everything else is read-only in the sandbox.",
        ..CAUSE
    },
    Rule {
        id: "disk-error",
        category: Disk,
        patterns: &[r"(?P<what>Input/output error|\bEIO\b|Structure needs cleaning|Stale file handle)"],
        says: "Disk or network storage error: {what}.",
        advice: "Check the machine's kernel log; run the step on another machine.",
        ..CAUSE
    },
    Rule {
        id: "open-files",
        category: Disk,
        patterns: &[r"(?P<what>[Tt]oo many open files(?: in system)?|\bEMFILE\b|\bENFILE\b)"],
        says: "Too many open files: {what}.",
        advice: "Close files that are no longer needed, or raise `ulimit -n` in the step.",
        ..CAUSE
    },
];
