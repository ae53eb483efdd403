//! Creates one fix pull request: validates the diff again, commits, pushes, and opens the pull request.

use berth_analysis::diff::{self, DiffPermit};
use berth_core::analysis::{Analysis, AnalysisPullRequest, PullRequestState, SuggestedFix, pull};
use berth_core::decision::RuleDecision;
use berth_core::event::Actor;
use berth_core::id::{AnalysisId, OrgId};
use berth_core::name::Slug;
use berth_core::repository::{GitTransport, Repository};
use berth_engine::git::{
    CommitFiles, CommitHash, FileChange, GitCredential, GitError, GitMirror, GitRemote, NewCommit, NewFile,
    PushResult, RepositoryAccess,
};
use berth_store::tables::{
    analysis, analysis_settings, deployment, fix_pull_request, pipeline, repository, user,
};
use berth_store::{StoreRead, TxContext};

use super::FixPullRequestJob;
use crate::error::AppError;
use crate::integrations::forges::{
    self, BranchPair, ForgeClient, ForgeError, PullRequest, PullRequestContext, PullRequestDraft,
};
use crate::jobs::pull_requests::update_comment_of_deployment;
use crate::limits::PIPELINES_PER_REPOSITORY_MAX;

/// All data that is loaded before the first request to an external system.
struct FixContext {
    asked: AnalysisPullRequest,
    analysis: Analysis,
    fix: SuggestedFix,
    commit: CommitHash,
    repository: Repository,
    pipeline: Slug,
    /// The branch that the pull request targets.
    base: String,
    /// Branches that must never be written to.
    kept: Vec<String>,
    author_email: String,
    permit: DiffPermit,
}

/// Why no pull request was created. Shown to users.
struct FixFailure(String);

/// Creates the pull request. Returns `false` if the server is stopping, in which case the next start continues.
pub(super) async fn create_pull_request(
    fixes: &FixPullRequestJob,
    org: OrgId,
    id: AnalysisId,
) -> Result<bool, AppError> {
    let known = fixes.services.store.read(Some(org), move |db| load_request(db, id)).await?;
    let (asked, made) = match known {
        None => return Ok(true),
        Some((asked, Err(unmade))) => (asked, Err(unmade)),
        Some((asked, Ok(fix))) => match propose(fixes, org, &fix).await {
            Ok(FixResult::Stopping) => return Ok(false),
            Ok(FixResult::Yes(pushed, opened)) => (asked, Ok((pushed, opened))),
            Ok(FixResult::No(unmade)) => (asked, Err(unmade)),
            // Do not retry automatically, because a retry would block the pull requests behind this one.
            Err(error) => {
                tracing::error!(?error, analysis = %id, "cannot open fix pull request");
                (asked, Err(FixFailure("it could not be created; the server log says why".to_owned())))
            }
        },
    };
    let ended = fixes.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        // Record the outcome only if the request has not changed since it was loaded.
        let current = fix_pull_request::find_of_analysis(tx, id)?;
        if current.as_ref().is_some_and(|current| current.version == asked.version) {
            let decision: RuleDecision<AnalysisPullRequest> = match made {
                Ok((pushed, opened)) => {
                    let (number, url) = opened.map_or((None, None), |it| (Some(it.number), Some(it.url)));
                    pull::mark_opened(&asked, pushed.commit.to_string(), number, url, now)
                }
                Err(FixFailure(why)) => pull::mark_failed(&asked, why, now),
            };
            tx.commit(decision)?;
            if let Some(of) = analysis::by_id(tx, id)? {
                update_comment_of_deployment(tx, of.deployment)?;
            }
        }
        Ok::<_, AppError>(())
    });
    ended.await?;
    fixes.services.pull_requests_wanted.notify_one();
    Ok(true)
}

type LoadedFix = Option<(AnalysisPullRequest, Result<FixContext, FixFailure>)>;

fn load_request(db: &mut impl StoreRead, id: AnalysisId) -> Result<LoadedFix, AppError> {
    let Some(asked) = fix_pull_request::find_of_analysis(db, id)? else { return Ok(None) };
    if asked.state != PullRequestState::Opening {
        return Ok(None);
    }
    let fix = load_fix(db, &asked)?;
    Ok(Some((asked, fix)))
}

