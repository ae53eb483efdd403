//! Checks whether a caller may perform an action on one resource, and which resources a list shows.
//!
//! A resource that the caller may not even see is reported as not found. The checks need the names of pipelines, which
//! records refer to by id; they are read only for callers whose permissions are limited to a part of the organization.

use berth_api::problem::ProblemDetails;
use berth_core::access::{AccessTarget, Action, EffectiveAccess, Role};
use berth_core::deployment::{Deployment, DeploymentTarget};
use berth_core::environment::Environment;
use berth_core::event::Event;
use berth_core::id::{OrgId, PipelineId};
use berth_core::name::Slug;
use berth_core::pipeline::state::Pipeline;
use berth_core::secret::ScopePath;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::{member, pipeline};
use berth_store::{StoreError, StoreRead};

use super::App;
use crate::error::AppError;

/// Maximum number of members that a refusal names as able to grant the permission.
const GRANTORS_NAMED_MAX: i64 = 5;

/// Number of rows read at a time to find those that the caller may see.
const SCANNED_ROWS: i64 = 500;
/// Maximum number of such reads for one page.
const SCANNED_PAGES_MAX: usize = 20;

/// Checks a permission on one resource. `noun` names the resource if the caller may not know that it exists.
pub(super) fn require(
    access: &EffectiveAccess,
    action: Action,
    target: &AccessTarget,
    noun: &str,
) -> Result<(), AppError> {
    match access.may(action, target) {
        true => Ok(()),
        false if is_visible(access, target) => Err(AppError::forbidden(action, Some(target))),
        false => Err(AppError::not_found(noun)),
    }
}

pub(super) fn is_visible(access: &EffectiveAccess, target: &AccessTarget) -> bool {
    match target {
        AccessTarget::Organization => true,
        AccessTarget::Environment { .. } => access.may(Action::EnvironmentsRead, target),
        // The names of a pipeline's stages are part of the pipeline.
        AccessTarget::Pipeline(pipeline) | AccessTarget::Stage { pipeline, .. } => {
            access.may(Action::PipelinesRead, &AccessTarget::Pipeline(pipeline.clone()))
        }
    }
}

/// Checks a permission on a pipeline.
pub(super) fn require_on_pipeline(
    access: &EffectiveAccess,
    action: Action,
    pipeline: &Slug,
) -> Result<(), AppError> {
    require(access, action, &AccessTarget::Pipeline(pipeline.to_string()), "pipeline")
}

/// Checks that the caller may read a pipeline itself. A grant on its environments or stages shows only its name and state.
pub(super) fn require_whole_pipeline(access: &EffectiveAccess, pipeline: &Slug) -> Result<(), AppError> {
    let (action, target) = (Action::PipelinesRead, AccessTarget::Pipeline(pipeline.to_string()));
    let has_role = access.roles_on(&target).iter().any(|role| role.may(action));
    let is_within = access.restriction.as_ref().is_none_or(|all| {
        all.iter().any(|it| it.permissions.contains(&action) && it.scope.contains(&target))
    });
    if has_role && is_within { Ok(()) } else { Err(AppError::forbidden(action, Some(&target))) }
}

/// Checks a permission on an environment.
pub(super) fn require_on_environment(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    environment: &Environment,
) -> Result<(), AppError> {
    if access.may_everywhere(action) {
        return Ok(());
    }
    require(access, action, &environment_target(db, environment)?, "environment")
}

/// Whether the caller has a permission on an environment.
pub(super) fn may_on_environment(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    environment: &Environment,
) -> Result<bool, AppError> {
    Ok(access.may_everywhere(action) || access.may(action, &environment_target(db, environment)?))
}

/// An environment of a pipeline whose slug is known.
pub(super) fn environment_in(pipeline: &Slug, environment: &Environment) -> AccessTarget {
    AccessTarget::Environment { pipeline: pipeline.to_string(), environment: environment.name.to_string() }
}

fn environment_target(db: &mut impl StoreRead, of: &Environment) -> Result<AccessTarget, AppError> {
    let environment = of.name.to_string();
    Ok(match pipeline_slug(db, of.pipeline)? {
        Some(pipeline) => AccessTarget::Environment { pipeline, environment },
        None => AccessTarget::Organization,
    })
}

