//! Events of the audit log: what happened, who did it, and what it affected. An event is appended in the same
//! transaction as the change it describes.
//!
//! New event kinds are added, but none is ever renamed or removed. Kinds are stored as text, so an older version of
//! Berth can read events of newer kinds.

mod summary;

pub use summary::summarize;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{EventId, OrgId, TokenId, UserId};
use crate::time::Timestamp;

macro_rules! kinds {
    ($($name:ident = $text:literal,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind { $($name,)+ }

        impl EventKind {
            pub const ALL: &'static [EventKind] = &[$(EventKind::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(EventKind::$name => $text),+ }
            }
        }
    };
}

kinds! {
    OrganizationCreated = "organization_created",
    OrganizationUpdated = "organization_updated",
    MemberInvited = "member_invited",
    InvitationRevoked = "invitation_revoked",
    MemberAdded = "member_added",
    MemberUpdated = "member_updated",
    MemberRemoved = "member_removed",
    TeamCreated = "team_created",
    TeamUpdated = "team_updated",
    TeamDeleted = "team_deleted",
    TeamMemberAdded = "team_member_added",
    TeamMemberRemoved = "team_member_removed",
    GrantCreated = "grant_created",
    GrantDeleted = "grant_deleted",
    TokenCreated = "token_created",
    TokenRevoked = "token_revoked",
    LoginSucceeded = "login_succeeded",
    LoginFailed = "login_failed",
    LoginEnded = "login_ended",
    LoginsEnded = "logins_ended",
    CliLoginApproved = "cli_login_approved",
    CliLoginDenied = "cli_login_denied",
    IdentityLinked = "identity_linked",
    IdentityUnlinked = "identity_unlinked",
    AccountProvisioned = "account_provisioned",
    AccessSuspended = "access_suspended",
    AccessRestored = "access_restored",
    PasswordChanged = "password_changed",
    PasswordResetRequested = "password_reset_requested",
    AccessDenied = "access_denied",
    PipelineCreated = "pipeline_created",
    PipelineUpdated = "pipeline_updated",
    PipelineStopped = "pipeline_stopped",
    PipelineResumed = "pipeline_resumed",
    PipelineDeleted = "pipeline_deleted",
    RepositoryCreated = "repository_created",
    RepositoryUpdated = "repository_updated",
    RepositoryDeleted = "repository_deleted",
    RepositorySynced = "repository_synced",
    RepositoryConnected = "repository_connected",
    RepositoryDisconnected = "repository_disconnected",
    SessionClaimed = "session_claimed",
    SessionExtended = "session_extended",
    SessionReleased = "session_released",
    SessionOverridden = "session_overridden",
    SessionExpired = "session_expired",
    SessionExpiring = "session_expiring",
    SessionHandedOver = "session_handed_over",
    TicketQueued = "ticket_queued",
    TicketGranted = "ticket_granted",
    TicketCancelled = "ticket_cancelled",
    TicketExpired = "ticket_expired",
    EnvironmentDrained = "environment_drained",
    EnvironmentReset = "environment_reset",
    EnvironmentRestored = "environment_restored",
    EnvironmentFenceRefused = "environment_fence_refused",
    DrainOverridden = "drain_overridden",
    DeploymentQueued = "deployment_queued",
    DeploymentStarted = "deployment_started",
    DeploymentSucceeded = "deployment_succeeded",
    DeploymentFailed = "deployment_failed",
    DeploymentCancelling = "deployment_cancelling",
    DeploymentCancelled = "deployment_cancelled",
    DeploymentSuperseded = "deployment_superseded",
    DeploymentRolledBack = "deployment_rolled_back",
    RollbackSkipped = "rollback_skipped",
    PromotionPaused = "promotion_paused",
    PromotionResumed = "promotion_resumed",
    FinishedAfterCancel = "finished_after_cancel",
    StageStarted = "stage_started",
    StageSucceeded = "stage_succeeded",
    StageFailed = "stage_failed",
    StageCancelling = "stage_cancelling",
    StageCancelled = "stage_cancelled",
    StageRetried = "stage_retried",
    StepStarted = "step_started",
    StepTriggered = "step_triggered",
    StepSucceeded = "step_succeeded",
    StepFailed = "step_failed",
    StepRetried = "step_retried",
    StepCancelled = "step_cancelled",
    StepUnknown = "step_unknown",
    StepResolved = "step_resolved",
    SoakEnded = "soak_ended",
    ApprovalRequested = "approval_requested",
    ApprovalVoted = "approval_voted",
    ApprovalApproved = "approval_approved",
    ApprovalRejected = "approval_rejected",
    ApprovalExpired = "approval_expired",
    ApprovalLapsed = "approval_lapsed",
    BypassUsed = "bypass_used",
    SecretCreated = "secret_created",
    SecretUpdated = "secret_updated",
    SecretDeleted = "secret_deleted",
    SecretRead = "secret_read",
    RootKeyRotated = "root_key_rotated",
    WebhookCreated = "webhook_created",
    WebhookUpdated = "webhook_updated",
    WebhookRotated = "webhook_rotated",
    WebhookDeactivated = "webhook_deactivated",
    WebhookDeleted = "webhook_deleted",
    RegistryCreated = "registry_created",
    RegistryUpdated = "registry_updated",
    RegistryDeleted = "registry_deleted",
    RegistrySynced = "registry_synced",
    RegistryBuilt = "registry_built",
    RegistryBuildFailed = "registry_build_failed",
    RunnerCreated = "runner_created",
    RunnerRegistered = "runner_registered",
    RunnerDeleted = "runner_deleted",
    EpochRaised = "epoch_raised",
    EpochRefused = "epoch_refused",
    AnalysisRequested = "analysis_requested",
    AnalysisStarted = "analysis_started",
    AnalysisModelAsked = "analysis_model_asked",
    AnalysisSucceeded = "analysis_succeeded",
    AnalysisFailed = "analysis_failed",
    AnalysisSettingsUpdated = "analysis_settings_updated",
    FixPullRequestRequested = "fix_pull_request_requested",
    FixPullRequestOpened = "fix_pull_request_opened",
    FixPullRequestFailed = "fix_pull_request_failed",
    FixPullRequestMerged = "fix_pull_request_merged",
    FixPullRequestClosed = "fix_pull_request_closed",
    EventsRemoved = "events_removed",
    SecondFactorEnabled = "second_factor_enabled",
    SecondFactorDisabled = "second_factor_disabled",
    SecondFactorReset = "second_factor_reset",
    RecoveryCodesReplaced = "recovery_codes_replaced",
    RecoveryCodeUsed = "recovery_code_used",
    IdTokenIssued = "id_token_issued",
    OrganizationDeleted = "organization_deleted",
    TicketUpdated = "ticket_updated",
    PullRequestApproved = "pull_request_approved",
    ForgeAccountLinked = "forge_account_linked",
    ForgeAccountUnlinked = "forge_account_unlinked",
    ForgeAppCreated = "forge_app_created",
    ForgeAppInstalled = "forge_app_installed",
    ForgeAppUninstalled = "forge_app_uninstalled",
    ForgeAppDeleted = "forge_app_deleted",
    ImagePinned = "image_pinned",
    AgentsStopped = "agents_stopped",
    AgentsResumed = "agents_resumed",
    NotificationRulesUpdated = "notification_rules_updated",
    ChatDestinationCreated = "chat_destination_created",
    ChatDestinationDeleted = "chat_destination_deleted",
    SlackConnected = "slack_connected",
    SlackDisconnected = "slack_disconnected",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who acted. The name is a copy, so that the audit log stays readable after a rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    #[serde(rename = "type")]
    pub kind: ActorType,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<UserId>,
    pub name: String,
    /// The API token of the request, if one was used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<TokenId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorType {
    User,
    Service,
    System,
}

