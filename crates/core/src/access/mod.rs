//! Roles, permissions, and who may do what: [`EffectiveAccess`] decides from a member's role and scoped grants.

mod effective;
mod scope;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use effective::{AccessDecision, AccessSource, EffectiveAccess, ScopedGrant, TokenRestriction};
pub use scope::{AccessScope, AccessTarget, InvalidScope, NamePattern};

/// A fixed set of permissions. A member has one role in the whole organization, and grants can add roles on parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Belongs to the organization and sees its members. Everything else comes from grants.
    Member,
    Viewer,
    /// Works in environments, without taking over sessions of others and without deploying to stages.
    Tester,
    /// Views everything and decides approvals.
    Approver,
    Deployer,
    Admin,
    Owner,
}

const MEMBERS: &[Role] = &Role::ALL;
const VIEWERS: &[Role] =
    &[Role::Viewer, Role::Tester, Role::Approver, Role::Deployer, Role::Admin, Role::Owner];
const TESTERS: &[Role] = &[Role::Tester, Role::Deployer, Role::Admin, Role::Owner];
const APPROVERS: &[Role] = &[Role::Approver, Role::Deployer, Role::Admin, Role::Owner];
const DEPLOYERS: &[Role] = &[Role::Deployer, Role::Admin, Role::Owner];
const ADMINS: &[Role] = &[Role::Admin, Role::Owner];

impl Role {
    /// All roles, from least to most powerful. `Tester` and `Approver` do not include each other.
    pub const ALL: [Role; 7] =
        [Role::Member, Role::Viewer, Role::Tester, Role::Approver, Role::Deployer, Role::Admin, Role::Owner];

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Viewer => "viewer",
            Role::Tester => "tester",
            Role::Approver => "approver",
            Role::Deployer => "deployer",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }

    /// Whether the role contains the permission, in the scope in which it was granted.
    pub fn may(self, action: Action) -> bool {
        action.roles().contains(&self)
    }

    /// Whether this role has every permission of another role.
    pub fn includes(self, other: Role) -> bool {
        match (self, other) {
            (Role::Owner, _) => true,
            (_, Role::Owner) => false,
            _ => Action::ALL.iter().all(|action| self.may(*action) || !other.may(*action)),
        }
    }

    /// Returns the most powerful role that both roles include.
    #[must_use]
    pub fn common_part(self, other: Role) -> Role {
        let is_common = |role: &Role| self.includes(*role) && other.includes(*role);
        Role::ALL.into_iter().rev().find(is_common).unwrap_or(Role::Member)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of member, viewer, tester, approver, deployer, admin, owner")]
pub struct UnknownRole;

/// The smallest part of an organization that an action can be granted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionLevel {
    /// Only a role in the whole organization contains the action.
    Organization,
    Pipeline,
    Environment,
    Stage,
    /// An environment or a stage: the target of a deployment.
    DeploymentTarget,
}

/// Represents one action as a type, so that a function can require proof of the permission for that action.
pub trait ActionPermit: Send + Sync + 'static {
    const ACTION: Action;
}

macro_rules! actions {
    ($($name:ident, $text:literal, $level:ident, $roles:ident, $doc:literal;)+) => {
        /// Every action that requires a permission.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $(#[doc = $doc] $name,)+
        }

        impl Action {
            pub const ALL: &'static [Action] = &[$(Action::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Action::$name => $text),+ }
            }

            /// The roles that contain this permission.
            pub const fn roles(self) -> &'static [Role] {
                match self { $(Action::$name => $roles),+ }
            }

            pub const fn level(self) -> ActionLevel {
                match self { $(Action::$name => ActionLevel::$level),+ }
            }

            pub const fn summary(self) -> &'static str {
                match self { $(Action::$name => $doc),+ }
            }
        }

        /// One marker type per action; see [`ActionPermit`].
        pub mod permit {
            use super::{Action, ActionPermit};
            $(
                #[doc = $doc]
                #[derive(Debug, Clone)]
                pub struct $name;
                impl ActionPermit for $name {
                    const ACTION: Action = Action::$name;
                }
            )+
        }
    };
}

