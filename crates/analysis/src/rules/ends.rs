//! How the step ended: what the engine knows for certain, and what exit codes and signals usually mean.

use berth_core::deployment::Cause;

use crate::category::Category::{
    Command, Configuration, Crash, Decision, Git, Memory, Permission, Runner, Timeout,
};
use crate::rule::{ENGINE, EXIT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "step-timeout",
        category: Timeout,
        cause: Some(Cause::TimedOut),
        says: "The step took longer than its timeout and was ended.",
        advice: "The last line shows what it was busy with. Raise `timeout` if that is meant to take so long.",
        ..ENGINE
    },
    Rule {
        id: "runner-lost",
        category: Runner,
        cause: Some(Cause::Lost),
        says: "The machine that ran the step went away; nobody knows how far it came.",
        advice: "Look at the runner. Say what became of the step, or run it again if it may run twice.",
        ..ENGINE
    },
    Rule {
        id: "commit-missing",
        category: Git,
        cause: Some(Cause::CommitNotFound),
        says: "The commit is no longer in the repository.",
        advice: "Deploy a commit that the repository has; a forced push may have removed this one.",
        ..ENGINE
    },
    Rule {
        id: "commit-ambiguous",
        category: Git,
        cause: Some(Cause::CommitAmbiguous),
        says: "Several commits of the repository begin like the one that was asked for.",
        advice: "Deploy it again with more characters of its hash.",
        ..ENGINE
    },
    Rule {
        id: "not-runnable",
        category: Configuration,
        cause: Some(Cause::NotRunnable),
        says: "The definition asks for something that this version cannot do.",
        advice: "Read the failure's detail, and change the definition.",
        ..ENGINE
    },
    Rule {
        id: "approval-rejected",
        category: Decision,
        cause: Some(Cause::ApprovalRejected),
        says: "Somebody who was asked said no.",
        advice: "Ask why; a new deployment asks again.",
        ..ENGINE
    },
    Rule {
        id: "approval-expired",
        category: Decision,
        cause: Some(Cause::ApprovalExpired),
        says: "Nobody who was asked answered in time.",
        advice: "Retry the stage and tell those who may approve.",
        ..ENGINE
    },
    Rule {
        id: "soak-rejected",
        category: Decision,
        cause: Some(Cause::SoakRejected),
        says: "Somebody ended the soak with a no.",
        advice: "Ask why; a new deployment soaks again.",
        ..ENGINE
    },
    Rule {
        id: "exit-124",
        category: Timeout,
        exits: &[124],
        says: "The step exited with 124, as `timeout` does when a command took too long.",
        advice: "The last line shows what it was busy with.",
        ..EXIT
    },
    Rule {
        id: "exit-126",
        category: Permission,
        exits: &[126],
        says: "The step exited with 126: what it called may not be executed.",
        advice: "Look at the executable bit and the first line of the script it calls.",
        ..EXIT
    },
    Rule {
        id: "exit-127",
        category: Command,
        exits: &[127],
        says: "The step exited with 127: a command was not found.",
        advice: "Install it on the machine that runs the step, or look at PATH.",
        ..EXIT
    },
    Rule {
        id: "signal-kill",
        category: Memory,
        exits: &[137],
        says: "A program was ended by signal 9 (KILL), most likely because memory ran out.",
        advice: "Give the step or the machine more memory, or do less at once.",
        ..EXIT
    },
    Rule {
        id: "signal-crash",
        category: Crash,
        exits: &[132, 133, 134, 135, 136, 139, 159],
        says: "A program crashed: the step ended by a signal that programs get for their own errors.",
        advice: "Run it under a debugger; look whether it was built for this machine.",
        ..EXIT
    },
    Rule {
        id: "signal-stop",
        category: Runner,
        exits: &[129, 130, 143],
        says: "Somebody outside of the step told it to stop (signal HUP, INT or TERM).",
        advice: "Look whether the machine was shut down, or another program of the step ends it.",
        ..EXIT
    },
    Rule {
        id: "signal-pipe",
        category: Command,
        exits: &[141],
        says: "A command wrote to one that had ended already (signal PIPE).",
        advice: "Let the reader read to the end, or leave out `pipefail` for that line.",
        ..EXIT
    },
    Rule {
        id: "signal-limit",
        category: Timeout,
        exits: &[142, 152],
        says: "A program used up a limit of time (signal ALRM or XCPU).",
        advice: "Raise the limit that the script sets, or find what takes so long.",
        ..EXIT
    },
];
