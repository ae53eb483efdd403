//! Organizations of the installation: create, rename and delete them while the server runs.

use berth_api::organization as wire;
use berth_api::problem::Code;
use berth_core::event::{EventKind, NewEvent};
use berth_core::id::OrgId;
use berth_core::name::{DisplayName, Slug};
use berth_engine::check_organizations;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::organization::{
    self, FORMER_SLUGS_MAX, ORGANIZATIONS_MAX, ORGANIZATIONS_PER_USER_MAX, Organization,
};
use berth_store::tables::{member, organization_removal, user};
use berth_store::{StoreRead, Tx};

use super::organizations::{insert_organization, organization_subject};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage, RuleOutcome};
use crate::auth::instance_admin::{InstanceAccess, InstanceAdmin, load_instance_access};
use crate::error::AppError;

/// Changes to an organization. `None` keeps the current value.
pub struct OrganizationRenaming {
    pub slug: Option<Slug>,
    pub name: Option<DisplayName>,
}

impl App {
    pub async fn list_instance_organizations(
        &self,
        _: &InstanceAdmin,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::InstanceOrganization>, AppError> {
        let read = self.services.store.read(None, move |db| {
            let ListPage { items, total, has_more } = organization::list(db, &from, limit)?;
            let items = items.iter().map(|it| to_response(db, it)).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, AppError>(ListPage { items, total, has_more })
        });
        let key = |it: &wire::InstanceOrganization| it.id.clone();
        Ok(ResponsePage::from_list_page(&read.await?, key, Clone::clone))
    }

    pub async fn view_instance_organization(
        &self,
        _: &InstanceAdmin,
        key: String,
    ) -> Result<ApiResponse<wire::InstanceOrganization>, AppError> {
        let read = self.services.store.read(None, move |db| {
            let org = find(db, &key)?;
            build_response(db, &org)
        });
        read.await
    }

    /// Creates an organization. The caller becomes its owner.
    pub async fn create_instance_organization(
        &self,
        who: &InstanceAdmin,
        slug: Slug,
        name: DisplayName,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::InstanceOrganization>, AppError> {
        let config = self.config.clone();
        let caller = who.principal().user;
        self.change_instance(who, once, move |tx, access| {
            access.check_confirmed(tx.now())?;
            // A demo has two organizations from the start.
            if config.local && config.demo_sites.is_none() {
                let text =
                    "a server with --local has only one organization; use --public-url and TLS instead";
                return Err(AppError::new(Code::InvalidState, text));
            }
            check_slug(tx, &slug, None)?;
            let count = organization::count(tx)?;
            if count >= ORGANIZATIONS_MAX {
                let text = format!("an installation has at most {ORGANIZATIONS_MAX} organizations");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let count = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1);
            check_organizations(config.isolation, config.lends_cluster_access, count)
                .map_err(|why| AppError::new(Code::InvalidState, why))?;
            let owner =
                user::by_id(tx, caller)?.ok_or_else(|| AppError::bug("a caller without an account"))?;
            let own = i64::try_from(member::list_organizations(tx, owner.id)?.len()).unwrap_or(i64::MAX);
            if own >= ORGANIZATIONS_PER_USER_MAX {
                let text = format!("a person belongs to at most {ORGANIZATIONS_PER_USER_MAX} organizations");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let org = insert_organization(tx, slug, name, &owner)?;
            let location = format!("/api/v1/instance/organizations/{}", org.id);
            Ok(ApiResponse { status: 201, location: Some(location), ..build_response(tx, &org)? })
        })
        .await
    }

    /// Changes slug and name. The previous slug stays reserved for the organization and keeps working.
    pub async fn rename_instance_organization(
        &self,
        who: &InstanceAdmin,
        key: String,
        change: OrganizationRenaming,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::InstanceOrganization>, AppError> {
        self.change_instance(who, None, move |tx, access| {
            access.check_confirmed(tx.now())?;
            let org = find(tx, &key)?;
            super::check_version(org.version, expected)?;
            let slug = change.slug.unwrap_or_else(|| org.slug.clone());
            let name = change.name.unwrap_or_else(|| org.name.clone());
            if slug == org.slug && name == org.name {
                return build_response(tx, &org);
            }
            let mut event = NewEvent::new(EventKind::OrganizationUpdated, organization_subject(&org));
            if name != org.name {
                event = event.with("name", name.as_str()).with("previousName", org.name.as_str());
            }
            let is_moved = slug != org.slug;
            if is_moved {
                check_slug(tx, &slug, Some(org.id))?;
                organization::remove_former_slug(tx, org.id, &slug)?;
                event = event.with("slug", slug.as_str()).with("previousSlug", org.slug.as_str());
            }
            let changed = Organization { slug, name, version: org.version + 1, ..org.clone() };
            organization::put(tx, &changed)?;
            if is_moved {
                let former = organization::list_former_slugs(tx, org.id)?.len();
                if i64::try_from(former).unwrap_or(i64::MAX) >= FORMER_SLUGS_MAX {
                    let text = format!("an organization keeps at most {FORMER_SLUGS_MAX} earlier slugs");
                    return Err(AppError::new(Code::InvalidState, text));
                }
                organization::add_former_slug(tx, org.id, &org.slug)?;
            }
            tx.within_org(org.id, |tx| tx.record(event))?;
            build_response(tx, &changed)
        })
        .await
    }

    /// Deletes an organization and everything that belongs to it. `confirm` must be its slug.
    pub async fn delete_instance_organization(
        &self,
        who: &InstanceAdmin,
        key: String,
        confirm: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::InstanceOrganization>, AppError> {
        let caller = who.principal().user;
        let deleted = self.change_instance(who, None, move |tx, access| {
            let org = find(tx, &key)?;
            super::check_version(org.version, expected)?;
            if confirm != org.slug.as_str() {
                return Err(AppError::invalid_parameter(
                    "confirm",
                    "must be the current slug of the organization to delete",
                ));
            }
            access.check_confirmed(tx.now())?;
            let work = tx.within_org(org.id, organization_removal::count_active_work)?;
            if work.sessions > 0 || work.deployments > 0 {
                let (sessions, deployments) = (work.sessions, work.deployments);
                let text = format!(
                    "the organization has {sessions} active sessions and {deployments} unfinished deployments; release and cancel them first"
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            let response = build_response(tx, &org)?;
            organization_removal::delete_organization(tx, org.id)?;
            organization::add_former_slug(tx, org.id, &org.slug)?;
            // Its own audit log is gone, so the deletion is recorded where the admin belongs.
            let home = match member::find_home(tx, caller)? {
                Some(home) => Some(home),
                None => organization::list_ids(tx, None)?.first().map(|(id, _)| *id),
            };
            let last = "the last organization cannot be deleted; create another one first";
            let home = home.ok_or_else(|| AppError::new(Code::InvalidState, last))?;
            let event = NewEvent::new(EventKind::OrganizationDeleted, organization_subject(&org));
            tx.within_org(home, |tx| tx.record(event))?;
            Ok(response)
        });
        let deleted = deleted.await?;
        if let IdempotentResponse::Fresh(response) = &deleted {
            self.remove_organization_files(&response.body.id).await;
        }
        Ok(deleted)
    }

    /// Removes logs, artifacts and mirrors of a deleted organization. What cannot be removed is logged; no record refers
    /// to it any more.
    async fn remove_organization_files(&self, org: &str) {
        let data = &self.config.data_dir;
        let dirs = ["logs", "artifacts", "git", "registries/logs"].map(|dir| data.join(dir).join(org));
        let (objects, org_id) = (self.services.objects.clone(), org.to_owned());
        let removed = tokio::task::spawn_blocking(move || {
            if let Some(Err(error)) = objects.map(|objects| objects.remove_organization(&org_id)) {
                tracing::warn!(%error, "objects of a deleted organization remain until the next daily cleanup");
            }
            for dir in dirs {
                match std::fs::remove_dir_all(&dir) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        tracing::warn!(%error, dir = %dir.display(), "files of a deleted organization remain");
                    }
                    _ => {}
                }
            }
        });
        if removed.await.is_err() {
            tracing::error!(org, "removing the files of a deleted organization panicked");
        }
    }

    /// Runs a write transaction of an instance admin, whose access is checked again inside of it.
    async fn change_instance(
        &self,
        who: &InstanceAdmin,
        once: Option<IdempotencyKey>,
        work: impl FnOnce(
            &mut Tx<'_>,
            &InstanceAccess,
        ) -> Result<ApiResponse<wire::InstanceOrganization>, AppError>
        + Send
        + 'static,
    ) -> Result<IdempotentResponse<wire::InstanceOrganization>, AppError> {
        let principal = who.principal().clone();
        self.transact(who.context(), once, move |tx| {
            let access = load_instance_access(tx, &principal)?;
            work(tx, &access).map(RuleOutcome::Yes)
        })
        .await
    }
}

/// Fails if another organization has or had the slug.
fn check_slug(tx: &mut Tx<'_>, slug: &Slug, own: Option<OrgId>) -> Result<(), AppError> {
    match organization::find_slug_owner(tx, slug)? {
        Some(owner) if Some(owner) != own => {
            let text =
                format!("the slug {slug} belongs or belonged to another organization; choose another one");
            Err(AppError::new(Code::AlreadyExists, text))
        }
        _ => Ok(()),
    }
}

fn find(db: &mut impl StoreRead, key: &str) -> Result<Organization, AppError> {
    let id = match key.parse::<OrgId>() {
        Ok(id) => Some(id),
        Err(_) => match Slug::parse(key) {
            Ok(slug) => organization::find_slug_owner(db, &slug)?,
            Err(_) => None,
        },
    };
    let found = id.map(|id| organization::by_id(db, id)).transpose()?.flatten();
    found.ok_or_else(|| AppError::not_found("organization"))
}

fn build_response(
    db: &mut impl StoreRead,
    org: &Organization,
) -> Result<ApiResponse<wire::InstanceOrganization>, AppError> {
    Ok(ApiResponse::ok(to_response(db, org)?).with_version(org.version))
}

fn to_response(db: &mut impl StoreRead, org: &Organization) -> Result<wire::InstanceOrganization, AppError> {
    let former = organization::list_former_slugs(db, org.id)?;
    Ok(wire::InstanceOrganization {
        id: org.id.to_string(),
        slug: org.slug.to_string(),
        name: org.name.to_string(),
        former_slugs: former.iter().map(ToString::to_string).collect(),
        member_count: member::count_in(db, org.id)?,
        created_at: org.created_at.to_string(),
    })
}