actions! {
    OrganizationRead, "organization:read", Organization, MEMBERS, "view the organization";
    OrganizationWrite, "organization:write", Organization, ADMINS, "rename the organization, set the default network access of its steps";
    MembersRead, "members:read", Organization, MEMBERS, "view members, teams and grants";
    MembersWrite, "members:write", Organization, ADMINS, "invite, change and remove members, teams and grants up to your own role";
    TokensOwn, "tokens:own", Organization, MEMBERS, "create, list and revoke your own API tokens";
    NotificationsOwn, "notifications:own", Organization, MEMBERS, "read your own notifications, change your own notification rules";
    TokensManage, "tokens:manage", Organization, ADMINS, "list and revoke other members' tokens, create tokens for service accounts";
    PipelinesRead, "pipelines:read", Pipeline, VIEWERS, "list, view and validate pipelines";
    PipelinesWrite, "pipelines:write", Pipeline, ADMINS, "create, change and delete pipelines";
    PipelinesOperate, "pipelines:operate", Pipeline, DEPLOYERS, "stop and resume pipelines";
    RepositoriesRead, "repositories:read", Organization, VIEWERS, "view repositories and their errors";
    RepositoriesWrite, "repositories:write", Organization, ADMINS, "create, change, sync, connect and delete repositories";
    EnvironmentsRead, "environments:read", Environment, VIEWERS, "view environments, their locks and lock history";
    EnvironmentsClaim, "environments:claim", Environment, TESTERS, "claim environments, join queues, and deploy in your own sessions";
    EnvironmentsForceClaim, "environments:force_claim", Environment, DEPLOYERS, "take over environments that are held by other members";
    EnvironmentsReleaseOthers, "environments:release_others", Environment, DEPLOYERS, "release other members' sessions, cancel their tickets and deployments";
    DrainOverride, "drain:override", Environment, ADMINS, "deploy before steps of an earlier session are known to have stopped";
    DeploymentsRead, "deployments:read", DeploymentTarget, VIEWERS, "see deployments";
    DeploymentsOperate, "deployments:operate", DeploymentTarget, TESTERS, "cancel, retry and resolve deployments; in a stage together with stages:deploy";
    StagesDeploy, "stages:deploy", Stage, DEPLOYERS, "start, cancel, retry, roll back and resolve deployments in stages";
    GatesBypass, "gates:bypass", Stage, ADMINS, "bypass windows, approvals and pauses, with a reason";
    ApprovalsRead, "approvals:read", DeploymentTarget, VIEWERS, "view approvals and votes";
    ApprovalsDecide, "approvals:decide", DeploymentTarget, APPROVERS, "approve and reject, if the approval rule allows it";
    SecretsRead, "secrets:read", Pipeline, VIEWERS, "view names and usage of secrets, never values";
    SecretsWrite, "secrets:write", Pipeline, ADMINS, "create, change and delete secrets";
    WebhooksRead, "webhooks:read", Organization, VIEWERS, "view webhooks with their deliveries, chat destinations and the Slack connection, never their secrets";
    WebhooksWrite, "webhooks:write", Organization, ADMINS, "create, change, test and delete webhooks and chat destinations, redeliver, and connect Slack";
    RegistriesRead, "registries:read", Organization, VIEWERS, "view step registries, their steps and builds";
    RegistriesWrite, "registries:write", Organization, ADMINS, "create, change, sync and delete step registries";
    RunnersRead, "runners:read", Organization, VIEWERS, "view runners and the steps they run";
    RunnersWrite, "runners:write", Organization, ADMINS, "create and delete runners";
    AnalysisRead, "analysis:read", DeploymentTarget, VIEWERS, "view analyses and their settings";
    AnalysisSource, "analysis:source", DeploymentTarget, DEPLOYERS, "view source code in analyses: suggested fixes and requests to models";
    AnalysisRun, "analysis:run", DeploymentTarget, DEPLOYERS, "analyse failures and create pull requests for fixes";
    AnalysisSettings, "analysis:settings", Organization, ADMINS, "change the analysis provider and its limits";
    EventsRead, "events:read", DeploymentTarget, VIEWERS, "read the audit log; with a grant on a part of the organization, only its events";
}

impl FromStr for Action {
    type Err = UnknownPermission;
    fn from_str(text: &str) -> Result<Self, UnknownPermission> {
        Action::ALL.iter().copied().find(|action| action.as_str() == text).ok_or(UnknownPermission)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a permission; docs/permissions.md lists all permissions")]
pub struct UnknownPermission;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_inclusion_follows_the_documented_order() {
        let chain = [Role::Member, Role::Viewer, Role::Deployer, Role::Admin, Role::Owner];
        for (index, role) in chain.iter().enumerate() {
            assert!(chain[..=index].iter().all(|lower| role.includes(*lower)), "{role}");
            assert!(chain[index + 1..].iter().all(|higher| !role.includes(*higher)), "{role}");
        }
        for small in [Role::Tester, Role::Approver] {
            assert!(Role::Deployer.includes(small) && small.includes(Role::Viewer), "{small}");
            assert!(!Role::Viewer.includes(small), "{small}");
        }
        assert!(!Role::Tester.includes(Role::Approver) && !Role::Approver.includes(Role::Tester));
        assert_eq!(Role::Tester.common_part(Role::Approver), Role::Viewer);
        assert_eq!(Role::Admin.common_part(Role::Tester), Role::Tester);
    }

    #[test]
    fn tester_role_has_no_takeover_no_stages_and_no_bypass() {
        use Action::*;
        let refused = [
            EnvironmentsForceClaim,
            EnvironmentsReleaseOthers,
            DrainOverride,
            StagesDeploy,
            GatesBypass,
            ApprovalsDecide,
            PipelinesOperate,
        ];
        assert!(refused.into_iter().all(|action| !Role::Tester.may(action)));
        assert!([EnvironmentsClaim, DeploymentsOperate].into_iter().all(|action| Role::Tester.may(action)));
    }

    #[test]
    fn viewer_role_allows_only_reads_and_own_records() {
        let allowed: Vec<_> = Action::ALL.iter().filter(|action| Role::Viewer.may(**action)).collect();
        for action in allowed {
            let is_own = [Action::TokensOwn, Action::NotificationsOwn].contains(action);
            assert!(action.as_str().ends_with(":read") || is_own, "{action}");
        }
    }
}