fn load_fix(
    db: &mut impl StoreRead,
    asked: &AnalysisPullRequest,
) -> Result<Result<FixContext, FixFailure>, AppError> {
    let unmade = |why: &str| Ok(Err(FixFailure(why.to_owned())));
    let Some(found) = analysis::by_id(db, asked.analysis)? else { return unmade("the analysis was deleted") };
    let Some(repository) = repository::by_id(db, asked.repository)? else {
        return unmade("the repository was deleted");
    };
    if deployment::by_id(db, found.deployment)?.is_some_and(|it| it.target.is_untrusted()) {
        return unmade("the commit comes from a fork; its author can push the fix there");
    }
    let fix = found.output().and_then(|answer| answer.fix.clone());
    let commit = found.commit.as_deref().and_then(CommitHash::parse);
    let (Some(fix), Some(commit)) = (fix, commit) else {
        return unmade("the analysis has no fix for a commit of the repository");
    };
    let Some(of) = pipeline::by_id(db, found.pipeline)? else { return unmade("the pipeline was deleted") };
    let Some(base) = super::find_base(db, &found, &of, &repository)? else {
        return unmade("the repository has no default branch");
    };
    let limit = i64::try_from(PIPELINES_PER_REPOSITORY_MAX).unwrap_or(i64::MAX);
    let others = pipeline::list_of_repository(db, repository.id, limit)?;
    let tracked = others.into_iter().filter_map(|it| it.outline.tracks);
    let kept = tracked.chain([base.clone()]).chain(repository.seen.default_branch.clone()).collect();
    let author_email = author_email(db, &asked.asked_by)?;
    let permit = DiffPermit { definitions: analysis_settings::load(db)?.permits_definition };
    let pipeline = of.slug;
    let asked = asked.clone();
    Ok(Ok(FixContext {
        asked,
        analysis: found,
        fix,
        commit,
        repository,
        pipeline,
        base,
        kept,
        author_email,
        permit,
    }))
}

/// Returns the requester's email address. The requester is the commit's author, so that rules that exclude authors from
/// approving apply.
fn author_email(db: &mut impl StoreRead, actor: &Actor) -> Result<String, AppError> {
    let found = actor.id.map(|id| user::by_id(db, id)).transpose()?.flatten();
    Ok(found.map_or_else(|| "nobody@noreply.invalid".to_owned(), |user| user.email.to_string()))
}

enum FixResult {
    Yes(PushResult, Option<PullRequest>),
    No(FixFailure),
    Stopping,
}

async fn propose(fixes: &FixPullRequestJob, org: OrgId, fix: &FixContext) -> Result<FixResult, AppError> {
    let no = |why: String| Ok(FixResult::No(FixFailure(why)));
    let credential = match fixes.services.repository_credential(org, &fix.repository).await? {
        Ok(credential) => credential,
        Err(why) => return no(why),
    };
    if credential.is_none() && fix.repository.url.transport() != GitTransport::Local {
        return no("the repository has no credential; set one with push access".to_owned());
    }
    let texts = build_texts(fixes, org, fix).await?;
    let (vault, all) = (fixes.services.vault.clone(), texts.joined_text(&fix.fix.diff));
    let found = fixes
        .services
        .store
        .read(Some(org), move |db| Ok::<_, AppError>(vault.contains_secret(db, org, &all)?));
    if found.await? {
        return no("the fix contains the value of a secret; nothing was pushed".to_owned());
    }
    let pushed = match push(fixes, org, fix, credential.clone(), texts.message.clone()).await? {
        Ok(pushed) => pushed,
        Err(GitError::Stopping) => return Ok(FixResult::Stopping),
        Err(error) => return no(error.to_string()),
    };
    let client =
        forges::client_with(&fixes.services, &fixes.config.forges, &fix.repository, credential.as_ref());
    let Some(client) = client else {
        return Ok(FixResult::Yes(pushed, None));
    };
    match open(client, fix, texts).await? {
        Ok(opened) => Ok(FixResult::Yes(pushed, Some(opened))),
        Err(error) => no(format!("the branch {} was pushed, but {error}", fix.asked.branch)),
    }
}

/// The title, body and commit message of a pull request.
struct PullRequestTexts {
    title: String,
    body: String,
    message: String,
}

impl PullRequestTexts {
    /// Returns all text that will leave the server, to check it for secrets.
    fn joined_text(&self, diff: &str) -> String {
        [diff, &self.title, &self.body, &self.message].join("\n")
    }
}

