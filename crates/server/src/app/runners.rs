//! Runners: list, view, create, delete. The engine assigns work to them.

use std::sync::Arc;

use berth_api::problem::Code;
use berth_api::runner::Isolation;
use berth_api::runners as wire;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::id::RunnerId;
use berth_core::name::Slug;
use berth_core::runner::{EMBEDDED, Runner, RunnerStatus, TOKEN_S, RunnerTimeouts, parse_runner_key};
use berth_core::time::Timestamp;
use berth_engine::events::runner_event;
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::pagination::From;
use berth_store::tables::runner::{self, Running};

use super::runner_calls::parse_labels;
use super::{Answer, App, Outcome, Page};
use crate::auth::authorize::Authorized;
use crate::auth::tokens::{TokenKind, hash, make};
use crate::error::AppError;
use crate::limits::{RUNNERS_PER_ORGANIZATION_MAX, RUNNING_LISTED_MAX};

/// The record of a runner is immutable. Whatever else changes in the response comes from its heartbeats.
const RUNNER_VERSION: i64 = 1;

impl App {
    /// The embedded runner first, if there is one, then the remote ones, oldest first.
    pub async fn list_runners(
        &self,
        who: &Authorized<permit::RunnersRead>,
        from: From,
        limit: i64,
    ) -> Result<Page<wire::Runner>, AppError> {
        let shows = self.shows();
        let all = self.read(who, move |db| {
            let (now, all) = (db.now(), runner::all(db, RUNNERS_PER_ORGANIZATION_MAX)?);
            let running = runner::running(db, RUNNING_LISTED_MAX)?;
            let far = all.iter().map(|it| shows.one(it, &running, now));
            Ok(shows.embedded(&running).into_iter().chain(far).collect::<Vec<_>>())
        });
        Ok(Page::of_all(all.await?, &from, limit, |runner| runner.id.clone()))
    }

    pub async fn view_runner(
        &self,
        who: &Authorized<permit::RunnersRead>,
        key: String,
    ) -> Result<Answer<wire::Runner>, AppError> {
        let shows = self.shows();
        self.read(who, move |db| {
            let (now, running) = (db.now(), runner::running(db, RUNNING_LISTED_MAX)?);
            let shown = match key.as_str() {
                EMBEDDED => shows.embedded(&running).ok_or_else(|| AppError::not_found("runner"))?,
                _ => shows.one(&find(db, &key)?, &running, now),
            };
            let variant = format!(
                "{:?}-{}-{}",
                shown.state,
                shown.last_seen_at.as_deref().unwrap_or_default().replace([':', '.'], ""),
                shown.running.len()
            );
            Ok(Answer::ok(shown).at_version(RUNNER_VERSION).varying_by(variant))
        })
        .await
    }