fn pipeline_slug(db: &mut impl StoreRead, id: PipelineId) -> Result<Option<String>, AppError> {
    Ok(pipeline::find_slug(db, id)?.map(|slug| slug.to_string()))
}

/// Checks a permission on the whole organization.
pub(super) fn require_everywhere(access: &EffectiveAccess, action: Action) -> Result<(), AppError> {
    require(access, action, &AccessTarget::Organization, "organization")
}

/// The stages of a pipeline, as resources.
pub(super) fn stage_targets(pipeline: &Pipeline) -> Vec<AccessTarget> {
    let stages = pipeline.outline.stages.iter();
    stages.map(|stage| stage_target(&pipeline.slug, stage)).collect()
}

pub(super) fn stage_target(pipeline: &Slug, stage: &str) -> AccessTarget {
    AccessTarget::Stage { pipeline: pipeline.to_string(), stage: stage.to_owned() }
}

/// Checks a permission on each of several resources of a pipeline.
pub(super) fn require_on_all(
    access: &EffectiveAccess,
    action: Action,
    targets: &[AccessTarget],
) -> Result<(), AppError> {
    targets.iter().try_for_each(|target| require(access, action, target, "pipeline"))
}

/// Returns the resources that a deployment affects: its environment, or the stages of its pipeline. The pipeline itself
/// if it has no stages, and the organization if the pipeline was deleted.
fn deployment_targets(db: &mut impl StoreRead, of: &Deployment) -> Result<Vec<AccessTarget>, AppError> {
    let Some(pipeline) = pipeline_slug(db, of.pipeline)? else { return Ok(vec![AccessTarget::Organization]) };
    if let DeploymentTarget::Environment(target) = &of.target {
        return Ok(vec![AccessTarget::Environment { pipeline, environment: target.name.to_string() }]);
    }
    let stages = pipeline::by_id(db, of.pipeline)?.map(|found| stage_targets(&found)).unwrap_or_default();
    Ok(if stages.is_empty() { vec![AccessTarget::Pipeline(pipeline)] } else { stages })
}

/// Checks that the caller may read the deployment: its environment or one of its stages.
pub(super) fn require_readable(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    deployment: &Deployment,
) -> Result<(), AppError> {
    match may_read(db, access, action, deployment)? {
        true => Ok(()),
        false => Err(AppError::not_found("deployment")),
    }
}

/// Whether the caller has the permission on the deployment's environment or on one of its stages.
pub(super) fn may_read(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    deployment: &Deployment,
) -> Result<bool, AppError> {
    if access.may_everywhere(action) {
        return Ok(true);
    }
    Ok(deployment_targets(db, deployment)?.iter().any(|target| access.may(action, target)))
}

