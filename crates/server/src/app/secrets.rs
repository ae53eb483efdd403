//! Secrets: list, view, create, change and delete. Responses never contain a secret's value.

use std::sync::Arc;

use berth_api::problem::{Code, ProblemDetails};
use berth_api::secret as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{PipelineId, SecretId};
use berth_core::name::Reason;
use berth_core::pipeline::grammar::{SecretName, StageName};
use berth_core::secret::{MASKED_BYTES_MIN, ScopePath, Secret, is_maskable};
use berth_engine::credential::RedactedString;
use berth_engine::limits::SECRETS_PER_ORGANIZATION_MAX;
use berth_engine::vault::SecretVault;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{pipeline, secret};
use berth_store::{StoreRead, Tx};

use super::resource_access::{require, secret_target, visible_page};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

pub struct NewSecret {
    pub name: SecretName,
    pub value: RedactedString,
    pub description: Option<Reason>,
    pub scope: NewScope,
}

/// The scope in a request, which names the pipeline by id or slug.
pub enum NewScope {
    Organization,
    Pipeline(String),
    Stage(String, StageName),
}

/// Changes to a secret. `None` keeps the current value.
pub struct SecretChange {
    pub value: Option<RedactedString>,
    pub description: Option<Reason>,
}

impl App {
    pub async fn list_secrets(
        &self,
        who: &AuthorizedCaller<permit::SecretsRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireSecret>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let slice = match access.may_everywhere(Action::SecretsRead) {
                true => secret::list(db, &from, limit)?,
                false => visible_page(
                    db,
                    (&from, limit),
                    secret::list,
                    |it| it.id.to_string(),
                    |db, it| Ok(access.may(Action::SecretsRead, &secret_target(db, &it.scope)?)),
                )?,
            };
            let last = slice.items.last().map(|secret| secret.id.to_string());
            let items =
                slice.items.iter().map(|secret| to_response(db, secret, None)).collect::<Result<_, _>>()?;
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_secret(
        &self,
        who: &AuthorizedCaller<permit::SecretsRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireSecret>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, &access, Action::SecretsRead, &key)?;
            let body = to_response(db, &found, None)?;
            let users: String = body.used_by.iter().map(|user| user.pipeline_id.as_str()).collect();
            Ok(ApiResponse::ok(body)
                .with_version(found.revision)
                .with_variant(crc32fast::hash(users.as_bytes())))
        })
        .await
    }

    pub async fn create_secret(
        &self,
        who: &AuthorizedCaller<permit::SecretsWrite>,
        new: NewSecret,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireSecret>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let scope = resolve_scope(tx, new.scope)?;
            let target = secret_target(tx, &scope)?;
            require(&standing.access, Action::SecretsWrite, &target, "pipeline")?;
            if let Some(taken) = secret::by_name(tx, &new.name, &scope)? {
                let text = format!("a secret {} already exists in this scope: {}", new.name, taken.id);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            if secret::count(tx)? >= SECRETS_PER_ORGANIZATION_MAX {
                let text = format!("an organization has at most {SECRETS_PER_ORGANIZATION_MAX} secrets");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let made = Secret {
                id: SecretId::from_parts(tx.now(), tx.entropy()?),
                name: new.name,
                scope,
                description: new.description,
                version: 1,
                revision: 1,
                created_at: tx.now(),
                updated_at: tx.now(),
            };
            secret::put(tx, &made)?;
            put_value(tx, &vault, &made, &new.value)?;
            tx.record(secret_event(EventKind::SecretCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/secrets/{}", made.id);
            let body = to_response(tx, &made, Some(&new.value))?;
            Ok(ApiResponse::created(location, body).with_version(made.revision))
        })
        .await
    }

    pub async fn change_secret(
        &self,
        who: &AuthorizedCaller<permit::SecretsWrite>,
        key: String,
        change: SecretChange,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireSecret>, AppError> {
        let vault = self.services.vault.clone();
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = find(tx, &standing.access, Action::SecretsWrite, &key)?;
            super::check_version(found.revision, expected)?;
            let description = change.description.or_else(|| found.description.clone());
            if change.value.is_none() && description == found.description {
                return Ok(ApiResponse::ok(to_response(tx, &found, None)?).with_version(found.revision));
            }
            let changed = Secret {
                description,
                version: found.version + i64::from(change.value.is_some()),
                revision: found.revision + 1,
                updated_at: tx.now(),
                ..found
            };
            secret::put(tx, &changed)?;
            if let Some(value) = &change.value {
                put_value(tx, &vault, &changed, value)?;
            }
            tx.record(secret_event(EventKind::SecretUpdated, &changed))?;
            Ok(ApiResponse::ok(to_response(tx, &changed, change.value.as_ref())?)
                .with_version(changed.revision))
        })
        .await
    }

    /// Deletes a secret. Refused while a definition uses it, unless forced.
    pub async fn delete_secret(
        &self,
        who: &AuthorizedCaller<permit::SecretsWrite>,
        key: String,
        force: bool,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireSecret>, AppError> {
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = find(tx, &standing.access, Action::SecretsWrite, &key)?;
            super::check_version(found.revision, expected)?;
            let last = to_response(tx, &found, None)?;
            if !force && !last.used_by.is_empty() {
                let slugs: Vec<_> = last.used_by.iter().map(|user| user.slug.as_str()).collect();
                let text = format!(
                    "{} is used by {}; send ?force=true to delete it anyway",
                    found.name,
                    slugs.join(", ")
                );
                let users = serde_json::to_value(&last.used_by).unwrap_or_default();
                return Err(ProblemDetails::new(Code::InvalidState, text)
                    .with_member("usedBy", users)
                    .into());
            }
            delete_secret_record(tx, &found)?;
            Ok(ApiResponse::ok(wire::WireSecret { deleted_at: Some(tx.now().to_string()), ..last }))
        })
        .await
    }
}

