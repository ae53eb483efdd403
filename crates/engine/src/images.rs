//! Pins the container images of a deployment to digests.
//!
//! The first attempt that uses an image resolves its tag. Every later attempt of the deployment gets the same digest, on
//! every runner. A runner can pin only the images of its own step, and no other digest than the one that the definition
//! names.

use berth_api::runner::LinkError;
use berth_core::deployment::run::{Plan, Run};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::expression::fill;
use berth_core::id::StepRunId;
use berth_core::pipeline::image::{ImageReference, is_digest};
use berth_store::TxContext;
use berth_store::tables::{attempt, image_pin, run};

use crate::error::EngineError;
use crate::remote::{RemoteCall, to_engine_error};
use crate::report::AttemptLocator;
use crate::runner_calls::{load_plan, unavailable, unknown_attempt};
use crate::services::Services;

/// Maximum number of pinned images of one deployment.
const IMAGE_PINS_MAX: i64 = 500;

/// Pins an image, unless it is pinned already. Returns the digest that the attempt must use.
pub(super) fn pin_image(
    services: &Services,
    it: &AttemptLocator,
    image: &str,
    digest: &str,
) -> Result<String, LinkError> {
    let reference = ImageReference::parse(image).ok().filter(|_| is_digest(digest));
    let Some(reference) = reference else {
        return Err(LinkError::Refused("the runner sent an invalid image or digest".into()));
    };
    if reference.digest.is_some_and(|named| named != digest) {
        return Err(LinkError::Refused("the runner sent another digest than the image names".into()));
    }
    let plan = load_plan(services, it)?;
    let (it, image, digest) = (it.clone(), image.to_owned(), digest.to_owned());
    let pinned = services.store.transact_blocking(TxContext::system(Some(it.org)), move |tx| {
        let live = attempt::find_live_by_nonce(tx, &it.nonce)?;
        if live.is_none_or(|live| (live.deployment, live.step) != (it.deployment, it.step)) {
            return Ok(Err(unknown_attempt()));
        }
        let run = run::by_id(tx, it.deployment)?;
        if !run.is_some_and(|run| uses_image(&plan, &run, it.step, &image)) {
            return Ok(Err(LinkError::Refused(format!("the step does not use the image {image}"))));
        }
        let pinned = match image_pin::find_digest(tx, it.deployment, &image)? {
            Some(pinned) => pinned,
            None if image_pin::count(tx, it.deployment)? >= IMAGE_PINS_MAX => {
                let text = format!("a deployment may use at most {IMAGE_PINS_MAX} images");
                return Ok(Err(LinkError::Refused(text)));
            }
            None => {
                image_pin::insert(tx, it.deployment, &image, &digest)?;
                let event = NewEvent::new(
                    EventKind::ImagePinned,
                    EventSubject::new("deployment", it.deployment, None),
                );
                tx.record(event.with("image", image.as_str()).with("digest", digest.as_str()))?;
                digest
            }
        };
        attempt::add_image(tx, it.deployment, it.step, it.number, format!("{image}@{pinned}"))?;
        Ok::<_, EngineError>(Ok(pinned))
    });
    pinned.map_err(unavailable)?
}

/// Whether the step runs in the image, or has a service with it.
fn uses_image(plan: &Plan, run: &Run, id: StepRunId, image: &str) -> bool {
    let Some(step) = run.steps.iter().find(|step| step.id == id) else { return false };
    let planned = &plan.stages[step.stage].steps[step.index];
    let contexts = plan.contexts_for(run, step.stage);
    let services = planned.services.values().map(|service| &service.image);
    let mut texts = planned.container.iter().map(|container| &container.image).chain(services);
    texts.any(|text| fill(text, &contexts).is_ok_and(|filled| filled == image))
}

impl RemoteCall {
    /// Pins an image of an attempt to a digest.
    pub async fn pin_image(self, nonce: &str, image: String, digest: String) -> Result<String, EngineError> {
        let it = self.find_live_attempt(nonce).await?;
        let pinned = self.blocking(move |services| pin_image(services, &it, &image, &digest)).await?;
        pinned.map_err(to_engine_error)
    }
}