/// Which stages of a deployment an operation affects.
#[derive(Debug, Clone, Copy)]
pub(super) enum AffectedStages<'a> {
    All,
    One(&'a str),
    /// A stage and those after it.
    From(&'a str),
}

/// Checks that the caller may operate a deployment. In stages this also requires permission to deploy to them.
pub(super) fn require_operable(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    deployment: &Deployment,
    affected: AffectedStages<'_>,
) -> Result<(), AppError> {
    let (operate, deploy) = (Action::DeploymentsOperate, Action::StagesDeploy);
    let is_in_stages = matches!(deployment.target, DeploymentTarget::Stages(_));
    if access.may_everywhere(operate) && (!is_in_stages || access.may_everywhere(deploy)) {
        return Ok(());
    }
    require_readable(db, access, Action::DeploymentsRead, deployment)?;
    let targets = deployment_targets(db, deployment)?;
    let is_named = |target: &AccessTarget, name: &str| match target {
        AccessTarget::Stage { stage, .. } => stage == name,
        _ => true,
    };
    let mut affected: Vec<&AccessTarget> = match affected {
        AffectedStages::All => Vec::new(),
        AffectedStages::One(name) => targets.iter().filter(|target| is_named(target, name)).collect(),
        AffectedStages::From(name) => targets.iter().skip_while(|target| !is_named(target, name)).collect(),
    };
    // The build belongs to no stage, and what it produces goes to all of them.
    if affected.is_empty() {
        affected = targets.iter().collect();
    }
    for target in affected {
        require(access, operate, target, "deployment")?;
        if is_in_stages {
            require(access, deploy, target, "deployment")?;
        }
    }
    Ok(())
}

/// The resource that a secret belongs to.
pub(super) fn secret_target(db: &mut impl StoreRead, scope: &ScopePath) -> Result<AccessTarget, AppError> {
    let Some(id) = scope.pipeline() else { return Ok(AccessTarget::Organization) };
    Ok(pipeline_slug(db, id)?.map_or(AccessTarget::Organization, AccessTarget::Pipeline))
}

/// Returns the resource that an event belongs to. `pipeline` is the slug of the event's pipeline.
pub(super) fn event_target(event: &Event, pipeline: Option<&str>) -> AccessTarget {
    let Some(pipeline) = pipeline.map(str::to_owned) else { return AccessTarget::Organization };
    let named = |kind: &str| {
        let subject = event.subjects.iter().find(|subject| subject.kind == kind)?;
        subject.name.clone()
    };
    match (named("environment"), event.data.get("stage").and_then(serde_json::Value::as_str)) {
        (Some(environment), _) => AccessTarget::Environment { pipeline, environment },
        (None, Some(stage)) => AccessTarget::Stage { pipeline, stage: stage.to_owned() },
        (None, None) => AccessTarget::Pipeline(pipeline),
    }
}

/// Reads a page of the rows that the caller may see, in the order of the list. `cursor` returns the position of a row.
pub(super) fn visible_page<D: StoreRead, T>(
    db: &mut D,
    (from, limit): (&PageStart, i64),
    mut fetch: impl FnMut(&mut D, &PageStart, i64) -> Result<ListPage<T>, StoreError>,
    cursor: impl Fn(&T) -> String,
    mut is_visible: impl FnMut(&mut D, &T) -> Result<bool, AppError>,
) -> Result<ListPage<T>, AppError> {
    let limit = usize::try_from(limit).unwrap_or(0);
    let (mut start, mut skipped) = match from {
        PageStart::Offset(offset) => (PageStart::Offset(0), *offset),
        after @ PageStart::After(_) => (after.clone(), 0),
    };
    let mut items = Vec::new();
    for _ in 0..SCANNED_PAGES_MAX {
        let page = fetch(db, &start, SCANNED_ROWS)?;
        let last = page.items.last().map(&cursor);
        for item in page.items {
            if !is_visible(db, &item)? {
                continue;
            }
            if skipped > 0 {
                skipped -= 1;
            } else if items.len() == limit {
                return Ok(ListPage { items, total: None, has_more: true });
            } else {
                items.push(item);
            }
        }
        let Some(last) = last.filter(|_| page.has_more) else {
            return Ok(ListPage { items, total: None, has_more: false });
        };
        start = PageStart::After(last);
    }
    let has_more = !items.is_empty();
    Ok(ListPage { items, total: None, has_more })
}

impl App {
    /// Adds to a refusal the names of members who can grant the missing permission.
    pub async fn name_grantors(&self, org: OrgId, refused: AppError) -> AppError {
        let AppError::Problem(problem) = refused else { return refused };
        if !problem.more.contains_key("permission") {
            return AppError::Problem(problem);
        }
        let read = self.services.store.read(Some(org), |db| {
            let mut names = Vec::new();
            for role in [Role::Admin, Role::Owner] {
                names.extend(member::list_people_with_role(db, role, GRANTORS_NAMED_MAX)?);
            }
            names.truncate(usize::try_from(GRANTORS_NAMED_MAX).unwrap_or(usize::MAX));
            Ok::<_, AppError>(names)
        });
        let names: Vec<String> = read.await.unwrap_or_default().iter().map(ToString::to_string).collect();
        AppError::Problem(Box::new(ProblemDetails::with_member(*problem, "grantedBy", names)))
    }
}
