//! Writes the one comment on a pull request.

use std::sync::Arc;

use aws_lc_rs::digest;
use berth_core::deployment::DeploymentTarget;
use berth_core::environment::{Lock, TicketState, ends_at, eta};
use berth_core::forge::{PullRequest, PullRequestClaim, PullRequestStatus};
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use berth_engine::claim_any::session_lengths;
use berth_store::tables::{
    deployment, environment, organization, pipeline, pull_request, pull_request_claim, pull_request_command,
    session,
};
use berth_store::{StoreRead, TxContext};

use super::act::is_trusted;
use super::comment_text::{
    CommentContent, EnvironmentSection, EnvironmentUse, LastCommand, render_comment, render_marker,
};
use super::failure::load_failure;
use super::operate::{list_tickets, list_wanted};
use super::{PullRequestJob, ReconcileContext};
use crate::error::AppError;
use crate::integrations::forges::ForgeClient;
use crate::integrations::forges::run_on_thread;

/// Length of the key in the marker of a comment.
const MARKER_KEY_CHARS: usize = 16;
/// Minimum number of seconds between two writes of the comment of a pull request.
const WRITE_S_MIN: i64 = 5;
/// Expected times are rounded up to this many seconds, so that the text does not change all the time.
const EXPECTED_ROUNDED_S: i64 = 15 * 60;
/// Maximum number of pipelines read per repository.
const PIPELINES_MAX: i64 = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommentWrite {
    /// Nothing has changed, or it was written.
    Done,
    /// It was written a moment ago.
    Later,
}

/// Writes the comment if its text has changed. The inner error says why the forge refused.
pub(super) async fn write_comment(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
    client: Arc<ForgeClient>,
    problem: Option<String>,
) -> Result<Result<CommentWrite, String>, AppError> {
    let (key, base) = (context.key, job.config.public_url.clone());
    let read = job.services.store.read(Some(key.org), move |db| {
        let Some(found) = pull_request::by_number(db, key.repository, key.number)? else { return Ok(None) };
        let content = load_content(db, key.org, &found, base.as_deref())?;
        Ok::<_, AppError>(content.map(|content| (found, content, db.now())))
    });
    let Some((found, content, now)) = read.await? else { return Ok(Ok(CommentWrite::Done)) };
    let marker = render_marker(&marker_key(context));
    let text = render_comment(&CommentContent { marker: marker.clone(), problem, ..content });
    let hash = hash_text(&text);
    if found.comment_hash.as_deref() == Some(hash.as_str()) {
        return Ok(Ok(CommentWrite::Done));
    }
    if found.commented_at.is_some_and(|at| now.seconds_since(at) < WRITE_S_MIN) {
        return Ok(Ok(CommentWrite::Later));
    }
    let comment = found.comment.clone();
    let write = move || {
        // If the server was stopped after it created the comment, its id was not stored.
        let comment = match comment {
            Some(comment) => Some(comment),
            None => client.find_comment(key.number, &marker)?,
        };
        client.upsert_comment(key.number, comment.as_deref(), &text)
    };
    let id = match run_on_thread(write).await? {
        Ok(id) => id,
        Err(error) => return Ok(Err(format!("the comment could not be written: {error}"))),
    };
    let stored = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
        let Some(found) = pull_request::by_number(tx, key.repository, key.number)? else { return Ok(()) };
        let (comment, comment_hash, commented_at) = (Some(id), Some(hash), Some(tx.now()));
        Ok::<_, AppError>(pull_request::put(
            tx,
            &PullRequest { comment, comment_hash, commented_at, ..found },
        )?)
    });
    stored.await.map(|()| Ok(CommentWrite::Done))
}

/// A key that only Berth knows before the comment is written: the id of the webhook is part of it.
fn marker_key(context: &ReconcileContext<'_>) -> String {
    let (connection, number) = (context.connection, context.key.number);
    let hash = hash_text(&format!("{} {} {number}", connection.hook, connection.repository));
    hash.chars().take(MARKER_KEY_CHARS).collect()
}

