//! What a notification is about.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::AccessTarget;
use crate::event::Event;

/// The resources that an event is about, copied from the event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NotificationSubject {
    /// The pipeline's slug, which never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
}

impl NotificationSubject {
    /// `pipeline` is the slug of the event's pipeline.
    pub fn of_event(event: &Event, pipeline: Option<&str>) -> Self {
        let subject = |kind: &str| event.subjects.iter().find(|subject| subject.kind == kind);
        let id = |kind: &str| subject(kind).map(|subject| subject.id.clone());
        let data = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            pipeline: pipeline.map(str::to_owned),
            environment: subject("environment").and_then(|subject| subject.name.clone()),
            stage: data("stage"),
            pipeline_id: id("pipeline"),
            deployment_id: id("deployment"),
            session_id: data("sessionId"),
            ticket_id: data("ticketId"),
            approval_id: id("approval"),
        }
    }

    /// Returns the resource whose readers may see the event.
    pub fn target(&self) -> AccessTarget {
        let Some(pipeline) = self.pipeline.clone() else { return AccessTarget::Organization };
        match (self.environment.clone(), self.stage.clone()) {
            (Some(environment), _) => AccessTarget::Environment { pipeline, environment },
            (None, Some(stage)) => AccessTarget::Stage { pipeline, stage },
            (None, None) => AccessTarget::Pipeline(pipeline),
        }
    }

    /// The environment or the stage.
    pub fn place(&self) -> Option<&str> {
        self.environment.as_deref().or(self.stage.as_deref())
    }
}
