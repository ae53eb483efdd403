//! Resolves images to digests, and pulls them.
//!
//! The first attempt of a deployment that uses an image resolves its tag and pins the digest on the server. All other
//! attempts get that digest, on every runner.
//!
//! All steps share the images of the engine, so an image that is there may have been pulled with the credential of another
//! step. Only the registry knows who may use it. It is asked unless the runner has pulled the image without a credential
//! before, or the image is one of the machine's own, below `localhost/`. If the engine's user is logged in to a registry,
//! Podman pulls with that login, so all steps may use those images.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use berth_api::runner::{ImagePull, SecretText, StepRunOutcome};
use berth_core::pipeline::image::ImageReference;
use berth_core::wording::quote;
use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt as _;
use parking_lot::Mutex;

use super::engine::ContainerEngine;
use crate::attempt::{LinkParts, RunningAttempt, invalid_outcome};

/// Interval between two progress lines of a pull.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
const LATEST: &str = "latest";
/// Number of images whose registries are not asked again.
const PUBLIC_IMAGES_MAX: usize = 1000;

/// Pins an image to a digest and makes it available. Returns the image's id, which no tag can change.
pub(super) fn pin(
    attempt: &RunningAttempt<'_>,
    engine: &ContainerEngine,
    text: &str,
    pull: ImagePull,
) -> Result<String, StepRunOutcome> {
    let image = ImageReference::parse(text)
        .map_err(|why| invalid_outcome(format!("the image {} {why}", quote(text))))?;
    if pull == ImagePull::Never && !image.is_local() {
        return Err(invalid_outcome(format!(
            "the image {text} belongs to a registry, and the step has `pull: never`; the machine's own images begin with `localhost/`"
        )));
    }
    let source = ImageSource { attempt, engine, image: &image, pull };
    let (resolved, digest) = match &image.digest {
        Some(digest) => (None, digest.clone()),
        None => {
            let found = source.find_or_pull(text, true)?;
            let digest = digest_of(&found, &image).ok_or_else(|| {
                StepRunOutcome::never_started(format!(
                    "the engine does not know a digest of the image {text}"
                ))
            })?;
            (Some(found), digest)
        }
    };
    let LinkParts { link, attempt: reference } = attempt.parts();
    let what = format!("pin the image {text}");
    let pinned = attempt.retry_link_call(&what, || link.pin_image(reference, text, &digest))?;
    check_pinned(text, &image, &pinned)?;
    let used = match resolved {
        Some(found) if pinned == digest => found,
        _ => source.find_or_pull(&image.with_digest(&pinned), false)?,
    };
    attempt.log.write_line(&format!("[berth] image {text} is {pinned}"));
    used.id.ok_or_else(|| StepRunOutcome::never_started(format!("the image {text} has no id")))
}

/// Refuses another digest than the one that the definition names.
pub(crate) fn check_pinned(text: &str, image: &ImageReference, pinned: &str) -> Result<(), StepRunOutcome> {
    if image.digest.as_deref().is_some_and(|digest| digest != pinned) {
        return Err(invalid_outcome(format!("the server pinned the image {text} to {pinned}")));
    }
    Ok(())
}

struct ImageSource<'a> {
    attempt: &'a RunningAttempt<'a>,
    engine: &'a ContainerEngine,
    image: &'a ImageReference,
    pull: ImagePull,
}

