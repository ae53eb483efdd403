//! What a caller may do: the union of the member's role and scoped grants, limited by the restriction of the token.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AccessScope, AccessTarget, Action, ActionLevel, Role};
use crate::agent;
use crate::id::{GrantId, TeamId};
use crate::name::{EnvName, Slug};

/// A role on a part of the organization, given to a member directly or through a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedGrant {
    pub id: GrantId,
    pub role: Role,
    pub scope: AccessScope,
    /// The team that has the grant; `None` if the member has it.
    pub team: Option<TeamId>,
}

impl ScopedGrant {
    fn allows(&self, action: Action, target: &AccessTarget) -> bool {
        self.role.may(action) && covers(&self.scope, action, target)
    }
}

/// Permissions that a token is limited to, in one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRestriction {
    #[serde(with = "permission_names")]
    pub permissions: Vec<Action>,
    pub scope: AccessScope,
}

impl TokenRestriction {
    /// What a session token may do, in the environment of its session. Operations on sessions also check the holder.
    pub fn of_session(pipeline: &Slug, environment: &EnvName) -> Self {
        let permissions = vec![Action::EnvironmentsRead, Action::EnvironmentsClaim, Action::DeploymentsRead];
        Self { permissions, scope: AccessScope::one_environment(pipeline, environment) }
    }
}

/// A grant on environments or stages also makes the name and state of their pipeline readable.
fn covers(scope: &AccessScope, action: Action, target: &AccessTarget) -> bool {
    match (action, target) {
        (Action::PipelinesRead, AccessTarget::Pipeline(name)) => scope.touches_pipeline(name),
        _ => can_cover(scope, action) && scope.contains(target),
    }
}

/// Whether there can be a resource in the scope on which the action is possible.
fn can_cover(scope: &AccessScope, action: Action) -> bool {
    use ActionLevel::{DeploymentTarget, Environment, Stage};
    match (scope, action.level()) {
        (AccessScope::Organization, _) => true,
        (_, ActionLevel::Organization) => false,
        (AccessScope::Pipeline(_), _) => true,
        (AccessScope::Environment { .. }, level) => {
            matches!(level, Environment | DeploymentTarget) || action == Action::PipelinesRead
        }
        (AccessScope::Stage { .. }, level) => {
            matches!(level, Stage | DeploymentTarget) || action == Action::PipelinesRead
        }
    }
}

/// Where a permission comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessSource {
    /// The member's role in the whole organization.
    OrganizationRole(Role),
    Grant(ScopedGrant),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDecision {
    Allowed {
        by: AccessSource,
    },
    /// No role or grant contains the permission for this resource.
    NotGranted,
    /// The owner of the token has the permission, but the token is restricted to others.
    TokenRestricted,
    /// The organization requires a second factor, and the account has none.
    SecondFactorMissing,
}

/// The permissions of a caller in one organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveAccess {
    /// Role in the whole organization.
    pub role: Role,
    pub grants: Arc<[ScopedGrant]>,
    /// `None` if the caller did not use a token, or a token without restrictions.
    pub restriction: Option<Arc<[TokenRestriction]>>,
    /// Whether the organization requires a second factor and the account has none. Such a caller may do nothing.
    pub is_factor_missing: bool,
    /// Whether the caller is an agent, which lacks some permissions whatever its role and grants.
    pub is_agent: bool,
}

impl EffectiveAccess {
    /// The access of a member who has no scoped grants.
    pub fn of_role(role: Role) -> Self {
        Self { role, grants: Arc::default(), restriction: None, is_factor_missing: false, is_agent: false }
    }

    /// Decides whether the caller may perform the action on the resource, and why.
    pub fn decide(&self, action: Action, target: &AccessTarget) -> AccessDecision {
        if self.is_factor_missing {
            return AccessDecision::SecondFactorMissing;
        }
        if self.is_reserved(action) {
            return AccessDecision::NotGranted;
        }
        let by = match self.role.may(action) {
            true => Some(AccessSource::OrganizationRole(self.role)),
            false => {
                self.grants.iter().find(|it| it.allows(action, target)).cloned().map(AccessSource::Grant)
            }
        };
        let Some(by) = by else { return AccessDecision::NotGranted };
        let is_within =
            |it: &TokenRestriction| it.permissions.contains(&action) && covers(&it.scope, action, target);
        match &self.restriction {
            Some(restriction) if !restriction.iter().any(is_within) => AccessDecision::TokenRestricted,
            _ => AccessDecision::Allowed { by },
        }
    }

