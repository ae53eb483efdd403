//! Deployments and environments of GitHub and GitLab. Environments are created by the forge with the first deployment.

use berth_core::forge::progress::DeploymentProgress;
use serde_json::Value;

use super::{DESCRIPTION_CHARS_MAX, ForgeClient, ForgeError, ForgeRepository, ForgeRequest};

/// A deployment to create on the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentDraft {
    /// Berth's id of the deployment.
    pub deployment: String,
    pub environment: String,
    /// The full hash.
    pub commit: String,
    pub is_transient: bool,
}

/// The state of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentUpdate {
    pub progress: DeploymentProgress,
    /// At most [`DESCRIPTION_CHARS_MAX`] characters are sent.
    pub description: String,
    /// The page with the steps and logs.
    pub log_url: Option<String>,
    /// The page of the environment or pipeline.
    pub environment_url: Option<String>,
}

/// The deployments of one forge type.
pub trait DeploymentApi {
    /// What a credential must be allowed to do, for the message to the user.
    fn permission(&self) -> &'static str;

    /// Whether a deployment in this state is created on the forge. Otherwise Berth waits for the next state.
    fn has_state(&self, progress: DeploymentProgress) -> bool;

    /// Returns the URL that lists deployments among which is one that was created from this draft.
    fn list_url(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> String;

    /// Whether a listed deployment was created from this draft.
    fn is_created_from(&self, listed: &Value, draft: &DeploymentDraft) -> bool;

    fn create(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> ForgeRequest;

    /// Returns the request that changes the state. `None` if the forge has no such state.
    fn set_state(&self, at: &ForgeRepository, id: &str, update: &DeploymentUpdate) -> Option<ForgeRequest>;

    /// Returns the URL of a deployment that contains its state. `None` if every state may be repeated.
    fn state_url(&self, _at: &ForgeRepository, _id: &str) -> Option<String> {
        None
    }

    /// Whether the response to `state_url` has this state.
    fn is_in_state(&self, _found: &Value, _progress: DeploymentProgress) -> bool {
        false
    }
}

impl ForgeClient {
    /// Creates a deployment, unless an earlier attempt has created it. Returns its id. `None` if the forge has no
    /// deployments, or none in this state.
    pub fn open_deployment(
        &self,
        draft: &DeploymentDraft,
        progress: DeploymentProgress,
    ) -> Result<Option<String>, ForgeError> {
        let Some(api) = self.forge.deployments().filter(|api| api.has_state(progress)) else {
            return Ok(None);
        };
        let answered = self.get_json(api.list_url(&self.at, draft))?;
        let listed = self.parse_response(&answered)?;
        let listed = listed.as_array().ok_or(ForgeError::Odd)?;
        if let Some(found) = listed.iter().find(|it| api.is_created_from(it, draft)) {
            return self.forge.parse_id(found).map(Some).ok_or(ForgeError::Odd);
        }
        self.create(api.create(&self.at, draft)).map(Some)
    }

    /// Sets the state of a deployment. A deployment that was deleted on the forge stays deleted.
    pub fn set_deployment_state(&self, id: &str, update: &DeploymentUpdate) -> Result<(), ForgeError> {
        let Some(api) = self.forge.deployments() else { return Ok(()) };
        let description = update.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        let update = DeploymentUpdate { description, ..update.clone() };
        let Some(request) = api.set_state(&self.at, id, &update) else { return Ok(()) };
        match self.change(request) {
            Err(ForgeError::NotFound) => Ok(()),
            // The deployment may have this state already, after a response that was lost.
            Err(ForgeError::Refused { status: 400, said }) => {
                let refused = Err(ForgeError::Refused { status: 400, said });
                let Some(url) = api.state_url(&self.at, id) else { return refused };
                let answered = self.get_json(url)?;
                let found = self.parse_response(&answered)?;
                if api.is_in_state(&found, update.progress) { Ok(()) } else { refused }
            }
            done => done.map(drop),
        }
    }
}
