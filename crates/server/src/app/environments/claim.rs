//! Claiming: plainly, by force, or any of several.

use berth_api::problem::{Code, Problem};
use berth_api::session::Claimed as Wire;
use berth_core::access::permit;
use berth_core::decision::Refusal;
use berth_core::environment::claim::{self, Claim, Claimed, Opened};
use berth_core::environment::fence::Fence;
use berth_core::environment::force::{self, Force, Mode};
use berth_core::environment::{Lock, Wish};
use berth_core::id::OrgId;
use berth_core::name::Reason;
use berth_core::time::Timestamp;
use berth_store::idempotency::OnceKey;
use berth_store::records::{environment, pipeline};

use super::view::tagged;
use super::{Place, holder, location, shown};
use crate::access::Authorized;
use crate::app::{Answer, App, Outcome, Ruled, deployments};
use crate::error::AppError;

/// What a claim asks for.
#[derive(Debug, Clone)]
pub struct ClaimAsked {
    pub wish: Wish,
    pub wait_seconds: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct ForceAsked {
    pub wish: Wish,
    pub why: Option<Reason>,
    pub mode: Mode,
    pub expected: Option<Fence>,
}

impl App {
    pub async fn claim_session(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        place: Place,
        asked: ClaimAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let (org, cmd) = (who.org(), command(who, asked));
        let doubt = self.ambiguity(org, &place.pipeline, cmd.wish.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let lock = declared(place.find_any(tx)?)?;
            doubt.map_or(Ok(()), Err)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| claim::claim(lock, &cmd, moment))?;
            Ok(ruled(claimed, org, &after, tx.now()))
        })
        .await
    }

    pub async fn force_claim(
        &self,
        who: &Authorized<permit::EnvironmentsForceClaim>,
        place: Place,
        asked: ForceAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let org = who.org();
        let cmd = Force {
            by: holder(who.principal()),
            token: who.principal().token(),
            wish: asked.wish,
            why: asked.why,
            mode: asked.mode,
            expected: asked.expected,
        };
        let doubt = self.ambiguity(org, &place.pipeline, cmd.wish.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let lock = declared(place.find_any(tx)?)?;
            doubt.map_or(Ok(()), Err)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| force::force(lock, &cmd, moment))?;
            Ok(ruled(claimed, org, &after, tx.now()))
        })
        .await
    }

    /// The first free one with the label, by name; else, if the caller would wait, the shortest line.
    pub async fn claim_any(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        key: String,
        label: String,
        asked: ClaimAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let (org, cmd) = (who.org(), command(who, asked));
        let doubt = self.ambiguity(org, &key, cmd.wish.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let found = pipeline::find(tx, &key)?.ok_or_else(|| AppError::not_found("pipeline"))?;
            doubt.map_or(Ok(()), Err)?;
            let mut locks = environment::of_pipeline(tx, found.id)?;
            locks.retain(|lock| {
                let labels = &lock.environment.configuration.labels;
                lock.environment.is_declared && labels.iter().any(|it| it.as_str() == label)
            });
            if locks.is_empty() {
                let text = "is the label of no environment of this pipeline";
                return Ok(Ruled::No(AppError::invalid_member("/label", text)));
            }
            locks.sort_by_key(|lock| lock.tickets.len());
            let eager = Claim { wait_seconds: None, ..cmd.clone() };
            for lock in &locks {
                let (after, claimed) =
                    change.decide(tx, lock, |lock, moment| claim::claim(lock, &eager, moment))?;
                if let Ok(claimed) = claimed {
                    return Ok(Ruled::Yes(answered(claimed, org, &after, tx.now())));
                }
            }
            if cmd.wait_seconds.is_none() {
                return Ok(Ruled::No(all_held(&locks, &label)));
            }
            // What time had made due is written by now: look again.
            let shortest = environment::by_id(tx, locks[0].environment.id)?;
            let lock = shortest.ok_or_else(|| AppError::bug("an environment went away"))?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| claim::claim(lock, &cmd, moment))?;
            Ok(ruled(claimed, org, &after, tx.now()))
        })
        .await
    }
}

fn command(who: &Authorized<permit::EnvironmentsClaim>, asked: ClaimAsked) -> Claim {
    let (by, token) = (holder(who.principal()), who.principal().token());
    Claim { by, token, wish: asked.wish, wait_seconds: asked.wait_seconds }
}

/// Nobody new gets into an environment that left the definition.
fn declared(lock: Lock) -> Result<Lock, AppError> {
    if lock.environment.is_declared { Ok(lock) } else { Err(AppError::not_found("environment")) }
}

fn ruled(claimed: Result<Claimed, Refusal>, org: OrgId, after: &Lock, now: Timestamp) -> Ruled<Wire> {
    match claimed {
        Ok(claimed) => Ruled::Yes(answered(claimed, org, after, now)),
        Err(refusal) => Ruled::No(shown::refused(refusal, org, after, now)),
    }
}

fn answered(claimed: Claimed, org: OrgId, after: &Lock, now: Timestamp) -> Answer<Wire> {
    let base = location(org, after);
    let answer = match claimed {
        Claimed::Session(Opened { session, deployment }) => {
            let deployments = deployments::of_lock(after, session.id);
            let mut body = shown::session(&session, org, after, deployments);
            body.deployment_id = deployment.map(|id| id.to_string());
            Answer::created(format!("{base}/sessions/{}", session.id), Wire::Session(Box::new(body)))
        }
        Claimed::Ticket(ticket) => {
            let body = shown::ticket(&ticket, after, now);
            Answer::accepted(format!("{base}/queue/{}", ticket.id), Wire::Ticket(Box::new(body)))
        }
    };
    tagged(answer, after)
}

fn all_held(locks: &[Lock], label: &str) -> AppError {
    let held = locks.iter().filter_map(|lock| {
        let session = lock.session.as_ref()?;
        Some(serde_json::json!({
            "envName": lock.environment.name.as_str(),
            "holder": shown::holder(&session.holder),
            "since": session.claimed_at.to_string(),
            "queueLength": lock.tickets.len(),
        }))
    });
    let text = format!("all {} environments with the label \"{label}\" are held", locks.len());
    Problem::new(Code::EnvironmentLocked, text).with("environments", held.collect::<Vec<_>>()).into()
}