    fn is_reserved(&self, action: Action) -> bool {
        self.is_agent && agent::is_reserved_for_others(action)
    }

    pub fn may(&self, action: Action, target: &AccessTarget) -> bool {
        matches!(self.decide(action, target), AccessDecision::Allowed { .. })
    }

    /// The roles that apply to a resource: the role in the organization, and those of grants that contain the resource.
    pub fn roles_on(&self, target: &AccessTarget) -> Vec<Role> {
        let granted = self.grants.iter().filter(|it| it.scope.contains(target)).map(|it| it.role);
        std::iter::once(self.role).chain(granted).collect()
    }

    /// Whether the caller may perform the action on everything in the organization.
    pub fn may_everywhere(&self, action: Action) -> bool {
        self.may(action, &AccessTarget::Organization)
    }

    /// Whether there can be a resource on which the caller may perform the action.
    pub fn may_somewhere(&self, action: Action) -> bool {
        let granted = self.role.may(action)
            || self.grants.iter().any(|it| it.role.may(action) && can_cover(&it.scope, action));
        let is_within =
            |it: &TokenRestriction| it.permissions.contains(&action) && can_cover(&it.scope, action);
        !self.is_factor_missing
            && !self.is_reserved(action)
            && granted
            && self.restriction.as_ref().is_none_or(|all| all.iter().any(is_within))
    }
}

mod permission_names {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Action;

