//! The claims of a token. They are read in the transaction that grants the step, so a step whose session has ended gets
//! none.

use berth_core::deployment::run::{Attempt, StageType};
use berth_core::deployment::{DeploymentPurpose, StartTrigger};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::pipeline::grammar::EnvVarName;
use berth_core::time::Timestamp;
use berth_store::Tx;
use berth_store::tables::{organization, pipeline};
use serde_json::{Map, Value};

use crate::aggregate::DeploymentAggregate;
use crate::error::EngineError;
use crate::loaded::LoadedDeployment;

pub(crate) struct StepClaims {
    pub(crate) file: EnvVarName,
    pub(crate) audience: String,
    pub(crate) subject: String,
    /// Identifies the call of the step.
    pub(crate) attempt: String,
    /// The token expires with its session.
    pub(crate) session_ends_at: Option<Timestamp>,
    /// Claims in addition to the registered ones.
    pub(crate) custom: Map<String, Value>,
}

/// Returns the claims of a granted step that asks for a token, or a text for users that says why it gets none. Records
/// the first token of each attempt.
pub(crate) fn grant_claims(
    tx: &mut Tx<'_>,
    aggregate: &DeploymentAggregate,
    at: usize,
    attempt: &Attempt,
    is_repeated: bool,
) -> Result<Option<Result<StepClaims, String>>, EngineError> {
    let step = &aggregate.run.steps[at];
    let stage = &aggregate.plan.stages[step.stage];
    let Some(request) = &stage.steps[step.index].id_token else { return Ok(None) };
    if aggregate.deployment.is_untrusted() {
        let text = "steps that run the commit of a fork get no ID tokens";
        return Ok(Some(Err(text.to_owned())));
    }
    let session_ends_at = match find_session_end(aggregate, tx.now()) {
        Ok(ends_at) => ends_at,
        Err(why) => return Ok(Some(Err(why))),
    };
    let org = organization::by_id(tx, tx.org()?)?.ok_or_else(|| EngineError::bug("no organization"))?;
    let Some(pipeline) = pipeline::by_id(tx, aggregate.run.pipeline)? else {
        return Ok(Some(Err("the pipeline was deleted, so the step gets no ID token".to_owned())));
    };
    let place = match stage.kind {
        StageType::Build => "build".to_owned(),
        StageType::Stage => format!("stage:{}", stage.name),
        StageType::Environment => format!("environment:{}", stage.name),
    };
    let mut custom = deployment_claims(aggregate);
    for (name, value) in [
        ("organization_id", org.id.to_string()),
        ("organization", org.slug.to_string()),
        ("pipeline_id", pipeline.id.to_string()),
        ("pipeline", pipeline.slug.to_string()),
        ("deployment", aggregate.run.deployment.to_string()),
        ("step", step.step.to_string()),
    ] {
        custom.insert(name.to_owned(), value.into());
    }
    if !is_repeated && attempt.calls == 1 {
        let event = NewEvent::new(
            EventKind::IdTokenIssued,
            EventSubject::new("deployment", aggregate.run.deployment, None),
        );
        let event = event
            .with_subject(EventSubject::new("pipeline", pipeline.id, None))
            .with_subject(EventSubject::new("step", step.id, Some(step.step.as_str())));
        tx.record(event.with("stage", stage.name.as_str()).with("audience", request.audience.as_str()))?;
    }
    Ok(Some(Ok(StepClaims {
        file: request.file.clone(),
        audience: request.audience.clone(),
        subject: format!("org:{}:pipeline:{}:{place}", org.slug, pipeline.slug),
        attempt: format!("{}.{}.{}", step.id, attempt.number, attempt.calls),
        session_ends_at,
        custom,
    })))
}

/// Returns when the session of the deployment expires. Fails if the session or the deployment has already ended; its
/// row may not have been updated yet.
fn find_session_end(aggregate: &DeploymentAggregate, now: Timestamp) -> Result<Option<Timestamp>, String> {
    let ended = || "the session or the deployment has ended, so the step gets no ID token".to_owned();
    if !aggregate.can_proceed() {
        return Err(ended());
    }
    let LoadedDeployment::Environment { lock, deployment } = &aggregate.deployment else { return Ok(None) };
    let session = match deployment.target.purpose {
        DeploymentPurpose::Reset => return Ok(None),
        DeploymentPurpose::Session(_) => lock.session.as_ref().ok_or_else(ended)?,
    };
    match session.expires_at {
        Some(at) if at <= now => Err(ended()),
        ends_at => Ok(ends_at),
    }
}

fn deployment_claims(aggregate: &DeploymentAggregate) -> Map<String, Value> {
    let mut claims = Map::new();
    let commit = match &aggregate.deployment {
        LoadedDeployment::Environment { deployment, .. } => {
            claims.insert("fence".into(), deployment.target.fence.number().into());
            if let DeploymentPurpose::Session(session) = deployment.target.purpose {
                claims.insert("session".into(), session.to_string().into());
            }
            &deployment.commit
        }
        LoadedDeployment::Stages { deployment, .. } => {
            if let StartTrigger::Push { branch } = &deployment.target.trigger {
                claims.insert("ref".into(), format!("refs/heads/{branch}").into());
            }
            &deployment.commit
        }
    };
    let resolved = aggregate.plan.source.as_ref().map(|source| source.commit.clone());
    claims.insert("commit".into(), resolved.unwrap_or_else(|| commit.to_string()).into());
    claims
}
