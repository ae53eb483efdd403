//! Mistakes that can be planted into the rules, to show that the tests would find them.
//!
//! Only builds with the feature `plants` can switch one on, and only for the thread that asks. A product build carries
//! none of it: there [`planted`] is `false` at compile time.

// A workspace is built with the features of all its members together: this keeps the simulation's out of a release.
#[cfg(all(feature = "plants", not(debug_assertions)))]
compile_error!("the feature `plants` is for tests: build without it, or with debug assertions");

macro_rules! plants {
    ($($(#[$about:meta])* $list:ident { $($name:ident: $doc:literal,)+ })+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Plant { $($(#[doc = $doc] $name,)+)+ }

        impl Plant {
            $($(#[$about])* pub const $list: &'static [Plant] = &[$(Plant::$name),+];)+

            pub const fn what(self) -> &'static str {
                match self { $($(Plant::$name => $doc,)+)+ }
            }
        }
    };
}

plants! {
    /// Into the rules of the lock.
    LOCKS {
        ClaimTakesHeld: "a claim succeeds although somebody holds the environment",
        CounterNotRaised: "a new session gets the fence of the one before it",
        CounterRaisedTwice: "a new session leaves a gap in the fences",
        FenceNotCompared: "a report of an ended session is stored",
        EndLeavesQueued: "deployments that had not started outlive their session",
        EndLeavesRunning: "running deployments are not told to stop when their session ends",
        DeployWhileContested: "a deployment starts while work of an ended session may still run",
        DeployWhileResetting: "a deployment starts while the environment is being reset",
        TwoAtOnce: "two deployments of a session run at the same time",
        ReleaseEndsCurrent: "a release ends the current session instead of the named one",
        ReleaseByStranger: "anybody may release",
        DeployByStranger: "anybody may deploy in a session",
        ForceLeavesFree: "a forced claim releases and lets the queue go first",
        ForceIgnoresIfMatch: "a forced claim ignores the fence it was meant for",
        ExpiryIgnoresExtension: "a session ends at the time it was first given",
        ExpiryOneLate: "a session past its end is still active",
        IdleRunsWhileDeploying: "idle time runs while a deployment runs",
        EndReasonOverwritten: "releasing an ended session changes how it ended",
        ExpiredWaiterGranted: "a waiter whose time is over is granted",
        RevokedWaiterGranted: "a waiter whose token was revoked is granted",
        QueueNotInOrder: "the last in line is granted first",
        GrantForgotten: "the end of a session leaves the environment free with somebody waiting",
        TicketForgetsCommit: "a granted ticket does not deploy its commit",
        ResetAfterGrant: "the reset takes its number after the waiter's grant",
        ResetForgotten: "a changed environment is not reset when it is released",
        DrainNeverEnds: "confirmed stops do not end the drain",
        SuccessOverCancel: "a success reported after a cancellation counts",
        NonceNotCompared: "a report from another attempt is stored",
        GraceIgnored: "a takeover with grace happens at once",
        NoEventOnExpiry: "an expiry leaves no event",
        NoEventOnGrant: "a grant to a waiter leaves no event",
        RemovalEndsSession: "removing an environment from the definition ends its session",
        ClaimWhereGone: "somebody gets into an environment that the definition no longer has",
        DeleteKeepsReset: "a deleted environment is still put back",
        CancelMakesIdle: "a cancelled deployment does not count as something its session did",
        ClockBackShortens: "a clock that was set back brings the idle end nearer",
        StoppedResetCounts: "a reset that was told to stop stands in for the one that is due",
        TwoResets: "a reset starts while another may still run",
        OverrideKeepsReset: "who does not wait for the drain leaves the reset in place",
        WarningAtOnce: "an end is announced in the moment in which it is put off",
        WarningForgotten: "an end is not announced",
        PauseIgnored: "a deployment starts although its pipeline is stopped",
        GrantedTwice: "a second runner gets the attempt of the first",
        LostLeavesDirty: "after lost work nobody is told that the content is unknown",
        EpochIgnored: "a raised epoch does not raise the fence",
        HandOverKeepsWork: "running deployments pass to whom the environment is handed over",
        SupersedeStopsNothing: "deployments that were superseded stay in line",
        FenceRestarts: "a name that comes back begins with the first fence",
        VersionNotCompared: "a decision about an outdated state is written",
    }

    /// Into the rules of a run.
    RUNS {
        GrantRepeated: "a repeated request for a step gets a second attempt",
        GrantShared: "a second runner gets the attempt of the first",
        AttemptNumberReused: "an attempt gets the number of the one before it",
        StaleReportStored: "a report of an attempt that has ended is stored",
        SuccessOverCancelled: "a success that was reported after the cancellation counts",
        LostAskRetried: "a lost step is run again although somebody should be asked",
        LossesCountTries: "failures use up what a lost step may be run again",
        FalseStartsAddUp: "starts that came to nothing count although others came between",
        WornOutWaits: "a step that was tried too often is ready and never granted",
        StartsBeforeNeeds: "a step begins before everything it needs has passed",
        GrantAfterFailure: "a step begins after another of its stage has failed",
        BackoffIgnored: "a step that failed is tried again at once",
        RetryOnceMore: "a step is tried once more than it says",
        RetryNotTold: "a step is tried again and nobody hears of it",
        RetryKeepsCounts: "a retried stage goes on counting failures",
        RetryRepeatsAll: "a retry repeats what has succeeded",
        RetryRevivesCancelled: "a retry brings back a later stage that was cancelled",
        RetryOfCancelled: "a cancelled stage can be retried",
        ResolveWhileStopping: "an unknown step succeeds while its stage is told to stop",
        TriedIsSkipped: "a step that ran without success is shown as skipped",
        FailsWhileRunning: "a stage fails while one of its steps still runs",
        WaitingNotShown: "a stage in which only a person can help is shown as running",
        StageNotInOrder: "a stage begins while the one before it waits",
        EntersUninvited: "a stage begins without being let in",
        CancelToldAgain: "cancelling twice is told twice",
        CancelForgetsRunning: "a stage is cancelled while one of its steps still runs",
        LaterNotSkipped: "stages after a failed or cancelled one wait for ever",
        SkippedForgets: "a stage that is skipped forgets what an earlier try of it has done",
        OlderSupersedes: "an older deployment takes the place of a newer one",
        EntersBesideWaiting: "a deployment enters a stage in which another waits for a person",
        SupersededComesBack: "a superseded deployment follows its run",
        ReadyAtLast: "the moment at which something is ready is that of the last step",
        StepNotWritten: "a step that changed is not written",
        EndNotWritten: "the end of an attempt is not written",
        VersionNotRaised: "a change leaves the version as it was",
    }

    /// Into the rules of custom steps, which are called until they are done.
    CALLS {
        TriggerRepeated: "a call that may have taken effect is made again by itself",
        LostPollEnds: "a poll that was lost ends its step",
        StateForgotten: "a poll is made with what an earlier answer said",
        AskedIsCalled: "a step that asks is called before anybody has agreed",
        ParkedOutlives: "a step that is cancelled between two calls keeps its attempt",
        LatePollRetried: "a poll that takes too long begins the step anew",
        TimeForgotten: "a step that runs elsewhere has all the time in the world",
        PauseForgotten: "a step is called again at once",
    }
}

#[cfg(feature = "plants")]
mod active {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        static ACTIVE: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Runs `work` with a mistake in the rules.
    pub fn with_plant<T>(plant: Plant, work: impl FnOnce() -> T) -> T {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                ACTIVE.set(None);
            }
        }
        let _restore = Restore;
        ACTIVE.set(Some(plant));
        work()
    }

    pub(crate) fn planted(plant: Plant) -> bool {
        ACTIVE.get() == Some(plant)
    }
}

#[cfg(feature = "plants")]
pub(crate) use active::planted;
#[cfg(feature = "plants")]
pub use active::with_plant;

#[cfg(not(feature = "plants"))]
pub(crate) const fn planted(_: Plant) -> bool {
    false
}