impl ImageSource<'_> {
    /// Finds an image on this machine that the step may use, or pulls it as the step allows. An image with a digest
    /// cannot have changed, so `pull: always` does not apply to it.
    fn find_or_pull(&self, reference: &str, may_change: bool) -> Result<ImageInspect, StepRunOutcome> {
        if !(may_change && self.pull == ImagePull::Always)
            && let Some(found) = self.inspect(reference)?
            && self.is_free_to_use(&found)
        {
            return Ok(found);
        }
        if self.pull == ImagePull::Never {
            return Err(invalid_outcome(format!(
                "the image {reference} is not on this runner, and the step has `pull: never`"
            )));
        }
        let is_anonymous = self.pull_image(reference)?;
        let pulled = self.inspect(reference)?.ok_or_else(|| {
            StepRunOutcome::never_started(format!("the image {reference} is missing after it was pulled"))
        })?;
        if is_anonymous && let Some(digest) = digest_of(&pulled, self.image) {
            self.engine.public_images.insert(self.image.with_digest(&digest));
        }
        Ok(pulled)
    }

    /// Whether the step may use an image of this machine without asking its registry.
    fn is_free_to_use(&self, found: &ImageInspect) -> bool {
        self.image.is_local()
            || digest_of(found, self.image)
                .is_some_and(|digest| self.engine.public_images.contains(&self.image.with_digest(&digest)))
    }

    fn inspect(&self, reference: &str) -> Result<Option<ImageInspect>, StepRunOutcome> {
        match self.engine.call(self.attempt, self.engine.docker.inspect_image(reference))? {
            Ok(found) => Ok(Some(found)),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(error) => Err(super::never_started(&format!("look up the image {reference}"), &error)),
        }
    }

    /// Returns whether the image was pulled without a credential.
    fn pull_image(&self, reference: &str) -> Result<bool, StepRunOutcome> {
        let log = &self.attempt.log;
        log.write_line(&format!("[berth] pulling {reference}"));
        let has_version = self.image.tag.is_some() || reference.contains('@');
        let from = if has_version { reference.to_owned() } else { format!("{reference}:{LATEST}") };
        let options = CreateImageOptions { from_image: Some(from), ..Default::default() };
        let mut layers = PullProgress::default();
        let credential = credential_for(self.attempt, self.image)?;
        let is_anonymous = credential.is_none();
        let mut stream = self.engine.docker.create_image(Some(options), None, credential);
        let mut said = Instant::now();
        let pulled = self.engine.call(self.attempt, async {
            while let Some(info) = stream.next().await {
                let info = info?;
                if let Some(error) = info.error_detail.as_ref().and_then(|it| it.message.clone()) {
                    return Err(Error::DockerStreamError { error });
                }
                layers.record(info);
                if said.elapsed() >= PROGRESS_INTERVAL
                    && let Some(percent) = layers.percent()
                {
                    said = Instant::now();
                    log.write_line(&format!("[berth] pulling {reference} {percent} %"));
                }
            }
            Ok(())
        })?;
        pulled.map_err(|error| super::never_started(&format!("pull the image {reference}"), &error))?;
        Ok(is_anonymous)
    }
}

/// Images with digests that this process has pulled without a credential.
#[derive(Default)]
pub(super) struct PublicImages(Mutex<HashSet<String>>);

impl PublicImages {
    fn insert(&self, image: String) {
        let mut images = self.0.lock();
        if images.len() >= PUBLIC_IMAGES_MAX {
            images.clear();
        }
        images.insert(image);
    }

    fn contains(&self, image: &str) -> bool {
        self.0.lock().contains(image)
    }
}

/// Bytes of each layer.
#[derive(Default)]
struct PullProgress {
    layers: HashMap<String, (i64, i64)>,
}

impl PullProgress {
    fn record(&mut self, info: CreateImageInfo) {
        let bytes = info.progress_detail.and_then(|it| Some((it.current?, it.total?)));
        if let (Some(id), Some((current, total))) = (info.id, bytes)
            && total > 0
        {
            self.layers.insert(id, (current.clamp(0, total), total));
        }
    }

    fn percent(&self) -> Option<i64> {
        let (current, total) = self.layers.values().fold((0_i64, 0_i64), |(current, total), layer| {
            (current.saturating_add(layer.0), total.saturating_add(layer.1))
        });
        (total > 0).then(|| current.saturating_mul(100) / total)
    }
}

/// Returns the credential for an image's registry, in the form that the engine expects.
fn credential_for(
    attempt: &RunningAttempt<'_>,
    image: &ImageReference,
) -> Result<Option<DockerCredentials>, StepRunOutcome> {
    Ok(find_login(attempt, image)?.map(|(user, password)| DockerCredentials {
        username: Some(user.to_owned()),
        password: Some(password.to_owned()),
        serveraddress: Some(image.registry().to_owned()),
        ..Default::default()
    }))
}

/// Returns user and password for an image's registry. They are only sent to the registry that the step declares them for,
/// which is that of its own image.
pub(crate) fn find_login<'a>(
    attempt: &'a RunningAttempt<'_>,
    image: &ImageReference,
) -> Result<Option<(&'a str, &'a str)>, StepRunOutcome> {
    let Some(credential) = &attempt.assignment.registry_credential else { return Ok(None) };
    let own = attempt.assignment.container.as_ref().map(|it| ImageReference::parse(&it.image));
    if let Some(own) = own
        && own.map_or(true, |own| own.registry() != image.registry())
    {
        return Ok(None);
    }
    split_credential(credential).map(Some)
}

/// Splits a credential into user and password.
pub(super) fn split_credential(credential: &SecretText) -> Result<(&str, &str), StepRunOutcome> {
    credential
        .reveal()
        .trim_end()
        .split_once(':')
        .ok_or_else(|| invalid_outcome("the secret of `credential` is not of the form USER:PASSWORD".into()))
}

/// Returns the digest in the registry or, for an image that was made on this machine, its id.
fn digest_of(found: &ImageInspect, image: &ImageReference) -> Option<String> {
    let digests = found.repo_digests.iter().flatten();
    let suffix = format!("/{}", image.name);
    let own = digests
        .filter_map(|it| it.split_once('@'))
        .find(|(name, _)| *name == image.name || name.ends_with(&suffix));
    own.map(|(_, digest)| digest.to_owned()).or_else(|| found.id.clone())
}
