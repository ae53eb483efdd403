//! List and view environments.

use berth_api::environment as wire;
use berth_core::access::{Action, permit};
use berth_core::environment::Lock;
use berth_core::id::EnvironmentId;
use berth_store::StoreRead;
use berth_store::tables::environment;

use super::{EnvironmentPath, response};
use crate::app::commit_details::fill_environments;
use crate::app::pull_requests::{find_link, with_link_tag};
use crate::app::resource_access::environment_in;
use crate::app::{ApiResponse, App, pipelines};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

impl App {
    pub async fn list_environments(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        key: String,
    ) -> Result<Vec<wire::WireEnvironment>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        self.read(who, move |db| {
            let found = pipelines::find(db, &access, Action::PipelinesRead, &key)?;
            let locks = environment::list_of_pipeline(db, found.id)?;
            let there = locks.iter().filter(|lock| lock.environment.is_declared || lock.session.is_some());
            let there = there.filter(|lock| {
                access.may(Action::EnvironmentsRead, &environment_in(&found.slug, &lock.environment))
            });
            let mut bodies = there.map(|lock| to_response(db, lock)).collect::<Result<Vec<_>, AppError>>()?;
            fill_environments(db, &config.forges, &mut bodies)?;
            Ok(bodies)
        })
        .await
    }

    pub async fn view_environment(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
    ) -> Result<ApiResponse<wire::WireEnvironment>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        self.read(who, move |db| {
            let lock = place.find(db, &access, Action::EnvironmentsRead)?;
            let mut body = to_response(db, &lock)?;
            fill_environments(db, &config.forges, [&mut body])?;
            let link = body.pull_request.clone();
            Ok(with_link_tag(with_environment_tag(ApiResponse::ok(body), &lock), link.as_ref()))
        })
        .await
    }

    /// Returns the id of an environment, for clients that subscribe to its events.
    pub async fn environment_id(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
    ) -> Result<EnvironmentId, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| Ok(place.find(db, &access, Action::EnvironmentsRead)?.environment.id)).await
    }
}

fn to_response(db: &mut impl StoreRead, lock: &Lock) -> Result<wire::WireEnvironment, AppError> {
    let pull_request = find_link(db, lock.session.as_ref().map(|session| session.id))?;
    Ok(wire::WireEnvironment { pull_request, ..response::environment_to_wire(lock) })
}

/// Sets the `ETag` of a response that shows an environment: the current fence, followed by the environment's version.
pub(super) fn with_environment_tag<T>(answer: ApiResponse<T>, lock: &Lock) -> ApiResponse<T> {
    let fence = lock.session.as_ref().map_or(lock.environment.fence, |session| session.fence);
    let version = lock.environment.version;
    // Pausing the pipeline changes the response, because it blocks deployments, but not the environment's version. The
    // `ETag` must change too.
    let is_held_up = lock.is_paused && !lock.deployments.is_empty();
    let variant = if is_held_up { format!("{version}.stopped") } else { version.to_string() };
    answer.with_version(fence.number()).with_variant(variant)
}
