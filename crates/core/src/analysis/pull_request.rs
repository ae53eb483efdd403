//! The pull request for a suggested fix. Each failure has at most one open pull request per repository. Once a person
//! has merged or closed it, another can be requested.

use std::fmt;
use std::str::FromStr;

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::{Actor, EventKind, EventSubject, NewEvent};
use crate::id::{AnalysisId, RepositoryId};
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

use super::state::Analysis;

#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisPullRequest {
    /// The analysis that suggested the fix.
    pub analysis: AnalysisId,
    pub repository: RepositoryId,
    pub fingerprint: String,
    pub state: PullRequestState,
    /// The branch that contains the fix. Never a branch that a pipeline tracks.
    pub branch: String,
    /// The single commit on the branch; `None` until it is pushed.
    pub commit: Option<String>,
    /// The pull request's number on the forge; `None` until it is opened, or if the forge has no pull requests.
    pub number: Option<i64>,
    pub url: Option<String>,
    /// Why the pull request could not be opened.
    pub error: Option<String>,
    /// When the pull request was merged or closed. If the forge reports no plausible time, this is when Berth noticed.
    pub ended_at: Option<Timestamp>,
    /// Who requested the pull request; counts as its author.
    pub asked_by: Actor,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Increases by one with every change.
    pub version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestState {
    /// Requested; the branch may already exist.
    Opening,
    Open,
    /// The branch was pushed to a plain git remote, which has no pull requests.
    Pushed,
    Failed,
    Merged,
    /// Closed without being merged, or its branch was deleted.
    Closed,
}

impl PullRequestState {
    pub const ALL: [PullRequestState; 6] = [
        PullRequestState::Opening,
        PullRequestState::Open,
        PullRequestState::Pushed,
        PullRequestState::Failed,
        PullRequestState::Merged,
        PullRequestState::Closed,
    ];

    /// Whether a pull request in this state prevents another one for the same failure.
    pub const fn is_live(self) -> bool {
        matches!(self, PullRequestState::Opening | PullRequestState::Open | PullRequestState::Pushed)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            PullRequestState::Opening => "opening",
            PullRequestState::Open => "open",
            PullRequestState::Pushed => "pushed",
            PullRequestState::Failed => "failed",
            PullRequestState::Merged => "merged",
            PullRequestState::Closed => "closed",
        }
    }
}

impl fmt::Display for PullRequestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PullRequestState {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        PullRequestState::ALL.into_iter().find(|it| it.as_str() == text).ok_or(UnknownWord)
    }
}

/// A request to open a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAnalysisPullRequest {
    pub branch: String,
    pub asked_by: Actor,
}

/// How a pull request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestEnd {
    Merged,
    Closed,
}

/// The branch name for the next pull request for a failure. The branch of a merged or closed pull request may still
/// exist, so its name is not used again. The name of one that failed to open is reused. `earlier` contains all pull
/// requests for this failure.
pub fn next_branch(stem: &str, earlier: &[AnalysisPullRequest]) -> String {
    let number = |it: &AnalysisPullRequest| match it.branch.strip_prefix(stem)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse::<u32>().ok(),
    };
    let next = |it: &AnalysisPullRequest| {
        let number = number(it)?;
        Some(if it.state == PullRequestState::Failed { number } else { number.saturating_add(1) })
    };
    match earlier.iter().filter_map(next).max() {
        None | Some(1) => stem.to_owned(),
        Some(number) => format!("{stem}-{number}"),
    }
}

/// Requests a pull request for the fix that an analysis suggests. `earlier` is the previous pull request for this
/// analysis, if any; `open` is an open pull request for another analysis of the same failure, in which case the request
/// is refused.
pub fn request(
    analysis: &Analysis,
    earlier: Option<&AnalysisPullRequest>,
    open: Option<&AnalysisPullRequest>,
    new: NewAnalysisPullRequest,
    now: Timestamp,
) -> Result<RuleDecision<AnalysisPullRequest>, CommandRefusal> {
    let Some(answer) = analysis.output().filter(|answer| answer.fix.is_some()) else {
        return Err(CommandRefusal::InvalidState("the analysis suggests no fix".into()));
    };
    let Some(repository) = analysis.repository else {
        return Err(CommandRefusal::InvalidState(
            "the pipeline has no repository to open a pull request in".into(),
        ));
    };
    if let Some(open) = open {
        let text = match &open.url {
            Some(url) => format!("there already is a pull request for this failure: {url}"),
            None => format!("there already is a branch for this failure: {}", open.branch),
        };
        return Err(CommandRefusal::AlreadyExists(text));
    }
    let asked = AnalysisPullRequest {
        analysis: analysis.id,
        repository,
        fingerprint: answer.fingerprint.clone(),
        state: PullRequestState::Opening,
        branch: new.branch,
        commit: None,
        number: None,
        url: None,
        error: None,
        ended_at: None,
        asked_by: new.asked_by,
        created_at: earlier.map_or(now, |earlier| earlier.created_at),
        updated_at: now,
        version: earlier.map_or(1, |earlier| earlier.version + 1),
    };
    let event = pull_request_event(EventKind::FixPullRequestRequested, &asked);
    Ok(put_pull_request(asked, event))
}

