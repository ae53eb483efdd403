//! Secrets: their scopes, and which values can be masked. The values themselves are stored by the vault.

use std::fmt;
use std::str::FromStr;

use crate::id::{PipelineId, SecretId};
use crate::name::Reason;
use crate::pipeline::grammar::{SecretName, StageName};
use crate::time::Timestamp;

pub const SECRET_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Shorter values are not masked, because they would match unrelated text.
pub const MASKED_BYTES_MIN: usize = 4;

/// Values so common that masking them would make logs unreadable.
const COMMON_VALUES: &[&str] = &[
    "true",
    "false",
    "null",
    "none",
    "test",
    "admin",
    "root",
    "user",
    "password",
    "secret",
    "localhost",
    "production",
    "staging",
    "default",
    "enabled",
    "disabled",
];

/// A secret without its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Secret {
    pub id: SecretId,
    pub name: SecretName,
    pub scope: ScopePath,
    pub description: Option<Reason>,
    /// Increases with every new value.
    pub version: i64,
    /// Increases with every change to the record.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Where a secret can be used. If several scopes define a secret, the narrowest wins: stage, then pipeline, then
/// organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ScopePath {
    Organization,
    Pipeline(PipelineId),
    Stage(PipelineId, StageName),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a scope of secrets")]
pub struct InvalidScope;

impl ScopePath {
    pub fn pipeline(&self) -> Option<PipelineId> {
        match self {
            ScopePath::Organization => None,
            ScopePath::Pipeline(pipeline) | ScopePath::Stage(pipeline, _) => Some(*pipeline),
        }
    }

    /// The scopes visible to a step, narrowest first.
    pub fn visible_scopes(pipeline: PipelineId, stage: Option<&StageName>) -> Vec<ScopePath> {
        let stage = stage.map(|stage| ScopePath::Stage(pipeline, stage.clone()));
        stage.into_iter().chain([ScopePath::Pipeline(pipeline), ScopePath::Organization]).collect()
    }
}

/// The text form used in the database and in the associated data of the encryption.
impl fmt::Display for ScopePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScopePath::Organization => f.write_str("organization"),
            ScopePath::Pipeline(pipeline) => write!(f, "pipeline/{pipeline}"),
            ScopePath::Stage(pipeline, stage) => write!(f, "stage/{pipeline}/{stage}"),
        }
    }
}

impl FromStr for ScopePath {
    type Err = InvalidScope;
    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let mut parts = text.split('/');
        let scope = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("organization"), None, None, None) => ScopePath::Organization,
            (Some("pipeline"), Some(id), None, None) => {
                ScopePath::Pipeline(id.parse().map_err(|_| InvalidScope)?)
            }
            (Some("stage"), Some(id), Some(stage), None) => ScopePath::Stage(
                id.parse().map_err(|_| InvalidScope)?,
                StageName::parse(stage).map_err(|_| InvalidScope)?,
            ),
            _ => return Err(InvalidScope),
        };
        Ok(scope)
    }
}

/// Checks that a value fits into an environment variable.
pub fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() || value.len() > SECRET_VALUE_BYTES_MAX {
        return Err("must have 1 to 65,536 bytes");
    }
    if value.contains('\0') {
        return Err("must not contain the NUL character");
    }
    Ok(())
}

/// Whether the value can be masked in logs without hiding unrelated text.
pub fn is_maskable(value: &str) -> bool {
    let value = value.trim();
    value.len() >= MASKED_BYTES_MIN && !COMMON_VALUES.contains(&value.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_round_trips_through_text() {
        let pipeline = PipelineId::from_parts(Timestamp::from_micros(1), [1; 10]);
        let stage = StageName::parse("production").unwrap();
        for scope in ScopePath::visible_scopes(pipeline, Some(&stage)) {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        for bad in ["", "organization/x", "pipeline", "pipeline/x", "stage/x/y", "stage/../../x"] {
            assert_eq!(bad.parse::<ScopePath>(), Err(InvalidScope), "{bad}");
        }
    }

    #[test]
    fn visible_scopes_are_sorted_narrowest_first() {
        let pipeline = PipelineId::from_parts(Timestamp::from_micros(1), [1; 10]);
        let stage = StageName::parse("qa").unwrap();
        let seen = ScopePath::visible_scopes(pipeline, Some(&stage));
        assert_eq!(
            seen,
            [ScopePath::Stage(pipeline, stage), ScopePath::Pipeline(pipeline), ScopePath::Organization]
        );
        assert_eq!(ScopePath::visible_scopes(pipeline, None).len(), 2);
    }

    #[test]
    fn is_maskable_rejects_short_and_common_values() {
        for poor in ["abc", "x", " yes ", "TRUE", "localhost"] {
            assert!(!is_maskable(poor), "{poor}");
        }
        assert!(is_maskable("hunter2!"));
        assert!(check_value("").is_err() && check_value("a\0b").is_err());
        assert!(check_value(&"x".repeat(SECRET_VALUE_BYTES_MAX)).is_ok());
        assert!(check_value(&"x".repeat(SECRET_VALUE_BYTES_MAX + 1)).is_err());
    }
}
