//! Step registries: list, view, add, change, delete, sync. `jobs::registry_builds` builds them.

use std::collections::BTreeSet;

use berth_api::problem::{Code, ProblemDetails};
use berth_api::registry as wire;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::id::RegistryId;
use berth_core::name::CommitId;
use berth_core::pipeline::grammar::SecretName;
use berth_core::registry::{Registry, RegistryName, RegistryStatus, RegistrySyncState, RegistryVersion};
use berth_core::repository::RemoteUrl;
use berth_core::secret::ScopePath;
use berth_engine::events::registry_event;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::registry::{self, REGISTRIES_MAX, StepUse};
use berth_store::tables::{registry_build, secret};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

pub struct NewRegistry {
    pub name: RegistryName,
    pub url: RemoteUrl,
    pub reference: Option<CommitId>,
    pub credential: Option<SecretName>,
}

/// Changes to a registry. `None` keeps the current value.
pub struct RegistryChange {
    /// `Some(None)` selects the default branch.
    pub reference: Option<Option<CommitId>>,
    /// `Some(None)` removes the credential.
    pub credential: Option<Option<SecretName>>,
}

impl App {
    pub async fn list_registries(
        &self,
        who: &AuthorizedCaller<permit::RegistriesRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::StepRegistry>, AppError> {
        self.read(who, move |db| {
            let slice = registry::list(db, &from, limit)?;
            let last = slice.items.last().map(|found| found.id.to_string());
            let items = slice.items.iter().map(|found| to_response(db, found)).collect::<Result<_, _>>()?;
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_registry(
        &self,
        who: &AuthorizedCaller<permit::RegistriesRead>,
        key: String,
    ) -> Result<ApiResponse<wire::StepRegistry>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            build_response(db, &found)
        })
        .await
    }

    /// Lists the steps of the last successfully built version, sorted by key.
    pub async fn list_registry_steps(
        &self,
        who: &AuthorizedCaller<permit::RegistriesRead>,
        key: String,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::StepRegistryStep>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            let uses = registry::list_uses(db, &found.name)?;
            let steps = load_current_version(db, &found)?.map(|version| version.steps).unwrap_or_default();
            let total = i64::try_from(steps.len()).ok();
            let (after, skip) = match &from {
                PageStart::After(key) => (key.as_str(), 0),
                PageStart::Offset(offset) => ("", usize::try_from(*offset).unwrap_or(usize::MAX)),
            };
            let limit = usize::try_from(limit).unwrap_or(0);
            let mut rest = steps.into_iter().filter(|step| step.key.as_str() > after).skip(skip);
            let items: Vec<_> = rest
                .by_ref()
                .take(limit)
                .map(|step| wire::StepRegistryStep {
                    r#use: format!("{}/{}", found.name, step.key),
                    used_by: step_users(uses.iter().filter(|used| used.step == step.key)),
                    key: step.key,
                    r#type: step.step_type,
                    name: step.name,
                    short_description: step.short_description,
                    long_description: step.long_description,
                    yaml_example: step.yaml_example,
                    params_schema: step.schema,
                })
                .collect();
            let last = items.last().map(|step| step.key.clone());
            Ok(ResponsePage { last, items, total, has_more: rest.next().is_some() })
        })
        .await
    }

    pub async fn create_registry(
        &self,
        who: &AuthorizedCaller<permit::RegistriesWrite>,
        new: NewRegistry,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::StepRegistry>, AppError> {
        let (access, url) = (self.config.git_access(), new.url.clone());
        let allowed = self.services.git.run(who.org(), move || access.allows(&url)).await?;
        allowed.map_err(|why| AppError::invalid_member("/url", why))?;
        let org = who.org();
        let created = self.change(who, once, move |tx, _| {
            if let Some(taken) = registry::by_name(tx, &new.name)? {
                let text = format!("a registry with this name already exists: {}", taken.id);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            check_credential(tx, new.credential.as_ref())?;
            if registry::count(tx)? >= REGISTRIES_MAX {
                let text = format!("an organization has at most {REGISTRIES_MAX} registries");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let made = Registry {
                id: RegistryId::from_parts(tx.now(), tx.entropy()?),
                name: new.name,
                url: new.url,
                reference: new.reference,
                credential: new.credential,
                seen: RegistrySyncState { due_at: Some(tx.now()), ..RegistrySyncState::default() },
                version: 1,
                created_at: tx.now(),
                updated_at: tx.now(),
                deleted_at: None,
            };
            registry::put(tx, &made)?;
            let event = registry_event(EventKind::RegistryCreated, &made).with("url", made.url.as_str());
            tx.record(event.with_some("ref", made.reference.as_ref()))?;
            let location = format!("/api/v1/organizations/{org}/step-registries/{}", made.id);
            Ok(ApiResponse { status: 201, location: Some(location), ..build_response(tx, &made)? })
        });
        let created = created.await;
        self.jobs.registries.wake();
        created
    }

    pub async fn change_registry(
        &self,
        who: &AuthorizedCaller<permit::RegistriesWrite>,
        key: String,
        change: RegistryChange,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::StepRegistry>, AppError> {
        let changed = self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let mut next = Registry {
                reference: change.reference.unwrap_or_else(|| found.reference.clone()),
                credential: change.credential.unwrap_or_else(|| found.credential.clone()),
                ..found.clone()
            };
            if next == found {
                return build_response(tx, &found);
            }
            if next.credential != found.credential {
                check_credential(tx, next.credential.as_ref())?;
            }
            // Sync immediately, so that the effect of the change becomes visible. A running build is not interrupted.
            (next.seen.due_at, next.seen.failed_commit) = (Some(tx.now()), None);
            if found.seen.status != RegistryStatus::Building {
                next.seen.status = RegistryStatus::Pending;
            }
            next.version += 1;
            next.updated_at = tx.now();
            registry::put(tx, &next)?;
            let event = registry_event(EventKind::RegistryUpdated, &next);
            tx.record(event.with_some("ref", next.reference.as_ref()))?;
            build_response(tx, &next)
        });
        let changed = changed.await;
        self.jobs.registries.wake();
        changed
    }

    /// Deletes a registry. Refused while definitions use its steps, unless forced. Runs that already use one of its
    /// versions continue.
    pub async fn delete_registry(
        &self,
        who: &AuthorizedCaller<permit::RegistriesWrite>,
        key: String,
        force: bool,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::StepRegistry>, AppError> {
        let deleted = self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let last = to_response(tx, &found)?;
            if !force && !last.used_by.is_empty() {
                let text = describe_users(&last.used_by);
                let listed = serde_json::to_value(&last.used_by).unwrap_or_default();
                return Err(ProblemDetails::new(Code::InvalidState, text)
                    .with_member("usedBy", listed)
                    .into());
            }
            let gone = Registry {
                seen: RegistrySyncState { due_at: None, ..found.seen.clone() },
                version: found.version + 1,
                updated_at: tx.now(),
                deleted_at: Some(tx.now()),
                ..found
            };
            registry::put(tx, &gone)?;
            tx.record(registry_event(EventKind::RegistryDeleted, &gone))?;
            let deleted_at = gone.deleted_at.map(|time| time.to_string());
            Ok(ApiResponse::ok(wire::StepRegistry { deleted_at, ..last }))
        });
        let deleted = deleted.await?;
        // Keep the built versions, which runs may still need. Delete the mirror and the build logs.
        if let IdempotentResponse::Fresh(answer) = &deleted
            && let Ok(id) = answer.body.id.parse()
        {
            self.services.git.remove_registry_mirror(who.org(), id).await;
            self.jobs.registries.delete_logs(who.org(), id).await;
        }
        Ok(deleted)
    }

    /// Requests an immediate sync. A commit whose build failed is built again; a commit that was built successfully is
    /// not.
    pub async fn sync_registry(
        &self,
        who: &AuthorizedCaller<permit::RegistriesWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::StepRegistry>, AppError> {
        let org = who.org();
        let asked = self.change(who, once, move |tx, _| {
            let found = find(tx, &key)?;
            let now = tx.now();
            registry::schedule_poll(tx, found.id, now)?;
            let location = format!("/api/v1/organizations/{org}/step-registries/{}", found.id);
            Ok(ApiResponse { status: 202, location: Some(location), ..build_response(tx, &found)? })
        });
        let asked = asked.await;
        self.jobs.registries.wake();
        asked
    }
}

pub(super) fn find(db: &mut impl StoreRead, key: &str) -> Result<Registry, AppError> {
    registry::find(db, key)?.ok_or_else(|| AppError::not_found("registry"))
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
    found: &Registry,
) -> Result<ApiResponse<wire::StepRegistry>, AppError> {
    let body = to_response(db, found)?;
    // Syncs and builds change the response without changing the record's version, so the `ETag` includes a hash of the
    // body.
    let seen = serde_json::to_vec(&body).unwrap_or_default();
    Ok(ApiResponse::ok(body).with_version(found.version).with_variant(crc32fast::hash(&seen)))
}

fn load_current_version(
    db: &mut impl StoreRead,
    registry: &Registry,
) -> Result<Option<RegistryVersion>, AppError> {
    match &registry.seen.current {
        Some(commit) => Ok(registry_build::find_version(db, registry.id, commit)?),
        None => Ok(None),
    }
}

fn to_response(db: &mut impl StoreRead, registry: &Registry) -> Result<wire::StepRegistry, AppError> {
    let version = load_current_version(db, registry)?;
    let steps = version.as_ref().map(|version| version.steps.as_slice()).unwrap_or_default();
    let keys: BTreeSet<&str> = steps.iter().map(|step| step.key.as_str()).collect();
    let uses = registry::list_uses(db, &registry.name)?;
    let used_by = step_users(uses.iter().filter(|it| !it.is_anywhere || keys.contains(it.step.as_str())));
    let steps = steps.iter().map(|step| wire::StepRegistryStepName {
        key: step.key.clone(),
        r#type: step.step_type.clone(),
        name: step.name.clone(),
        short_description: step.short_description.clone(),
    });
    let seen = &registry.seen;
    let status = match seen.status {
        RegistryStatus::Pending => wire::StepRegistryStatus::Pending,
        RegistryStatus::Building => wire::StepRegistryStatus::Building,
        RegistryStatus::Ready => wire::StepRegistryStatus::Ready,
        RegistryStatus::Failed => wire::StepRegistryStatus::Failed,
    };
    let last_good = match &version {
        Some(version) => Some(wire::StepRegistryVersion {
            commit: version.commit.clone(),
            refs: registry_build::list_refs(db, registry.id, &version.commit)?,
            digest: version.digest.clone(),
            build: version.number,
            built_at: version.built_at.to_string(),
        }),
        None => None,
    };
    Ok(wire::StepRegistry {
        id: registry.id.to_string(),
        name: registry.name.to_string(),
        url: registry.url.to_string(),
        r#ref: registry.reference.as_ref().map(ToString::to_string),
        credential: registry.credential.as_ref().map(ToString::to_string),
        status,
        commit: seen.commit.clone(),
        last_good,
        error: seen.error.clone(),
        last_synced_at: seen.synced_at.map(|time| time.to_string()),
        steps: steps.collect(),
        used_by,
        created_at: registry.created_at.to_string(),
        updated_at: registry.updated_at.to_string(),
        deleted_at: registry.deleted_at.map(|time| time.to_string()),
    })
}

fn describe_users(users: &[wire::StepUser]) -> String {
    const NAMED_MAX: usize = 5;
    let slugs: Vec<_> = users.iter().take(NAMED_MAX).map(|it| it.slug.as_str()).collect();
    match slugs.as_slice() {
        [one] => format!(
            "the pipeline {one} uses its steps; change its definition, or send ?force=true, after which it cannot be deployed"
        ),
        some => format!(
            "{} pipelines use its steps, for example {}; change their definitions, or send ?force=true, after which they cannot be deployed",
            users.len(),
            some.join(", ")
        ),
    }
}

/// Converts uses of steps to the pipelines that use them, listing each pipeline once.
fn step_users<'a>(uses: impl Iterator<Item = &'a StepUse>) -> Vec<wire::StepUser> {
    let mut found: Vec<wire::StepUser> = Vec::new();
    for used in uses {
        let user = wire::StepUser { id: used.pipeline.to_string(), slug: used.slug.to_string() };
        if !found.contains(&user) {
            found.push(user);
        }
    }
    found
}