async fn build_texts(
    fixes: &FixPullRequestJob,
    org: OrgId,
    fix: &FixContext,
) -> Result<PullRequestTexts, AppError> {
    let evidence = super::evidence::load_quoted_lines(fixes, org, &fix.analysis).await?;
    let (deployment, id) = (fix.analysis.deployment.to_string(), fix.analysis.id.to_string());
    let link = |rest: String| {
        let base = fixes.config.public_url.as_deref()?;
        Some(format!("{base}/api/v1/organizations/{org}/{rest}"))
    };
    let deployment_url = link(format!("deployments/{deployment}"));
    let analysis_url = link(format!("analyses/{id}"));
    let answer = fix.analysis.output();
    let root_cause = answer.and_then(|answer| answer.result.get("rootCause")?.as_str());
    let about = PullRequestContext {
        summary: &fix.fix.summary,
        root_cause: root_cause.unwrap_or("The analysis found no root cause."),
        analyser: answer.map_or("rules", |answer| answer.analyser.as_str()),
        evidence: &evidence,
        pipeline: fix.pipeline.as_str(),
        step: fix.analysis.step_name.as_str(),
        stage: &fix.analysis.stage,
        deployment: &deployment,
        analysis: &id,
        deployment_url: deployment_url.as_deref(),
        analysis_url: analysis_url.as_deref(),
        asked_by: &fix.asked.asked_by.name,
    };
    Ok(PullRequestTexts {
        title: forges::render_title(&about),
        body: forges::render_body(&about),
        message: forges::render_commit_message(&about),
    })
}

async fn push(
    fixes: &FixPullRequestJob,
    org: OrgId,
    fix: &FixContext,
    credential: Option<GitCredential>,
    message: String,
) -> Result<Result<PushResult, GitError>, AppError> {
    let mirror = fixes.services.git.mirror(org, fix.repository.id);
    let job = PushJob {
        access: fixes.config.git_access(),
        url: fix.repository.url.clone(),
        credential,
        commit: fix.commit.clone(),
        diff: fix.fix.diff.clone(),
        permit: fix.permit,
        message,
        author_email: fix.author_email.clone(),
        at: fix.analysis.created_at,
        branch: fix.asked.branch.clone(),
        kept: fix.kept.clone(),
    };
    Ok(fixes.services.git.run(org, move || job.run(&mirror)).await?)
}

/// The git operations, which run on a blocking thread.
struct PushJob {
    access: RepositoryAccess,
    url: berth_core::repository::RemoteUrl,
    credential: Option<GitCredential>,
    commit: CommitHash,
    diff: String,
    permit: DiffPermit,
    message: String,
    author_email: String,
    at: berth_core::time::Timestamp,
    branch: String,
    kept: Vec<String>,
}

impl PushJob {
    fn run(&self, mirror: &GitMirror) -> Result<PushResult, GitError> {
        let to = GitRemote { url: &self.url, credential: self.credential.as_ref(), access: &self.access };
        mirror.fetch_missing(&to, &self.commit, None)?;
        let changes = self.changes(mirror)?;
        let made = mirror.commit(NewCommit {
            parent: &self.commit,
            changes: &changes,
            message: &self.message,
            author_email: &self.author_email,
            at: self.at,
        })?;
        let kept: Vec<&str> = self.kept.iter().map(String::as_str).collect();
        mirror.push_new(&to, &made, &self.branch, &kept)
    }

    /// Converts the diff to file changes. The diff is validated again, because the allowed files may have changed since
    /// the analysis.
    fn changes(&self, mirror: &GitMirror) -> Result<Vec<FileChange>, GitError> {
        let files = CommitFiles::new(mirror, &self.commit);
        let applied = diff::apply(&self.diff, &files, self.permit);
        files.finish()?;
        let changed = applied.map_err(|refused| GitError::Refused(refused.to_string()))?;
        let new =
            |file: diff::FileContent| NewFile { content: file.content, is_executable: file.is_executable };
        Ok(changed.into_iter().map(|it| FileChange { path: it.path, after: it.after.map(new) }).collect())
    }
}

async fn open(
    client: ForgeClient,
    fix: &FixContext,
    texts: PullRequestTexts,
) -> Result<Result<PullRequest, ForgeError>, AppError> {
    let (head, base) = (fix.asked.branch.clone(), fix.base.clone());
    forges::run_on_thread(move || {
        let branches = BranchPair { head: &head, base: &base };
        let new = PullRequestDraft { branches, title: &texts.title, body: &texts.body };
        match client.find(branches) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => client.open(new),
            Err(error) => Err(error),
        }
    })
    .await
}