/// Records that the branch was pushed and, if the forge has pull requests, that one was opened.
pub fn mark_opened(
    asked: &AnalysisPullRequest,
    commit: String,
    number: Option<i64>,
    url: Option<String>,
    now: Timestamp,
) -> RuleDecision<AnalysisPullRequest> {
    let state = if number.is_some() { PullRequestState::Open } else { PullRequestState::Pushed };
    let next = AnalysisPullRequest {
        state,
        commit: Some(commit),
        number,
        url,
        error: None,
        updated_at: now,
        version: asked.version + 1,
        ..asked.clone()
    };
    let event = pull_request_event(EventKind::FixPullRequestOpened, &next)
        .with_some("commit", next.commit.as_ref())
        .with_some("url", next.url.as_ref());
    put_pull_request(next, event)
}

/// Records that opening the pull request failed; it may be requested again.
pub fn mark_failed(
    asked: &AnalysisPullRequest,
    error: String,
    now: Timestamp,
) -> RuleDecision<AnalysisPullRequest> {
    let next = AnalysisPullRequest {
        state: PullRequestState::Failed,
        error: Some(error),
        updated_at: now,
        version: asked.version + 1,
        ..asked.clone()
    };
    let event =
        pull_request_event(EventKind::FixPullRequestFailed, &next).with_some("error", next.error.as_ref());
    put_pull_request(next, event)
}

/// Records that a person merged or closed the pull request. Returns `None` if it is neither open nor pushed. `at` is
/// the time reported by the forge.
pub fn mark_ended(
    it: &AnalysisPullRequest,
    end: PullRequestEnd,
    at: Option<Timestamp>,
    now: Timestamp,
) -> Option<RuleDecision<AnalysisPullRequest>> {
    if !matches!(it.state, PullRequestState::Open | PullRequestState::Pushed) {
        return None;
    }
    let (state, kind) = match end {
        PullRequestEnd::Merged => (PullRequestState::Merged, EventKind::FixPullRequestMerged),
        PullRequestEnd::Closed => (PullRequestState::Closed, EventKind::FixPullRequestClosed),
    };
    // The forge's clock may differ from the server's, so a time outside the plausible range is replaced.
    let at = at.filter(|at| (it.created_at..=now).contains(at)).unwrap_or(now);
    let next = AnalysisPullRequest {
        state,
        ended_at: Some(at),
        updated_at: now,
        version: it.version + 1,
        ..it.clone()
    };
    let event =
        pull_request_event(kind, &next).with("endedAt", at.to_string()).with_some("url", next.url.as_ref());
    Some(put_pull_request(next, event))
}

fn pull_request_event(kind: EventKind, it: &AnalysisPullRequest) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("analysis", it.analysis, None))
        .with_subject(EventSubject::new("repository", it.repository, None))
        .with("branch", it.branch.as_str())
        .with("fingerprint", it.fingerprint.as_str())
}

fn put_pull_request(it: AnalysisPullRequest, event: NewEvent) -> RuleDecision<AnalysisPullRequest> {
    RuleDecision {
        changes: vec![RecordChange::Put(DomainRecord::FixPullRequest(Box::new(it.clone())))],
        events: vec![event],
        effects: Vec::new(),
        answer: it,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull_request(state: PullRequestState, branch: &str) -> AnalysisPullRequest {
        let at = Timestamp::from_micros(5);
        AnalysisPullRequest {
            analysis: AnalysisId::from_parts(at, [1; 10]),
            repository: RepositoryId::from_parts(at, [2; 10]),
            fingerprint: "f00".into(),
            state,
            branch: branch.into(),
            commit: None,
            number: None,
            url: None,
            error: None,
            ended_at: None,
            asked_by: Actor::system(),
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    #[test]
    fn next_branch_reuses_only_names_of_failed_pull_requests() {
        use PullRequestState::{Closed, Failed, Merged};
        for (earlier, next) in [
            (vec![], "fix"),
            (vec![(Failed, "fix")], "fix"),
            (vec![(Closed, "fix")], "fix-2"),
            (vec![(Closed, "fix"), (Failed, "fix-2")], "fix-2"),
            (vec![(Failed, "fix"), (Merged, "fix-9")], "fix-10"),
            (vec![(Merged, "elsewhere"), (Merged, "fix-x"), (Merged, "fixed-7")], "fix"),
        ] {
            let earlier: Vec<_> =
                earlier.into_iter().map(|(state, branch)| pull_request(state, branch)).collect();
            assert_eq!(next_branch("fix", &earlier), next);
        }
    }

    #[test]
    fn mark_ended_requires_opened_pull_request_and_plausible_time() {
        let now = Timestamp::from_micros(9);
        for state in PullRequestState::ALL {
            let is_there = matches!(state, PullRequestState::Open | PullRequestState::Pushed);
            assert_eq!(
                mark_ended(&pull_request(state, "fix"), PullRequestEnd::Merged, None, now).is_some(),
                is_there,
                "{state}"
            );
        }
        for (said, kept) in [(None, 9), (Some(7), 7), (Some(4), 9), (Some(10), 9)] {
            let it = pull_request(PullRequestState::Open, "fix");
            let done =
                mark_ended(&it, PullRequestEnd::Closed, said.map(Timestamp::from_micros), now).unwrap();
            assert_eq!((done.answer.ended_at, done.answer.version), (Some(Timestamp::from_micros(kept)), 2));
            assert_eq!(done.events.len(), 1);
        }
    }
}