impl Actor {
    pub fn system() -> Self {
        Self { kind: ActorType::System, id: None, name: "berth".into(), token: None }
    }
}

/// A record that an event is about, such as type `pipeline` and id `pl_…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSubject {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

impl EventSubject {
    pub fn new(kind: &str, id: impl fmt::Display, name: Option<&str>) -> Self {
        Self { kind: kind.to_owned(), id: id.to_string(), name: name.map(str::to_owned) }
    }
}

/// An event to append. The transaction adds the actor, the time and the request id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub kind: EventKind,
    /// The actor, if it is not the caller. For example, the system ends an expired session.
    pub by: Option<Actor>,
    pub subjects: Vec<EventSubject>,
    /// Details that depend on the kind. Never contains a secret or a request body.
    pub data: serde_json::Value,
}

impl NewEvent {
    pub fn new(kind: EventKind, subject: EventSubject) -> Self {
        Self {
            kind,
            by: None,
            subjects: vec![subject],
            data: serde_json::Value::Object(serde_json::Map::default()),
        }
    }

    #[must_use]
    pub fn with_subject(mut self, subject: EventSubject) -> Self {
        self.subjects.push(subject);
        self
    }

    /// Like [`NewEvent::with`], for optional details.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value.to_string()),
            None => self,
        }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        if let serde_json::Value::Object(facts) = &mut self.data {
            facts.insert(name.to_owned(), value.into());
        }
        self
    }
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub org: OrgId,
    /// Position in the organization's audit log, from 1 and without gaps.
    pub sequence: i64,
    pub kind: String,
    pub occurred_at: Timestamp,
    pub actor: Actor,
    pub request_id: Option<String>,
    pub subjects: Vec<EventSubject>,
    pub data: serde_json::Value,
    /// Links the event into a hash chain: each event's hash covers the previous event's hash, which makes later edits
    /// detectable.
    pub previous_hash: String,
    pub hash: String,
}