    pub(super) fn serialize<S: Serializer>(all: &[Action], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(all.iter().map(|action| action.as_str()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Action>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        names.iter().map(|name| name.parse().map_err(de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Timestamp;

    fn grant(role: Role, scope: &str) -> ScopedGrant {
        let id = GrantId::from_parts(Timestamp::from_micros(0), [0; 10]);
        ScopedGrant { id, role, scope: scope.parse().unwrap(), team: None }
    }

    fn access(role: Role, grants: &[(Role, &str)]) -> EffectiveAccess {
        let grants = grants.iter().map(|(role, scope)| grant(*role, scope)).collect();
        EffectiveAccess { grants, ..EffectiveAccess::of_role(role) }
    }

    fn target(text: &str) -> AccessTarget {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let pair =
            |separator| rest.split_once(separator).map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
        match kind {
            "pipeline" => AccessTarget::Pipeline(rest.to_owned()),
            "environment" => {
                let (pipeline, environment) = pair('/').unwrap();
                AccessTarget::Environment { pipeline, environment }
            }
            "stage" => {
                let (pipeline, stage) = pair('@').unwrap();
                AccessTarget::Stage { pipeline, stage }
            }
            _ => AccessTarget::Organization,
        }
    }

    #[test]
    fn tester_on_environments_reads_their_pipeline_and_nothing_else() {
        use Action::*;
        let access = access(Role::Member, &[(Role::Tester, "environment:shop/qa-*")]);
        for (action, on) in [
            (EnvironmentsClaim, "environment:shop/qa-1"),
            (EnvironmentsRead, "environment:shop/qa-1"),
            (DeploymentsOperate, "environment:shop/qa-1"),
            (PipelinesRead, "pipeline:shop"),
            (OrganizationRead, "org"),
        ] {
            assert!(access.may(action, &target(on)) && access.may_somewhere(action), "{action} on {on}");
        }
        for (action, on) in [
            (EnvironmentsForceClaim, "environment:shop/qa-1"),
            (EnvironmentsClaim, "environment:shop/staging"),
            (EnvironmentsClaim, "environment:docs/qa-1"),
            (SecretsRead, "pipeline:shop"),
            (PipelinesRead, "pipeline:docs"),
            (PipelinesRead, "org"),
            (DeploymentsRead, "stage:shop@qa-1"),
            (StagesDeploy, "stage:shop@production"),
            (RunnersRead, "org"),
        ] {
            assert!(!access.may(action, &target(on)), "{action} on {on}");
        }
        assert!(!access.may_somewhere(StagesDeploy) && !access.may_somewhere(SecretsRead));
    }

    #[test]
    fn missing_second_factor_allows_nothing() {
        let owner =
            EffectiveAccess { is_factor_missing: true, ..access(Role::Owner, &[(Role::Admin, "org")]) };
        for action in Action::ALL {
            assert!(!owner.may_somewhere(*action) && !owner.may_everywhere(*action), "{action}");
        }
        let refused = owner.decide(Action::OrganizationRead, &AccessTarget::Organization);
        assert_eq!(refused, AccessDecision::SecondFactorMissing);
    }

    #[test]
    fn agent_lacks_reserved_permissions_whatever_its_role() {
        let admin = access(Role::Owner, &[(Role::Owner, "org")]);
        let agent = EffectiveAccess { is_agent: true, ..admin.clone() };
        for action in Action::ALL {
            let is_allowed = !agent::is_reserved_for_others(*action);
            assert_eq!(
                agent.may_everywhere(*action),
                is_allowed && admin.may_everywhere(*action),
                "{action}"
            );
            assert_eq!(agent.may_somewhere(*action), is_allowed && admin.may_somewhere(*action), "{action}");
        }
    }

    #[test]
    fn restricted_token_has_only_listed_permissions_of_its_owner() {
        let restriction = |permissions: &[Action], scope: &str| {
            Some(Arc::from([TokenRestriction {
                permissions: permissions.to_vec(),
                scope: scope.parse().unwrap(),
            }]))
        };
        let owner = EffectiveAccess {
            restriction: restriction(&[Action::EnvironmentsClaim], "environment:shop/qa-*"),
            ..EffectiveAccess::of_role(Role::Owner)
        };
        assert!(owner.may(Action::EnvironmentsClaim, &target("environment:shop/qa-1")));
        let refused = owner.decide(Action::EnvironmentsClaim, &target("environment:shop/prod"));
        assert_eq!(refused, AccessDecision::TokenRestricted);
        assert!(!owner.may_somewhere(Action::TokensOwn));
        let viewer = EffectiveAccess {
            restriction: restriction(&[Action::EnvironmentsClaim], "org"),
            ..EffectiveAccess::of_role(Role::Viewer)
        };
        let refused = viewer.decide(Action::EnvironmentsClaim, &target("environment:shop/qa-1"));
        assert_eq!(refused, AccessDecision::NotGranted, "never more than its owner");
    }

    const SCOPES: [&str; 9] = [
        "org",
        "pipeline:shop",
        "pipeline:s*",
        "pipeline:docs",
        "environment:shop/qa-*",
        "environment:*/qa-1",
        "environment:docs/qa-1",
        "stage:shop@production",
        "stage:*@s*",
    ];
    const TARGETS: [&str; 8] = [
        "org",
        "pipeline:shop",
        "pipeline:docs",
        "environment:shop/qa-1",
        "environment:shop/staging",
        "environment:docs/qa-1",
        "stage:shop@production",
        "stage:docs@staging",
    ];

    fn any_grants() -> impl Strategy<Value = Vec<ScopedGrant>> {
        let one = (prop::sample::select(Role::ALL.to_vec()), prop::sample::select(SCOPES.to_vec()));
        prop::collection::vec(one.prop_map(|(role, scope)| grant(role, scope)), 0..6)
    }

    proptest! {
        #[test]
        fn removing_a_grant_never_adds_a_permission(
            role in prop::sample::select(Role::ALL.to_vec()), grants in any_grants(), removed in 0usize..6
        ) {
            let before = EffectiveAccess { grants: grants.clone().into(), ..EffectiveAccess::of_role(role) };
            let mut rest = grants;
            if removed < rest.len() { rest.remove(removed); }
            let after = EffectiveAccess { grants: rest.into(), ..EffectiveAccess::of_role(role) };
            for action in Action::ALL {
                prop_assert!(before.may_somewhere(*action) || !after.may_somewhere(*action));
                for on in TARGETS.map(target) {
                    prop_assert!(before.may(*action, &on) || !after.may(*action, &on), "{action} on {on}");
                }
            }
        }

        /// The access is the union of its parts, whatever their order.
        #[test]
        fn access_is_the_union_of_role_and_grants(
            role in prop::sample::select(Role::ALL.to_vec()), grants in any_grants()
        ) {
            let whole = EffectiveAccess { grants: grants.clone().into(), ..EffectiveAccess::of_role(role) };
            for action in Action::ALL {
                for on in TARGETS.map(target) {
                    let alone = |it: &ScopedGrant| {
                        EffectiveAccess { grants: [it.clone()].into(), ..EffectiveAccess::of_role(role) }
                            .may(*action, &on)
                    };
                    let by_part = role.may(*action) || grants.iter().any(alone);
                    prop_assert_eq!(whole.may(*action, &on), by_part, "{} on {}", action, on);
                    prop_assert!(!whole.may(*action, &on) || whole.may_somewhere(*action));
                }
            }
        }
    }
}
