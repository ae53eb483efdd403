//! Repositories: list, view, register, change, delete and sync. `jobs::sync` reads the definitions in them.

use berth_api::problem::{Code, ProblemDetails};
use berth_api::repository as wire;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::id::{OrgId, RepositoryId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::pipeline::origin;
use berth_core::repository::{POLL_SECONDS_DEFAULT, RemoteUrl, Repository, RepositorySyncState};
use berth_core::secret::ScopePath;
use berth_engine::events::repository_event;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{commit_status, forge_connection, forge_deployment, pipeline, repository, secret};
use berth_store::{StoreRead, Tx};

use super::forge_connections::disconnect;
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::limits::{PIPELINES_PER_REPOSITORY_MAX, REPOSITORIES_PER_ORGANIZATION_MAX};

/// Maximum number of pipelines shown for a repository. Higher than the maximum number that a repository may define,
/// because retired pipelines are shown too.
pub(super) const PIPELINES_LISTED_MAX: i64 = 10 * PIPELINES_PER_REPOSITORY_MAX as i64;

pub struct NewRepository {
    pub url: RemoteUrl,
    pub credential: Option<SecretName>,
    pub poll_seconds: Option<i64>,
    pub is_partial: bool,
}

/// Changes to a repository. `None` keeps the current value.
pub struct RepositoryChange {
    pub url: Option<RemoteUrl>,
    /// `Some(None)` removes the credential.
    pub credential: Option<Option<SecretName>>,
    pub poll_seconds: Option<i64>,
}

impl App {
    pub async fn list_repositories(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireRepository>, AppError> {
        self.read(who, move |db| {
            let slice = repository::list(db, &from, limit)?;
            let last = slice.items.last().map(|repository| repository.id.to_string());
            let items = slice.items.iter().map(|found| to_response(db, found)).collect::<Result<_, _>>()?;
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireRepository>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            build_response(db, &found)
        })
        .await
    }

    pub async fn create_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        new: NewRepository,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireRepository>, AppError> {
        self.check_url(who.org(), &new.url).await?;
        let org = who.org();
        let created = self.change(who, once, move |tx, _| {
            check_free(tx, &new.url)?;
            check_credential(tx, new.credential.as_ref())?;
            if repository::count(tx)? >= REPOSITORIES_PER_ORGANIZATION_MAX {
                let text =
                    format!("an organization has at most {REPOSITORIES_PER_ORGANIZATION_MAX} repositories");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let made = Repository {
                id: RepositoryId::from_parts(tx.now(), tx.entropy()?),
                url: new.url,
                credential: new.credential,
                poll_seconds: new.poll_seconds.unwrap_or(POLL_SECONDS_DEFAULT),
                is_partial: new.is_partial,
                seen: RepositorySyncState { due_at: Some(tx.now()), ..RepositorySyncState::default() },
                version: 1,
                created_at: tx.now(),
                updated_at: tx.now(),
                deleted_at: None,
            };
            repository::put(tx, &made)?;
            tx.record(repository_event(EventKind::RepositoryCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/repositories/{}", made.id);
            Ok(ApiResponse { status: 201, location: Some(location), ..build_response(tx, &made)? })
        });
        let created = created.await;
        self.services.sync_wanted.notify_one();
        created
    }

    pub async fn change_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        change: RepositoryChange,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireRepository>, AppError> {
        if let Some(url) = &change.url {
            self.check_url(who.org(), url).await?;
        }
        let changed = self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let mut next = Repository {
                url: change.url.unwrap_or_else(|| found.url.clone()),
                credential: change.credential.unwrap_or_else(|| found.credential.clone()),
                poll_seconds: change.poll_seconds.unwrap_or(found.poll_seconds),
                ..found.clone()
            };
            if next == found {
                return build_response(tx, &found);
            }
            if next.url != found.url {
                if forge_connection::by_repository(tx, found.id)?.is_some() {
                    let text =
                        "the repository is connected to its forge; disconnect it before you change its URL";
                    return Err(AppError::new(Code::InvalidState, text));
                }
                check_free(tx, &next.url)?;
            }
            if next.credential != found.credential {
                check_credential(tx, next.credential.as_ref())?;
            }
            // Sync immediately, so that the effect of the change becomes visible.
            next.seen.due_at = Some(tx.now());
            next.version += 1;
            next.updated_at = tx.now();
            repository::put(tx, &next)?;
            tx.record(repository_event(EventKind::RepositoryUpdated, &next))?;
            build_response(tx, &next)
        });
        let changed = changed.await;
        self.services.sync_wanted.notify_one();
        changed
    }

    /// Deletes a repository. Refused while pipelines come from it, unless forced; in that case the pipelines keep their
    /// current definitions.
    pub async fn delete_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        force: bool,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireRepository>, AppError> {
        let (org, id) = (who.org(), key.parse::<RepositoryId>());
        let wanted = key.clone();
        let connected = self.read(who, move |db| {
            let Some(found) = repository::find(db, &wanted)? else { return Ok(None) };
            Ok(forge_connection::by_repository(db, found.id)?.map(|connection| (found, connection)))
        });
        let connected = connected.await?;
        let deleted = self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let last = to_response(tx, &found)?;
            if !force && !last.pipelines.is_empty() {
                let slugs: Vec<_> = last.pipelines.iter().take(5).map(|it| it.slug.as_str()).collect();
                let text = format!(
                    "pipelines are defined in it ({}), for example {}; delete them, or send ?force=true to keep them with their current definitions",
                    last.pipelines.len(),
                    slugs.join(", ")
                );
                let listed = serde_json::to_value(&last.pipelines).unwrap_or_default();
                return Err(ProblemDetails::new(Code::InvalidState, text).with_member("pipelines", listed).into());
            }
            for pipeline in pipeline::list_of_repository(tx, found.id, PIPELINES_LISTED_MAX)? {
                let now = tx.now();
                tx.commit(origin::detach(&pipeline, now))?;
            }
            if let Some(connection) = forge_connection::by_repository(tx, found.id)? {
                disconnect(tx, &found, &connection)?;
            }
            let gone = Repository {
                seen: RepositorySyncState { due_at: None, ..found.seen.clone() },
                version: found.version + 1,
                updated_at: tx.now(),
                deleted_at: Some(tx.now()),
                ..found
            };
            repository::put(tx, &gone)?;
            tx.record(repository_event(EventKind::RepositoryDeleted, &gone))?;
            let deleted_at = gone.deleted_at.map(|time| time.to_string());
            Ok(ApiResponse::ok(wire::WireRepository { deleted_at, ..last }))
        });
        let deleted = deleted.await?;
        if let Some((repository, connection)) = connected
            && let Some(why) = self.delete_forge_hook(who, &repository, &connection).await?
        {
            tracing::warn!(repository = %repository.id, why, "webhook on the forge not deleted");
        }
        // Remove the mirror only after the commit, so that a failed deletion leaves it in place.
        if let Ok(id) = id {
            self.services.git.remove_mirror(org, id).await;
        }
        Ok(deleted)
    }

    /// Requests an immediate sync.
    pub async fn sync_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireRepository>, AppError> {
        let org = who.org();
        let asked = self.change(who, once, move |tx, _| {
            let found = find(tx, &key)?;
            let now = tx.now();
            repository::schedule_sync(tx, found.id, now)?;
            let location = format!("/api/v1/organizations/{org}/repositories/{}", found.id);
            Ok(ApiResponse { status: 202, location: Some(location), ..build_response(tx, &found)? })
        });
        let asked = asked.await;
        self.services.sync_wanted.notify_one();
        asked
    }

    /// Checks whether the URL is allowed. For local paths, this accesses the file system.
    async fn check_url(&self, org: OrgId, url: &RemoteUrl) -> Result<(), AppError> {
        let (access, url) = (self.config.git_access(), url.clone());
        let allowed = self.services.git.run(org, move || access.allows(&url)).await?;
        allowed.map_err(|why| AppError::invalid_member("/url", why))
    }
}

fn find(db: &mut impl StoreRead, key: &str) -> Result<Repository, AppError> {
    repository::find(db, key)?.ok_or_else(|| AppError::not_found("repository"))
}

fn check_free(tx: &mut Tx<'_>, url: &RemoteUrl) -> Result<(), AppError> {
    match repository::by_url(tx, url)? {
        Some(taken) => {
            let text = format!("this repository already exists: {}", taken.id);
            Err(AppError::new(Code::AlreadyExists, text))
        }
        None => Ok(()),
    }
}

fn check_credential(tx: &mut Tx<'_>, name: Option<&SecretName>) -> Result<(), AppError> {
    match name {
        Some(name) if secret::by_name(tx, name, &ScopePath::Organization)?.is_none() => {
            Err(AppError::invalid_member("/credential", "is not a secret of the organization"))
        }
        _ => Ok(()),
    }
}

fn build_response(
    db: &mut impl StoreRead,
    found: &Repository,
) -> Result<ApiResponse<wire::WireRepository>, AppError> {
    let body = to_response(db, found)?;
    // Syncs change the response without changing the record's version, so the `ETag` includes a hash of the body.
    let seen = serde_json::to_vec(&body).unwrap_or_default();
    Ok(ApiResponse::ok(body).with_version(found.version).with_variant(crc32fast::hash(&seen)))
}

fn to_response(db: &mut impl StoreRead, repository: &Repository) -> Result<wire::WireRepository, AppError> {
    let found = pipeline::list_of_repository(db, repository.id, PIPELINES_LISTED_MAX)?;
    let seen = &repository.seen;
    let problem = |it: &berth_core::repository::SyncProblem| wire::RepositoryProblem {
        path: it.path.clone(),
        message: it.message.clone(),
        diagnostics: it.diagnostics.clone(),
    };
    let forge_error = match commit_status::find_error(db, repository.id)? {
        Some(error) => Some(error),
        None => forge_deployment::find_error(db, repository.id)?,
    };
    Ok(wire::WireRepository {
        id: repository.id.to_string(),
        url: repository.url.to_string(),
        credential: repository.credential.as_ref().map(ToString::to_string),
        poll_seconds: repository.poll_seconds,
        is_partial: repository.is_partial,
        default_branch: seen.default_branch.clone(),
        head: seen.head.clone(),
        last_synced_at: seen.synced_at.map(|time| time.to_string()),
        error: seen.error.clone(),
        forge_error,
        problems: seen.problems.iter().map(problem).collect(),
        pipelines: found
            .iter()
            .map(|it| wire::RepositoryPipeline { id: it.id.to_string(), slug: it.slug.to_string() })
            .collect(),
        created_at: repository.created_at.to_string(),
        updated_at: repository.updated_at.to_string(),
        deleted_at: repository.deleted_at.map(|time| time.to_string()),
    })
}
