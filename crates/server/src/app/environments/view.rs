//! List and view environments.

use berth_api::environment as wire;
use berth_core::access::permit;
use berth_core::environment::Lock;
use berth_core::id::EnvironmentId;
use berth_store::tables::{environment, pipeline};

use super::{Place, shown};
use crate::app::{Answer, App};
use crate::auth::authorize::Authorized;
use crate::error::AppError;

impl App {
    pub async fn list_environments(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        key: String,
    ) -> Result<Vec<wire::Environment>, AppError> {
        self.read(who, move |db| {
            let found = pipeline::find(db, &key)?.ok_or_else(|| AppError::not_found("pipeline"))?;
            let locks = environment::of_pipeline(db, found.id)?;
            let there = locks.iter().filter(|lock| lock.environment.is_declared || lock.session.is_some());
            Ok(there.map(shown::environment).collect())
        })
        .await
    }

    pub async fn view_environment(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        place: Place,
    ) -> Result<Answer<wire::Environment>, AppError> {
        self.read(who, move |db| {
            let lock = place.find(db)?;
            Ok(tagged(Answer::ok(shown::environment(&lock)), &lock))
        })
        .await
    }

    /// The id of an environment, for clients that subscribe to its events.
    pub async fn environment_id(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        place: Place,
    ) -> Result<EnvironmentId, AppError> {
        self.read(who, move |db| Ok(place.find(db)?.environment.id)).await
    }
}

/// Sets the `ETag` of a response that shows an environment: the current fence, then the version of the environment.
pub(super) fn tagged<T>(answer: Answer<T>, lock: &Lock) -> Answer<T> {
    let fence = lock.session.as_ref().map_or(lock.environment.fence, |session| session.fence);
    let version = lock.environment.version;
    // Stopping the pipeline changes what blocks its deployments without changing the environment.
    let is_held_up = lock.is_paused && !lock.deployments.is_empty();
    let variant = if is_held_up { format!("{version}.stopped") } else { version.to_string() };
    answer.at_version(fence.number()).varying_by(variant)
}