/// Deletes the secrets in the scope of a pipeline that is being deleted.
pub(super) fn delete_of_pipeline(tx: &mut Tx<'_>, pipeline: PipelineId) -> Result<(), AppError> {
    for found in secret::list_of_pipeline(tx, pipeline, SECRETS_PER_ORGANIZATION_MAX)? {
        delete_secret_record(tx, &found)?;
    }
    Ok(())
}

fn delete_secret_record(tx: &mut Tx<'_>, found: &Secret) -> Result<(), AppError> {
    secret::delete(tx, found.id)?;
    Ok(tx.record(secret_event(EventKind::SecretDeleted, found))?)
}

fn put_value(
    tx: &mut Tx<'_>,
    vault: &Arc<SecretVault>,
    secret: &Secret,
    value: &RedactedString,
) -> Result<(), AppError> {
    let sealed = vault.seal(tx, secret, value)?;
    Ok(secret::put_value(tx, secret.id, secret.version, &sealed)?)
}

/// Finds a secret and checks the permission on what it belongs to.
fn find(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    key: &str,
) -> Result<Secret, AppError> {
    let missing = || AppError::not_found("secret");
    let found = secret::find(db, key)?.ok_or_else(missing)?;
    if !access.may_everywhere(action) {
        let target = secret_target(db, &found.scope)?;
        match access.may(Action::SecretsRead, &target) {
            true => require(access, action, &target, "secret")?,
            false => return Err(missing()),
        }
    }
    Ok(found)
}

fn resolve_scope(db: &mut impl StoreRead, asked: NewScope) -> Result<ScopePath, AppError> {
    let (key, stage) = match asked {
        NewScope::Organization => return Ok(ScopePath::Organization),
        NewScope::Pipeline(key) => (key, None),
        NewScope::Stage(key, stage) => (key, Some(stage)),
    };
    let found = pipeline::find(db, &key)?;
    let found = found.ok_or_else(|| {
        AppError::invalid_member("/scope/pipelineId", "is not a pipeline of this organization")
    })?;
    let Some(stage) = stage else { return Ok(ScopePath::Pipeline(found.id)) };
    let outline = &found.outline;
    if !outline.stages.iter().chain(&outline.environments).any(|name| name == stage.as_str()) {
        return Err(AppError::invalid_member(
            "/scope/stage",
            "is not a stage or environment of the pipeline",
        ));
    }
    Ok(ScopePath::Stage(found.id, stage))
}

fn secret_event(kind: EventKind, secret: &Secret) -> NewEvent {
    let event = NewEvent::new(kind, EventSubject::new("secret", secret.id, Some(secret.name.as_str())));
    let event = NewEvent {
        subjects: event
            .subjects
            .into_iter()
            .chain(secret.scope.pipeline().map(|pipeline| EventSubject::new("pipeline", pipeline, None)))
            .collect(),
        ..event
    };
    event.with("scope", secret.scope.to_string()).with("version", secret.version)
}

/// `value` is the secret's value from the request. The response includes a warning if it cannot be masked.
fn to_response(
    db: &mut impl StoreRead,
    secret: &Secret,
    value: Option<&RedactedString>,
) -> Result<wire::WireSecret, AppError> {
    let users = secret::list_users(db, secret)?;
    let poor = value.is_some_and(|value| !is_maskable(value.reveal()));
    let warning = || wire::SecretWarning {
        code: "not_maskable".to_owned(),
        detail: format!(
            "the value is shorter than {MASKED_BYTES_MIN} bytes or a common word: it cannot be masked in logs"
        ),
    };
    let (kind, stage) = match &secret.scope {
        ScopePath::Organization => (wire::ScopeKind::Organization, None),
        ScopePath::Pipeline(_) => (wire::ScopeKind::Pipeline, None),
        ScopePath::Stage(_, stage) => (wire::ScopeKind::Stage, Some(stage.to_string())),
    };
    let pipeline_id = secret.scope.pipeline().map(|pipeline| pipeline.to_string());
    Ok(wire::WireSecret {
        id: secret.id.to_string(),
        name: secret.name.to_string(),
        scope: wire::SecretScope { kind, pipeline_id, stage },
        description: secret.description.as_ref().map(ToString::to_string),
        version: secret.version,
        used_by: users
            .into_iter()
            .map(|user| wire::SecretUser {
                pipeline_id: user.pipeline.to_string(),
                slug: user.slug.to_string(),
            })
            .collect(),
        warnings: poor.then(warning).into_iter().collect(),
        created_at: secret.created_at.to_string(),
        updated_at: secret.updated_at.to_string(),
        deleted_at: None,
    })
}