fn hash_text(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Loads what the comment says. `None` if there is nothing to say: the pull request uses no environment, there was no
/// command, and there is no comment yet.
fn load_content(
    db: &mut impl StoreRead,
    org: OrgId,
    found: &PullRequest,
    base: Option<&str>,
) -> Result<Option<CommentContent>, AppError> {
    let pipelines = pipeline::list_of_repository(db, found.repository, PIPELINES_MAX)?;
    let is_single = pipelines.iter().filter(|it| it.retired_at.is_none()).count() <= 1;
    let organization = organization::by_id(db, org)?;
    let links = base.zip(organization).map(|(base, org)| format!("{base}/o/{}", org.slug));
    let mut environments = Vec::new();
    for row in pull_request_claim::list_of(db, found.repository, found.number)? {
        let Some(lock) = environment::by_id(db, row.environment)? else { continue };
        let slug = pipeline::find_slug(db, row.pipeline)?.filter(|_| !is_single);
        let mut section = load_section(db, &row, &lock, links.as_deref())?;
        section.author.clone_from(&found.seen.author.name);
        section.pipeline = slug.map(|slug| slug.to_string());
        environments.push(section);
    }
    let mut unapproved_head = None;
    if found.seen.status == PullRequestStatus::Open && !is_trusted(found) {
        for pipeline in &pipelines {
            if !list_wanted(db, found, pipeline)?.is_empty() {
                unapproved_head = Some(found.seen.head.clone());
            }
        }
    }
    let last = pull_request_command::find_last_answer(db, found.repository, found.number)?;
    let last_command = last.map(|it| LastCommand { author: it.author, text: it.text, answer: it.answer });
    let is_empty = environments.is_empty() && unapproved_head.is_none() && last_command.is_none();
    if is_empty && found.comment.is_none() {
        return Ok(None);
    }
    Ok(Some(CommentContent { environments, unapproved_head, last_command, ..CommentContent::default() }))
}

fn load_section(
    db: &mut impl StoreRead,
    row: &PullRequestClaim,
    lock: &Lock,
    links: Option<&str>,
) -> Result<EnvironmentSection, AppError> {
    let mut section = EnvironmentSection {
        pipeline: None,
        environment: lock.environment.name.to_string(),
        url: links.map(|links| {
            format!("{links}/environments/{}/{}", lock.environment.pipeline, lock.environment.name)
        }),
        author: String::new(),
        state: EnvironmentUse::Held,
        log_url: None,
        holder: None,
        expires_at: None,
        failure: None,
        is_untrusted: false,
    };
    let Some(session) = row.session else {
        (section.environment, section.state) = load_queue_state(db, row, lock)?;
        return Ok(section);
    };
    if let Some(found) = row.deployment.map(|id| deployment::by_id(db, id)).transpose()?.flatten() {
        section.is_untrusted =
            matches!(&found.target, DeploymentTarget::Environment(target) if target.is_untrusted);
        section.log_url = links.map(|links| format!("{links}/deployments/{}", found.id));
        section.failure = load_failure(db, &found, section.log_url.as_deref())?;
        section.state = EnvironmentUse::Deployment {
            commit: found.commit.to_string(),
            status: found.status.as_str(),
            at: found.finished_at,
        };
    }
    match lock.session.as_ref().filter(|active| active.id == session) {
        Some(active) => {
            section.holder = Some(active.holder.name.clone());
            section.expires_at = ends_at(lock).map(|(at, _)| at);
        }
        None => {
            let ended = session::by_id(db, session)?.and_then(|it| it.end);
            let how = ended.map_or("released", |end| end.reason.as_str());
            section.state = EnvironmentUse::Ended { how, is_stopped: row.is_stopped };
            section.failure = None;
        }
    }
    Ok(section)
}

/// The position in the queue with the earliest estimated start.
fn load_queue_state(
    db: &mut impl StoreRead,
    row: &PullRequestClaim,
    lock: &Lock,
) -> Result<(String, EnvironmentUse), AppError> {
    let name = lock.environment.name.to_string();
    let now = db.now();
    for ticket in list_tickets(db, row)? {
        if ticket.status != TicketState::Waiting || Some(ticket.id) != row.ticket {
            continue;
        }
        let Some(position) = lock.position(ticket.id) else { continue };
        let lengths = session_lengths(db, lock)?;
        let estimate = eta::estimate_wait(lock, ticket.id, &lengths, now);
        let seconds = estimate.and_then(|estimate| estimate.seconds);
        let expected_at = seconds.map(|seconds| round_up(now.plus_seconds(seconds)));
        return Ok((name, EnvironmentUse::Queued { position, expected_at }));
    }
    Ok((name, EnvironmentUse::Ended { how: "left_queue", is_stopped: row.is_stopped }))
}

fn round_up(at: Timestamp) -> Timestamp {
    let step = EXPECTED_ROUNDED_S * 1_000_000;
    Timestamp::from_micros((at.as_micros() + step - 1) / step * step)
}