    /// Creates a runner and its registration token.
    pub async fn create_runner(
        &self,
        who: &Authorized<permit::RunnersWrite>,
        name: Option<Slug>,
        labels: &[String],
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::RunnerCreated>, AppError> {
        let (org, shows) = (who.org(), self.shows());
        let allowed_labels = parse_labels(labels)?;
        self.change(who, once, move |tx, _| {
            runner::forget_unused(tx)?;
            if let Some(name) = &name {
                check_free(tx, name, None)?;
            }
            if runner::all(tx, RUNNERS_PER_ORGANIZATION_MAX)?.len() as i64 >= RUNNERS_PER_ORGANIZATION_MAX {
                let text = format!("an organization has at most {RUNNERS_PER_ORGANIZATION_MAX} runners");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let now = tx.now();
            let token = make(TokenKind::Runner);
            let made = Runner {
                id: RunnerId::from_parts(now, tx.entropy()?),
                name,
                labels: Vec::new(),
                allowed_labels,
                isolation: None,
                exposed: Vec::new(),
                slots: 0,
                program: None,
                created_at: now,
                token_expires_at: now.plus_seconds(TOKEN_S),
                registered_at: None,
                boot: None,
                is_draining: false,
                seen_at: None,
                left_at: None,
                lost_ms: None,
            };
            runner::insert(tx, &made, &hash(token.reveal()))?;
            tx.record(runner_event(EventKind::RunnerCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/runners/{}", made.id);
            let body = wire::RunnerCreated {
                record: shows.one(&made, &[], now),
                token: Some(token.reveal().to_owned()),
            };
            Ok(Answer::created(location, body).at_version(RUNNER_VERSION))
        })
        .await
    }

    /// Deletes a runner and revokes its credential immediately. The runner then stops its running steps by itself.
    pub async fn delete_runner(
        &self,
        who: &Authorized<permit::RunnersWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::Runner>, AppError> {
        let shows = self.shows();
        let done = self.change(who, None, move |tx, _| {
            if key == EMBEDDED {
                let text =
                    "this runner is part of the server; to run no steps there, start it with --no-runner";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let found = find(tx, &key)?;
            super::check_version(RUNNER_VERSION, expected)?;
            let running = runner::running(tx, RUNNING_LISTED_MAX)?;
            runner::delete(tx, found.id)?;
            tx.record(runner_event(EventKind::RunnerDeleted, &found))?;
            let shown = shows.one(&found, &running, tx.now());
            Ok(Answer::ok(wire::Runner { deleted_at: Some(tx.now().to_string()), ..shown }))
        });
        done.await
    }

    fn shows(&self) -> Shows {
        Shows {
            boot: self.services.engine.boot().into(),
            labels: self.config.runner_labels.clone(),
            isolation: self.config.isolation,
            exposed: self.config.exposed.clone(),
            times: self.config.runner_times,
        }
    }
}

pub(crate) fn check_free(db: &mut impl Read, name: &Slug, without: Option<RunnerId>) -> Result<(), AppError> {
    let is_taken = name.as_str() == EMBEDDED
        || runner::by_name(db, name)?.is_some_and(|found| Some(found.id) != without);
    if is_taken {
        let text = "a runner with this name already exists; choose another name, or delete that runner first";
        return Err(AppError::new(Code::AlreadyExists, text));
    }
    Ok(())
}

fn find(db: &mut impl Read, key: &str) -> Result<Runner, AppError> {
    let now = db.now();
    let is_there = |it: &Runner| it.registered_at.is_some() || it.token_expires_at > now;
    runner::find(db, key)?.filter(is_there).ok_or_else(|| AppError::not_found("runner"))
}

/// Server state needed to convert runners into API responses.
struct Shows {
    /// Boot id of the embedded runner.
    boot: Arc<str>,
    labels: Option<Vec<String>>,
    isolation: Option<Isolation>,
    exposed: Vec<String>,
    times: RunnerTimeouts,
}

impl Shows {
    fn one(&self, it: &Runner, running: &[Running], now: Timestamp) -> wire::Runner {
        let own = running.iter().filter(|step| parse_runner_key(&step.runner) == Some(it.id));
        wire::Runner {
            id: it.id.to_string(),
            name: it.name.as_ref().map(ToString::to_string),
            state: match it.state(now, &self.times) {
                RunnerStatus::Pending => wire::RunnerState::Pending,
                RunnerStatus::Online => wire::RunnerState::Online,
                RunnerStatus::Draining => wire::RunnerState::Draining,
                RunnerStatus::Offline => wire::RunnerState::Offline,
                RunnerStatus::Lost => wire::RunnerState::Lost,
            },
            is_embedded: false,
            labels: it.labels.iter().map(ToString::to_string).collect(),
            allowed_labels: it.allowed_labels.iter().map(ToString::to_string).collect(),
            isolation: it.isolation.clone(),
            exposed: it.exposed.clone(),
            slots: it.seen_at.map(|_| it.slots),
            version: it.program.clone(),
            created_at: Some(it.created_at.to_string()),
            registered_at: it.registered_at.map(|at| at.to_string()),
            last_seen_at: it.seen_at.map(|at| at.to_string()),
            token_expires_at: it.registered_at.is_none().then(|| it.token_expires_at.to_string()),
            running: own.map(shown_step).collect(),
            deleted_at: None,
        }
    }

    /// Always online, as it runs in the process that handles the request.
    fn embedded(&self, running: &[Running]) -> Option<wire::Runner> {
        let own = running.iter().filter(|step| *step.runner == *self.boot);
        Some(wire::Runner {
            id: EMBEDDED.to_owned(),
            name: Some(EMBEDDED.to_owned()),
            state: wire::RunnerState::Online,
            is_embedded: true,
            labels: self.labels.clone()?,
            allowed_labels: Vec::new(),
            isolation: self.isolation.map(|level| berth_engine::wire::isolation(level).to_owned()),
            exposed: self.exposed.clone(),
            slots: None,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            created_at: None,
            registered_at: None,
            last_seen_at: None,
            token_expires_at: None,
            running: own.map(shown_step).collect(),
            deleted_at: None,
        })
    }
}

fn shown_step(it: &Running) -> wire::RunnerStep {
    wire::RunnerStep {
        deployment_id: it.deployment.to_string(),
        step_id: it.step_run.to_string(),
        step: it.step.to_string(),
        since: it.since.to_string(),
    }
}
