//! Checks the definitions of a pull request that changes them, and reports the result as a commit status. What runs is
//! the definition of the default branch.

use std::sync::Arc;

use berth_core::forge::PullRequestStatus;
use berth_engine::git::CommitHash;
use berth_store::TxContext;
use berth_store::tables::pull_request;

use super::act::is_trusted;
use super::forge_reads::fetch_head;
use super::{PullRequestJob, ReconcileContext};
use crate::error::AppError;
use crate::integrations::forges::run_on_thread;
use crate::integrations::forges::{CommitState, CommitStatus, ForgeClient, inert};
use crate::jobs::sync::find_definitions;

/// The name of the status on the forge.
const CONTEXT: &str = "berth/definition";
const FOLDER: &str = ".berth/";
/// Maximum length of a status description that all forges accept.
const DESCRIPTION_CHARS_MAX: usize = 140;

/// Checks the definitions at the head, once per head. The inner error says why the forge or git failed.
pub(super) async fn check_definition_change(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
    client: Arc<ForgeClient>,
) -> Result<Result<(), String>, AppError> {
    let key = context.key;
    let read = job.services.store.read(Some(key.org), move |db| {
        let checked = pull_request::find_checked_head(db, key.repository, key.number)?;
        Ok::<_, AppError>((pull_request::by_number(db, key.repository, key.number)?, checked))
    });
    let (Some(found), checked) = read.await? else { return Ok(Ok(())) };
    let head = found.seen.head.clone();
    // Commits of forks are fetched only after approval.
    let is_due = checked.as_deref() != Some(head.as_str()) && is_trusted(&found);
    if found.seen.status != PullRequestStatus::Open || !is_due {
        return Ok(Ok(()));
    }
    let asked = client.clone();
    let changed = match run_on_thread(move || asked.changed_files(key.number)).await? {
        Ok(changed) => changed,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if changed.iter().any(|path| path.starts_with(FOLDER)) {
        let Some(commit) = CommitHash::parse(&head) else { return Ok(Ok(())) };
        if let Err(problem) = fetch_head(job, context, &found).await? {
            return Ok(Err(problem));
        }
        let mirror = job.services.git.mirror(key.org, key.repository);
        let problems = job.services.git.run(key.org, move || find_definitions(&mirror, &commit)).await?;
        let status = match problems {
            Ok(problems) => describe(&problems),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let reported = head.clone();
        if let Err(error) = run_on_thread(move || client.set_status(&reported, &status)).await? {
            return Ok(Err(error.to_string()));
        }
    }
    let stored = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
        Ok::<_, AppError>(pull_request::set_checked_head(tx, key.repository, key.number, &head)?)
    });
    stored.await.map(Ok)
}

fn describe(problems: &[String]) -> CommitStatus {
    let (state, text) = match problems {
        [] => (CommitState::Success, "The pipeline definitions are valid".to_owned()),
        [one] => (CommitState::Failure, one.clone()),
        [first, rest @ ..] => (CommitState::Failure, format!("{first} (and {} more)", rest.len())),
    };
    let description = inert(&text).chars().take(DESCRIPTION_CHARS_MAX).collect();
    CommitStatus { context: CONTEXT.to_owned(), state, description, target_url: None }
}
