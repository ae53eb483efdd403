//! Configuration of identity providers.

use std::collections::BTreeMap;
use std::str::FromStr;

use berth_core::access::Role;
use berth_core::name::Slug;
use berth_engine::credential::RedactedString;
use berth_store::tables::team::MANUAL_SOURCE;

/// An identity provider that people log in with.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Name in URLs and in the source of team memberships.
    pub name: Slug,
    /// Name on the login page.
    pub label: String,
    /// The issuer, exactly as in the provider's discovery document.
    pub issuer: String,
    pub client_id: String,
    /// `None` for a public client.
    pub client_secret: Option<RedactedString>,
    pub scopes: Vec<String>,
    /// The claim that lists the person's groups. A claim inside another one is named with a dot.
    pub groups_claim: Option<String>,
    pub provision: ProvisionRule,
    pub groups: BTreeMap<String, GroupMapping>,
    /// The organization that new accounts join and that groups apply to.
    pub organization: Slug,
}

impl ProviderConfig {
    /// Checks settings that do not fit together. The error says what to change.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if name.as_str() == MANUAL_SOURCE {
            return Err(format!("auth.oidc {name}: choose another name; this one is reserved"));
        }
        let is_url = url::Url::parse(&self.issuer).is_ok_and(|url| ["https", "http"].contains(&url.scheme()));
        if !is_url {
            return Err(format!("auth.oidc {name}: issuer must be a URL like https://login.acme.test"));
        }
        if self.client_id.is_empty() {
            return Err(format!("auth.oidc {name}: client_id is missing"));
        }
        if !self.groups.is_empty() && self.groups_claim.is_none() {
            return Err(format!("auth.oidc {name}: groups need groups_claim, the claim that lists them"));
        }
        if self.provision == ProvisionRule::MatchingGroups && self.groups.is_empty() {
            return Err(format!("auth.oidc {name}: provision = \"matching_groups\" needs groups"));
        }
        Ok(())
    }
}

/// Which people get an account at their first login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionRule {
    Never,
    /// People who are in at least one of the configured groups.
    MatchingGroups,
    Always,
}

/// What a group gives to its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupMapping {
    Team(Slug),
    Role(Role),
}

impl FromStr for GroupMapping {
    type Err = InvalidGroupMapping;
    fn from_str(text: &str) -> Result<Self, InvalidGroupMapping> {
        match text.split_once(':') {
            Some(("team", slug)) => Slug::parse(slug).map(Self::Team).map_err(|_| InvalidGroupMapping),
            Some(("role", role)) => match role.parse() {
                Ok(Role::Owner) | Err(_) => Err(InvalidGroupMapping),
                Ok(role) => Ok(Self::Role(role)),
            },
            _ => Err(InvalidGroupMapping),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be team:<slug> or role:<role>, like team:sre or role:admin; owners are appointed by hand only")]
pub struct InvalidGroupMapping;

/// Who may log in with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PasswordLogin {
    #[default]
    Everyone,
    /// Only owners of an organization, so that they can get in while the identity provider does not work.
    Owners,
}

impl PasswordLogin {
    pub const fn as_str(self) -> &'static str {
        match self {
            PasswordLogin::Everyone => "everyone",
            PasswordLogin::Owners => "owners",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_mapping_is_a_team_or_a_role_below_owner() {
        assert_eq!("role:admin".parse(), Ok(GroupMapping::Role(Role::Admin)));
        assert_eq!("team:sre".parse(), Ok(GroupMapping::Team(Slug::parse("sre").unwrap())));
        for bad in ["", "sre", "team:", "team:A b", "role:owner", "role:king", "user:ada"] {
            assert_eq!(bad.parse::<GroupMapping>(), Err(InvalidGroupMapping), "{bad}");
        }
    }
}
