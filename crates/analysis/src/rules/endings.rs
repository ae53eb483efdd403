//! Rules about how a step ended: causes that the engine recorded, and the usual meaning of exit codes and signals.

use berth_core::deployment::FailureCode;

use crate::category::Category::{
    Command, Configuration, Crash, Decision, Git, Memory, Permission, Runner, Timeout,
};
use crate::rule::{ENGINE, EXIT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "step-timeout",
        category: Timeout,
        cause: Some(FailureCode::TimedOut),
        says: "The step exceeded its timeout and was stopped.",
        advice: "The last line shows what it was doing. Raise `timeout` if that is expected to take longer.",
        ..ENGINE
    },
    Rule {
        id: "runner-lost",
        category: Runner,
        cause: Some(FailureCode::Lost),
        says: "The connection to the runner was lost; the outcome of the step is unknown.",
        advice: "Check the runner. Then set the step's outcome, or run it again if that is safe.",
        ..ENGINE
    },
    Rule {
        id: "commit-missing",
        category: Git,
        cause: Some(FailureCode::CommitNotFound),
        says: "The commit is no longer in the repository.",
        advice: "Deploy a commit that exists; a force push may have removed this one.",
        ..ENGINE
    },
    Rule {
        id: "commit-ambiguous",
        category: Git,
        cause: Some(FailureCode::CommitAmbiguous),
        says: "The commit hash is ambiguous: several commits start with it.",
        advice: "Deploy again with more characters of the hash.",
        ..ENGINE
    },
    Rule {
        id: "not-runnable",
        category: Configuration,
        cause: Some(FailureCode::NotRunnable),
        says: "The definition uses a feature that this version does not support.",
        advice: "See the details of the failure and change the definition.",
        ..ENGINE
    },
    Rule {
        id: "approval-rejected",
        category: Decision,
        cause: Some(FailureCode::ApprovalRejected),
        says: "An approver rejected the deployment.",
        advice: "Ask the approver why. A new deployment asks for approval again.",
        ..ENGINE
    },
    Rule {
        id: "approval-expired",
        category: Decision,
        cause: Some(FailureCode::ApprovalExpired),
        says: "The approval was not granted in time.",
        advice: "Notify the approvers and retry the stage.",
        ..ENGINE
    },
    Rule {
        id: "soak-rejected",
        category: Decision,
        cause: Some(FailureCode::SoakRejected),
        says: "The soak was rejected.",
        advice: "Ask why. A new deployment soaks again.",
        ..ENGINE
    },
    Rule {
        id: "exit-124",
        category: Timeout,
        exits: &[124],
        says: "The step exited with 124, the exit code of `timeout` for a command that took too long.",
        advice: "The last line shows what it was doing.",
        ..EXIT
    },
    Rule {
        id: "exit-126",
        category: Permission,
        exits: &[126],
        says: "The step exited with 126: a command cannot be executed.",
        advice: "Check the executable bit and the #! line of the script it runs.",
        ..EXIT
    },
    Rule {
        id: "exit-127",
        category: Command,
        exits: &[127],
        says: "The step exited with 127: a command was not found.",
        advice: "Install it on the machine that runs the step, or check PATH.",
        ..EXIT
    },
    Rule {
        id: "signal-kill",
        category: Memory,
        exits: &[137],
        says: "A program was killed by signal 9 (KILL), most likely because memory ran out.",
        advice: "Add memory to the step or the machine, or reduce parallelism.",
        ..EXIT
    },
    Rule {
        id: "signal-crash",
        category: Crash,
        exits: &[132, 133, 134, 135, 136, 139, 159],
        says: "A program crashed: the step was killed by a signal that indicates a bug.",
        advice: "Run it under a debugger, and check that it was built for this machine.",
        ..EXIT
    },
    Rule {
        id: "signal-stop",
        category: Runner,
        exits: &[129, 130, 143],
        says: "The step was stopped from outside (signal HUP, INT or TERM).",
        advice: "Check whether the machine was shut down, or whether another program of the step sent the signal.",
        ..EXIT
    },
    Rule {
        id: "signal-pipe",
        category: Command,
        exits: &[141],
        says: "A command wrote to a pipe whose reader had exited (signal PIPE).",
        advice: "Let the reader consume all input, or drop `pipefail` for that line.",
        ..EXIT
    },
    Rule {
        id: "signal-limit",
        category: Timeout,
        exits: &[142, 152],
        says: "A program exceeded a time limit (signal ALRM or XCPU).",
        advice: "Raise the limit that the script sets, or find out what takes so long.",
        ..EXIT
    },
];
