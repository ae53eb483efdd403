//! Roles, actions, and the minimum role that each action requires.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A member's role in one organization. Each role includes the permissions of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Viewer,
    Deployer,
    Admin,
    Owner,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Deployer, Role::Admin, Role::Owner];

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Deployer => "deployer",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }

    pub fn may(self, action: Action) -> bool {
        self >= action.least_role()
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
#[error("must be one of viewer, deployer, admin, owner")]
pub struct UnknownRole;

/// Represents one action as a type, so that a function can require proof of the permission for that action.
pub trait ActionPermit: Send + Sync + 'static {
    const ACTION: Action;
}

macro_rules! actions {
    ($($name:ident, $text:literal, $least:ident, $doc:literal;)+) => {
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

            /// The lowest role that has this permission.
            pub const fn least_role(self) -> Role {
                match self { $(Action::$name => Role::$least),+ }
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
                pub struct $name;
                impl ActionPermit for $name {
                    const ACTION: Action = Action::$name;
                }
            )+
        }
    };
}

actions! {
    OrganizationRead, "organization:read", Viewer, "view the organization";
    OrganizationWrite, "organization:write", Admin, "rename the organization, set the default network access of its steps";
    MembersRead, "members:read", Viewer, "view members";
    MembersWrite, "members:write", Admin, "invite, change and remove members up to your own role";
    TokensOwn, "tokens:own", Viewer, "create, list and revoke your own API tokens";
    TokensManage, "tokens:manage", Admin, "list and revoke other members' tokens, create tokens for service accounts";
    PipelinesRead, "pipelines:read", Viewer, "list, view and validate pipelines";
    PipelinesWrite, "pipelines:write", Admin, "create, change and delete pipelines";
    PipelinesOperate, "pipelines:operate", Deployer, "stop and resume pipelines";
    RepositoriesRead, "repositories:read", Viewer, "view repositories and their errors";
    RepositoriesWrite, "repositories:write", Admin, "create, change, sync and delete repositories";
    EnvironmentsRead, "environments:read", Viewer, "view environments, their locks and lock history";
    EnvironmentsClaim, "environments:claim", Deployer, "claim environments, join queues, and deploy in your own sessions";
    EnvironmentsForceClaim, "environments:force_claim", Deployer, "take over environments, and release other members' sessions";
    DrainOverride, "drain:override", Admin, "deploy before steps of an earlier session are known to have stopped";
    DeploymentsRead, "deployments:read", Viewer, "see deployments";
    DeploymentsOperate, "deployments:operate", Deployer, "start, cancel, retry, roll back and resolve deployments";
    GatesBypass, "gates:bypass", Admin, "bypass windows, approvals and pauses, with a reason";
    ApprovalsRead, "approvals:read", Viewer, "view approvals and votes";
    ApprovalsDecide, "approvals:decide", Deployer, "approve and reject, if the approval rule allows it";
    SecretsRead, "secrets:read", Viewer, "view names and usage of secrets, never values";
    SecretsWrite, "secrets:write", Admin, "create, change and delete secrets";
    WebhooksRead, "webhooks:read", Viewer, "view webhooks and their deliveries, never their secrets";
    WebhooksWrite, "webhooks:write", Admin, "create, change, test and delete webhooks, and redeliver";
    RegistriesRead, "registries:read", Viewer, "view step registries, their steps and builds";
    RegistriesWrite, "registries:write", Admin, "create, change, sync and delete step registries";
    RunnersRead, "runners:read", Viewer, "view runners and the steps they run";
    RunnersWrite, "runners:write", Admin, "create and delete runners";
    AnalysisRead, "analysis:read", Viewer, "view analyses and their settings";
    AnalysisSource, "analysis:source", Deployer, "view source code in analyses: suggested fixes and requests to models";
    AnalysisRun, "analysis:run", Deployer, "analyse failures and create pull requests for fixes";
    AnalysisSettings, "analysis:settings", Admin, "change the analysis provider and its limits";
    EventsRead, "events:read", Viewer, "read the audit log";
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_role_includes_permissions_of_lower_roles() {
        for pair in Role::ALL.windows(2) {
            for action in Action::ALL {
                assert!(!pair[0].may(*action) || pair[1].may(*action), "{} lost {action}", pair[1]);
            }
        }
    }

    #[test]
    fn viewer_role_allows_only_reads_and_own_tokens() {
        let allowed: Vec<_> = Action::ALL.iter().filter(|action| Role::Viewer.may(**action)).collect();
        for action in allowed {
            assert!(action.as_str().ends_with(":read") || *action == Action::TokensOwn, "{action}");
        }
    }
}
