//! Finds the step of a deployment that soaks.

use berth_api::deployment::{DeploymentStep, StepStatus, WireDeployment};

use super::watch;
use crate::client::{ApiClient, ClientError};

/// Type of the built-in step that waits after a deployment.
const SOAK_STEP: &str = "soak";

/// Returns the id of the step with this id or name, or of the only step that soaks.
pub(super) fn find_soak(
    client: &ApiClient,
    deployment: &str,
    wanted: Option<&str>,
) -> anyhow::Result<String> {
    let found: WireDeployment = client.get(&watch::deployment_path(deployment))?.data;
    let is_over = |it: &DeploymentStep| {
        matches!(
            it.status,
            StepStatus::Succeeded | StepStatus::Failed | StepStatus::Cancelled | StepStatus::Skipped
        )
    };
    let steps = found.stages.iter().filter_map(|stage| stage.steps.as_ref()).flatten();
    let soaks: Vec<&DeploymentStep> = steps
        .filter(|it| match wanted {
            Some(wanted) => it.id == wanted || it.step == wanted || it.name == wanted,
            None => it.kind == SOAK_STEP && it.started_at.is_some(),
        })
        .filter(|it| wanted.is_some() || !is_over(it))
        .collect();
    match (soaks.as_slice(), wanted) {
        ([one], _) => Ok(one.id.clone()),
        ([], Some(wanted)) => {
            Err(ClientError::NotFound(format!("no step {wanted} in this deployment")).into())
        }
        ([], None) => Err(ClientError::NotFound("no step of this deployment soaks".to_owned()).into()),
        (several, _) => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            Err(ClientError::Usage(format!("several steps match; specify {}", ids.join(" or "))).into())
        }
    }
}
