//! Agents: service accounts of programs that act on their own, with limits.

use serde::{Deserialize, Serialize};

use crate::access::Action;
use crate::environment::LockHolder;
use crate::environment::limits::{TTL_S_MAX, TTL_S_MIN};
use crate::id::UserId;
use crate::time::Timestamp;

pub const SESSIONS_MIN: i64 = 1;
pub const SESSIONS_MAX: i64 = 100;
pub const SESSION_S_MIN: i64 = TTL_S_MIN;
pub const SESSION_S_MAX: i64 = TTL_S_MAX;
pub const DEPLOYMENTS_PER_HOUR_MIN: i64 = 0;
pub const DEPLOYMENTS_PER_HOUR_MAX: i64 = 1_000;

const HOUR_S: i64 = 60 * 60;

/// What an agent may do at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Sessions that the agent may hold and wait for at the same time.
    pub sessions: i64,
    /// Length of a session from claim to end, extensions included.
    pub session_seconds: i64,
    pub deployments_per_hour: i64,
    pub force_claim: TakeoverScope,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            sessions: 1,
            session_seconds: HOUR_S,
            deployments_per_hour: 30,
            force_claim: TakeoverScope::Never,
        }
    }
}

/// Whose sessions an agent may take over, provided that its role allows takeovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverScope {
    Never,
    /// Only sessions of other agents.
    Agents,
    Anyone,
}

impl TakeoverScope {
    pub const ALL: [TakeoverScope; 3] = [TakeoverScope::Never, TakeoverScope::Agents, TakeoverScope::Anyone];

    pub const fn as_str(self) -> &'static str {
        match self {
            TakeoverScope::Never => "never",
            TakeoverScope::Agents => "agents",
            TakeoverScope::Anyone => "anyone",
        }
    }
}

/// What a session or ticket records about the agent that holds it, as it was at the time of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHolder {
    /// The person who is responsible for the agent.
    pub owner: UserId,
    pub owner_name: String,
    /// The limit of the session's length.
    pub session_seconds: i64,
}

/// The deployments of an agent in the current hour, which begins with its first deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentHour {
    pub started_at: Timestamp,
    pub deployments: i64,
}

impl AgentHour {
    fn is_over(self, now: Timestamp) -> bool {
        self.started_at.plus_seconds(HOUR_S) <= now
    }

    #[must_use]
    pub fn with_deployment(self, now: Timestamp) -> Self {
        match self.is_over(now) {
            true => Self { started_at: now, deployments: 1 },
            false => Self { deployments: self.deployments + 1, ..self },
        }
    }
}

/// A command that exceeds a limit of the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct AgentLimitReached {
    /// The name of the limit in the API.
    pub limit: &'static str,
    pub text: String,
}

/// Whether agents cannot have this permission, whatever their role: with it, an agent could change its limits, resume
/// stopped agents, or act through another account.
pub fn is_reserved_for_others(action: Action) -> bool {
    matches!(action, Action::MembersWrite | Action::TokensManage | Action::OrganizationWrite)
}

impl AgentLimits {
    /// Checks another session. `used` is the number of sessions that the agent holds or waits for.
    pub fn check_sessions(&self, used: i64) -> Result<(), AgentLimitReached> {
        let text = || {
            format!(
                "the agent holds or waits for {used} sessions, and may have {}; release one",
                self.sessions
            )
        };
        ensure(used < self.sessions, "sessions", text)
    }

    pub fn check_ttl(&self, ttl_seconds: Option<i64>) -> Result<(), AgentLimitReached> {
        let most = self.session_seconds;
        let text = || format!("a session of this agent lasts at most {most} seconds; ask for a shorter one");
        ensure(ttl_seconds.is_none_or(|ttl| ttl <= most), "sessionSeconds", text)
    }

    pub fn check_deployments(&self, hour: AgentHour, now: Timestamp) -> Result<(), AgentLimitReached> {
        let most = self.deployments_per_hour;
        let is_fine = if hour.is_over(now) { most > 0 } else { hour.deployments < most };
        let left = hour.started_at.plus_seconds(HOUR_S).seconds_since(now).max(0) / 60 + 1;
        let text = || format!("the agent may start {most} deployments per hour; try again in {left} min");
        ensure(is_fine, "deploymentsPerHour", text)
    }

    /// Checks a force-claim. `holder` holds the environment now, if it is held.
    pub fn check_takeover(&self, holder: Option<&LockHolder>) -> Result<(), AgentLimitReached> {
        let Some(holder) = holder else { return Ok(()) };
        let is_fine = match self.force_claim {
            TakeoverScope::Never => false,
            TakeoverScope::Agents => holder.agent.is_some(),
            TakeoverScope::Anyone => true,
        };
        let text = || {
            let scope = self.force_claim.as_str();
            format!("{} holds it, and forceClaim of this agent is {scope}; join the queue", holder.name)
        };
        ensure(is_fine, "forceClaim", text)
    }
}

fn ensure(
    is_fine: bool,
    limit: &'static str,
    text: impl FnOnce() -> String,
) -> Result<(), AgentLimitReached> {
    if is_fine { Ok(()) } else { Err(AgentLimitReached { limit, text: text() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn deployments_are_counted_per_hour() {
        let limits = AgentLimits { deployments_per_hour: 2, ..AgentLimits::default() };
        let mut hour = AgentHour { started_at: at(0), deployments: 0 };
        for second in [10, 20] {
            assert_eq!(limits.check_deployments(hour, at(second)), Ok(()));
            hour = hour.with_deployment(at(second));
        }
        let refused = limits.check_deployments(hour, at(3_599)).unwrap_err();
        assert_eq!(
            (refused.limit, refused.text.as_str()),
            ("deploymentsPerHour", "the agent may start 2 deployments per hour; try again in 1 min")
        );
        assert_eq!(limits.check_deployments(hour, at(3_600)), Ok(()));
        assert_eq!(hour.with_deployment(at(3_600)), AgentHour { started_at: at(3_600), deployments: 1 });
        let none = AgentLimits { deployments_per_hour: 0, ..limits };
        assert!(none.check_deployments(hour, at(9_000)).is_err());
    }

    #[test]
    fn session_limits_are_inclusive() {
        let limits = AgentLimits { sessions: 2, session_seconds: 600, ..AgentLimits::default() };
        assert_eq!((limits.check_sessions(1), limits.check_sessions(2).is_err()), (Ok(()), true));
        assert_eq!((limits.check_ttl(Some(600)), limits.check_ttl(None)), (Ok(()), Ok(())));
        assert_eq!(limits.check_ttl(Some(601)).unwrap_err().limit, "sessionSeconds");
    }
}
