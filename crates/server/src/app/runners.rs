//! Runners: list, view, create, delete. The engine assigns work to them.

use std::sync::Arc;

use berth_api::problem::Code;
use berth_api::runner::Isolation;
use berth_api::runners as wire;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::id::RunnerId;
use berth_core::name::Slug;
use berth_core::runner::{EMBEDDED, Runner, RunnerStatus, RunnerTimeouts, TOKEN_S, parse_runner_key};
use berth_core::time::Timestamp;
use berth_engine::events::runner_event;
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::runner::{self, RunnerAttempt};

use super::runner_calls::parse_labels;
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::auth::tokens::{TokenKind, generate_token, hash_token};
use crate::error::AppError;
use crate::limits::{RUNNERS_PER_ORGANIZATION_MAX, RUNNING_LISTED_MAX};

/// The version is constant because the record of a runner is immutable. Everything else in the response comes from the
/// runner's heartbeats.
const RUNNER_VERSION: i64 = 1;

impl App {
    /// Lists the embedded runner first, if there is one, then the remote runners, oldest first.
    pub async fn list_runners(
        &self,
        who: &AuthorizedCaller<permit::RunnersRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireRunner>, AppError> {
        let shows = self.presenter();
        let all = self.read(who, move |db| {
            let (now, all) = (db.now(), runner::list(db, RUNNERS_PER_ORGANIZATION_MAX)?);
            let running = runner::list_running_attempts(db, RUNNING_LISTED_MAX)?;
            let far = all.iter().map(|it| shows.to_response(it, &running, now));
            Ok(shows.embedded_response(&running).into_iter().chain(far).collect::<Vec<_>>())
        });
        Ok(ResponsePage::from_all(all.await?, &from, limit, |runner| runner.id.clone()))
    }

    pub async fn view_runner(
        &self,
        who: &AuthorizedCaller<permit::RunnersRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireRunner>, AppError> {
        let shows = self.presenter();
        self.read(who, move |db| {
            let (now, running) = (db.now(), runner::list_running_attempts(db, RUNNING_LISTED_MAX)?);
            let shown = match key.as_str() {
                EMBEDDED => shows.embedded_response(&running).ok_or_else(|| AppError::not_found("runner"))?,
                _ => shows.to_response(&find(db, &key)?, &running, now),
            };
            let variant = format!(
                "{:?}-{}-{}",
                shown.state,
                shown.last_seen_at.as_deref().unwrap_or_default().replace([':', '.'], ""),
                shown.running.len()
            );
            Ok(ApiResponse::ok(shown).with_version(RUNNER_VERSION).with_variant(variant))
        })
        .await
    }

    /// Creates a runner and its registration token.
    pub async fn create_runner(
        &self,
        who: &AuthorizedCaller<permit::RunnersWrite>,
        name: Option<Slug>,
        labels: &[String],
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::RunnerCreated>, AppError> {
        let (org, shows) = (who.org(), self.presenter());
        let allowed_labels = parse_labels(labels)?;
        self.change(who, once, move |tx, _| {
            runner::delete_unused(tx)?;
            if let Some(name) = &name {
                check_name_free(tx, name, None)?;
            }
            if runner::list(tx, RUNNERS_PER_ORGANIZATION_MAX)?.len() as i64 >= RUNNERS_PER_ORGANIZATION_MAX {
                let text = format!("an organization has at most {RUNNERS_PER_ORGANIZATION_MAX} runners");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let now = tx.now();
            let token = generate_token(TokenKind::Runner);
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
            runner::insert(tx, &made, &hash_token(token.reveal()))?;
            tx.record(runner_event(EventKind::RunnerCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/runners/{}", made.id);
            let body = wire::RunnerCreated {
                record: shows.to_response(&made, &[], now),
                token: Some(token.reveal().to_owned()),
            };
            Ok(ApiResponse::created(location, body).with_version(RUNNER_VERSION))
        })
        .await
    }

    /// Deletes a runner and revokes its credential immediately. The runner then stops its running steps on its own.
    pub async fn delete_runner(
        &self,
        who: &AuthorizedCaller<permit::RunnersWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireRunner>, AppError> {
        let shows = self.presenter();
        let done = self.change(who, None, move |tx, _| {
            if key == EMBEDDED {
                let text =
                    "this runner is part of the server; to run no steps there, start it with --no-runner";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let found = find(tx, &key)?;
            super::check_version(RUNNER_VERSION, expected)?;
            let running = runner::list_running_attempts(tx, RUNNING_LISTED_MAX)?;
            runner::delete(tx, found.id)?;
            tx.record(runner_event(EventKind::RunnerDeleted, &found))?;
            let shown = shows.to_response(&found, &running, tx.now());
            Ok(ApiResponse::ok(wire::WireRunner { deleted_at: Some(tx.now().to_string()), ..shown }))
        });
        done.await
    }

    fn presenter(&self) -> RunnerPresenter {
        RunnerPresenter {
            boot: self.services.engine.boot().into(),
            labels: self.config.runner_labels.clone(),
            isolation: self.config.isolation,
            exposed: self.config.exposed.clone(),
            times: self.config.runner_times,
        }
    }
}

pub(crate) fn check_name_free(
    db: &mut impl StoreRead,
    name: &Slug,
    without: Option<RunnerId>,
) -> Result<(), AppError> {
    let is_taken = name.as_str() == EMBEDDED
        || runner::by_name(db, name)?.is_some_and(|found| Some(found.id) != without);
    if is_taken {
        let text = "a runner with this name already exists; choose another name, or delete that runner first";
        return Err(AppError::new(Code::AlreadyExists, text));
    }
    Ok(())
}

fn find(db: &mut impl StoreRead, key: &str) -> Result<Runner, AppError> {
    let now = db.now();
    let is_there = |it: &Runner| it.registered_at.is_some() || it.token_expires_at > now;
    runner::find(db, key)?.filter(is_there).ok_or_else(|| AppError::not_found("runner"))
}

/// Server state needed to convert runners into API responses.
struct RunnerPresenter {
    /// Boot id of the process that contains the embedded runner.
    boot: Arc<str>,
    labels: Option<Vec<String>>,
    isolation: Option<Isolation>,
    exposed: Vec<String>,
    times: RunnerTimeouts,
}

impl RunnerPresenter {
    fn to_response(&self, it: &Runner, running: &[RunnerAttempt], now: Timestamp) -> wire::WireRunner {
        let own = running.iter().filter(|step| parse_runner_key(&step.runner) == Some(it.id));
        wire::WireRunner {
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
            running: own.map(step_to_response).collect(),
            deleted_at: None,
        }
    }

    /// Builds the response for the embedded runner. It is always online, because it runs in the process that handles
    /// the request.
    fn embedded_response(&self, running: &[RunnerAttempt]) -> Option<wire::WireRunner> {
        let own = running.iter().filter(|step| *step.runner == *self.boot);
        Some(wire::WireRunner {
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
            running: own.map(step_to_response).collect(),
            deleted_at: None,
        })
    }
}

fn step_to_response(it: &RunnerAttempt) -> wire::RunnerStep {
    wire::RunnerStep {
        deployment_id: it.deployment.to_string(),
        step_id: it.step_run.to_string(),
        step: it.step.to_string(),
        since: it.since.to_string(),
    }
}
