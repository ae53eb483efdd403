//! `image_build`: builds a container image with the runner's container engine.

use super::BuiltinStep;
use crate::attempt::{RunningAttempt, StepResult};
use crate::container::build_image;

pub(super) struct ImageBuildStep;

impl BuiltinStep for ImageBuildStep {
    fn name(&self) -> &'static str {
        "image_build"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        build_image(attempt)
    }
}
