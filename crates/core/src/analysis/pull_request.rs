//! The pull request of a suggested fix: one that is open for each failure of a repository, and a person merges it.

use std::fmt;
use std::str::FromStr;

use crate::decision::{Change, Decision, Record, Refusal};
use crate::event::{Actor, EventKind, NewEvent, Subject};
use crate::id::{AnalysisId, RepositoryId};
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

use super::state::Analysis;

#[derive(Debug, Clone, PartialEq)]
pub struct FixPullRequest {
    /// Whose fix it is.
    pub analysis: AnalysisId,
    pub repository: RepositoryId,
    pub fingerprint: String,
    pub state: PullRequestState,
    /// The branch that it is made from, never one that anybody tracks.
    pub branch: String,
    /// The one commit on it, once it is pushed.
    pub commit: Option<String>,
    /// Of the pull request, where the forge has them.
    pub number: Option<i64>,
    pub url: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// Whoever wanted it counts as its author.
    pub asked_by: Actor,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Rises by one with every change.
    pub version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestState {
    /// Asked for; the branch may be there already.
    Opening,
    Open,
    /// The remote is plain git: the branch is there, and nothing else can be made.
    Pushed,
    Failed,
}

impl PullRequestState {
    pub const ALL: [PullRequestState; 4] = [
        PullRequestState::Opening,
        PullRequestState::Open,
        PullRequestState::Pushed,
        PullRequestState::Failed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            PullRequestState::Opening => "opening",
            PullRequestState::Open => "open",
            PullRequestState::Pushed => "pushed",
            PullRequestState::Failed => "failed",
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

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPullRequest {
    pub branch: String,
    pub asked_by: Actor,
}

/// A pull request for the fix of an analysis. `earlier` is the one of this analysis; `open` is one of the same failure
/// that has not failed, whosever it is.
pub fn ask(
    analysis: &Analysis,
    earlier: Option<&FixPullRequest>,
    open: Option<&FixPullRequest>,
    new: NewPullRequest,
    now: Timestamp,
) -> Result<Decision<FixPullRequest>, Refusal> {
    let Some(answer) = analysis.answer().filter(|answer| answer.fix.is_some()) else {
        return Err(Refusal::InvalidState(
            "the analysis suggests no fix: there is nothing to propose".into(),
        ));
    };
    let Some(repository) = analysis.repository else {
        return Err(Refusal::InvalidState("the pipeline has no repository to propose a fix to".into()));
    };
    if let Some(open) = open {
        let text = match &open.url {
            Some(url) => format!("there is a pull request for this failure already: {url}"),
            None => format!("there is a branch for this failure already: {}", open.branch),
        };
        return Err(Refusal::AlreadyExists(text));
    }
    let asked = FixPullRequest {
        analysis: analysis.id,
        repository,
        fingerprint: answer.fingerprint.clone(),
        state: PullRequestState::Opening,
        branch: new.branch,
        commit: None,
        number: None,
        url: None,
        error: None,
        asked_by: new.asked_by,
        created_at: earlier.map_or(now, |earlier| earlier.created_at),
        updated_at: now,
        version: earlier.map_or(1, |earlier| earlier.version + 1),
    };
    let event = telling(EventKind::FixPullRequestRequested, &asked);
    Ok(written(asked, event))
}

/// The branch is pushed, and where the forge can, the pull request is open.
pub fn opened(
    asked: &FixPullRequest,
    commit: String,
    number: Option<i64>,
    url: Option<String>,
    now: Timestamp,
) -> Decision<FixPullRequest> {
    let state = if number.is_some() { PullRequestState::Open } else { PullRequestState::Pushed };
    let next = FixPullRequest {
        state,
        commit: Some(commit),
        number,
        url,
        error: None,
        updated_at: now,
        version: asked.version + 1,
        ..asked.clone()
    };
    let event = telling(EventKind::FixPullRequestOpened, &next)
        .with_some("commit", next.commit.as_ref())
        .with_some("url", next.url.as_ref());
    written(next, event)
}

/// It came to nothing; somebody may ask again.
pub fn failed(asked: &FixPullRequest, error: String, now: Timestamp) -> Decision<FixPullRequest> {
    let next = FixPullRequest {
        state: PullRequestState::Failed,
        error: Some(error),
        updated_at: now,
        version: asked.version + 1,
        ..asked.clone()
    };
    let event = telling(EventKind::FixPullRequestFailed, &next).with_some("error", next.error.as_ref());
    written(next, event)
}

fn telling(kind: EventKind, it: &FixPullRequest) -> NewEvent {
    NewEvent::new(kind, Subject::new("analysis", it.analysis, None))
        .about(Subject::new("repository", it.repository, None))
        .with("branch", it.branch.as_str())
        .with("fingerprint", it.fingerprint.as_str())
}

fn written(it: FixPullRequest, event: NewEvent) -> Decision<FixPullRequest> {
    Decision {
        changes: vec![Change::Put(Record::FixPullRequest(Box::new(it.clone())))],
        events: vec![event],
        effects: Vec::new(),
        answer: it,
    }
}
