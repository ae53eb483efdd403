//! Links to the dashboard in messages.

use berth_core::notification::NotificationSubject;

/// The dashboard page of what a notification is about, below the organization.
pub(super) fn page_of(subject: &NotificationSubject) -> Option<String> {
    match (&subject.deployment_id, &subject.pipeline, &subject.environment) {
        (Some(deployment), ..) => Some(format!("/deployments/{deployment}")),
        (None, Some(pipeline), Some(environment)) => Some(format!("/environments/{pipeline}/{environment}")),
        (None, Some(pipeline), None) => Some(format!("/pipelines/{pipeline}")),
        (None, None, _) => None,
    }
}
