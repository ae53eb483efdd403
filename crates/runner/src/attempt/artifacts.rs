//! Uploads the artifacts that a step declares.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use berth_api::runner::{FailureCause, StepRunOutcome};

use super::{RunningAttempt, failed_outcome};

/// Uploads every declared artifact. Returns the digests by artifact name.
pub(crate) fn keep_artifacts(
    attempt: &RunningAttempt<'_>,
) -> Result<BTreeMap<String, String>, StepRunOutcome> {
    let mut kept = BTreeMap::new();
    if attempt.assignment.artifacts.is_empty() {
        return Ok(kept);
    }
    let workspace = &attempt.workspace_dirs()?.workspace;
    for (name, path) in &attempt.assignment.artifacts {
        check_artifact_path(workspace, path).map_err(|problem| {
            failed_outcome(FailureCause::MissingArtifact, format!("the artifact `{name}` {problem}"))
        })?;
        let parts = attempt.parts();
        let digest = attempt.retry_link_call(&format!("keep the artifact `{name}`"), || {
            parts.link.keep_artifact(parts.attempt, name, (workspace, path), &|| attempt.is_still_wanted())
        })?;
        kept.insert(name.clone(), digest);
    }
    Ok(kept)
}

/// Checks that the path exists and does not lead outside the workspace.
fn check_artifact_path(workspace: &Path, path: &str) -> Result<(), String> {
    let is_below = Path::new(path)
        .components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    if !is_below {
        return Err(format!("names `{path}`, which is not below the workspace"));
    }
    let missing = || format!("is missing: the step has left nothing at `{path}`");
    let found = workspace.join(path).canonicalize().map_err(|_| missing())?;
    // The step may also have replaced the workspace itself with a symlink.
    let is_its_own = workspace.canonicalize().is_ok_and(|real| real == workspace);
    if !is_its_own || !found.starts_with(workspace) {
        return Err(format!("leads out of the workspace: `{path}` is a link"));
    }
    Ok(())
}
