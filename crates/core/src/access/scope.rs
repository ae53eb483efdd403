//! Scopes of grants (`org`, `pipeline:shop-*`, `environment:shop/qa-*`, `stage:shop@production`), and the resources that
//! they are compared with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{EnvName, Slug};

/// A name, or the beginning of a name followed by `*`. Names contain neither `/` nor `@`, so a pattern never matches
/// more than one part of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern {
    text: String,
    is_prefix: bool,
}

impl NamePattern {
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        let (text, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let is_name = |text: &str| Slug::parse(text).is_ok();
        // The prefix of a name may end in a dash, and is empty for `*`.
        let is_valid = match is_prefix {
            true => text.is_empty() || is_name(text.trim_end_matches('-')),
            false => is_name(text),
        };
        if is_valid { Ok(Self { text: text.to_owned(), is_prefix }) } else { Err(InvalidScope) }
    }

    /// The pattern that matches only this name.
    fn exact(name: &str) -> Self {
        Self { text: name.to_owned(), is_prefix: false }
    }

    pub fn matches(&self, name: &str) -> bool {
        if !self.is_prefix {
            return name == self.text;
        }
        name.starts_with(&self.text) && !name.contains(['/', '@'])
    }
}

impl TryFrom<String> for NamePattern {
    type Error = InvalidScope;
    fn try_from(text: String) -> Result<Self, InvalidScope> {
        Self::parse(&text)
    }
}

impl From<NamePattern> for String {
    fn from(pattern: NamePattern) -> String {
        pattern.to_string()
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

/// The part of an organization that a grant covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AccessScope {
    Organization,
    /// The pipelines, their environments and their stages.
    Pipeline(NamePattern),
    Environment {
        pipeline: NamePattern,
        environment: NamePattern,
    },
    Stage {
        pipeline: NamePattern,
        stage: NamePattern,
    },
}

impl AccessScope {
    /// The scope of one pipeline.
    pub fn one_pipeline(pipeline: &Slug) -> Self {
        AccessScope::Pipeline(NamePattern::exact(pipeline.as_str()))
    }

    /// The scope of one environment.
    pub fn one_environment(pipeline: &Slug, environment: &EnvName) -> Self {
        AccessScope::Environment {
            pipeline: NamePattern::exact(pipeline.as_str()),
            environment: NamePattern::exact(environment.as_str()),
        }
    }

    /// Whether the scope contains this resource.
    pub fn contains(&self, target: &AccessTarget) -> bool {
        use AccessTarget as Target;
        match (self, target) {
            (AccessScope::Organization, _) => true,
            (AccessScope::Pipeline(pattern), _) => target.pipeline().is_some_and(|it| pattern.matches(it)),
            (
                AccessScope::Environment { pipeline, environment },
                Target::Environment { pipeline: of, environment: name },
            ) => pipeline.matches(of) && environment.matches(name),
            (AccessScope::Stage { pipeline, stage }, Target::Stage { pipeline: of, stage: name }) => {
                pipeline.matches(of) && stage.matches(name)
            }
            (AccessScope::Environment { .. } | AccessScope::Stage { .. }, _) => false,
        }
    }

    /// Whether the scope contains an environment or a stage of this pipeline, whose name and state it then makes visible.
    pub fn touches_pipeline(&self, name: &str) -> bool {
        match self {
            AccessScope::Organization => true,
            AccessScope::Pipeline(pipeline)
            | AccessScope::Environment { pipeline, .. }
            | AccessScope::Stage { pipeline, .. } => pipeline.matches(name),
        }
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessScope::Organization => f.write_str("org"),
            AccessScope::Pipeline(pipeline) => write!(f, "pipeline:{pipeline}"),
            AccessScope::Environment { pipeline, environment } => {
                write!(f, "environment:{pipeline}/{environment}")
            }
            AccessScope::Stage { pipeline, stage } => write!(f, "stage:{pipeline}@{stage}"),
        }
    }
}

impl FromStr for AccessScope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        if text == "org" {
            return Ok(AccessScope::Organization);
        }
        let (kind, rest) = text.split_once(':').ok_or(InvalidScope)?;
        let pair = |separator| {
            let (pipeline, name) = rest.split_once(separator).ok_or(InvalidScope)?;
            Ok((NamePattern::parse(pipeline)?, NamePattern::parse(name)?))
        };
        match kind {
            "pipeline" => NamePattern::parse(rest).map(AccessScope::Pipeline),
            "environment" => {
                pair('/').map(|(pipeline, environment)| AccessScope::Environment { pipeline, environment })
            }
            "stage" => pair('@').map(|(pipeline, stage)| AccessScope::Stage { pipeline, stage }),
            _ => Err(InvalidScope),
        }
    }
}

impl TryFrom<String> for AccessScope {
    type Error = InvalidScope;
    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl From<AccessScope> for String {
    fn from(scope: AccessScope) -> String {
        scope.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be org, pipeline:NAME, environment:PIPELINE/NAME or stage:PIPELINE@NAME; a name may end with * to match a prefix"
)]
pub struct InvalidScope;

/// A resource that an action applies to, by the names that scopes are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AccessTarget {
    Organization,
    Pipeline(String),
    Environment { pipeline: String, environment: String },
    Stage { pipeline: String, stage: String },
}

impl TryFrom<AccessScope> for AccessTarget {
    type Error = InvalidScope;

    /// Converts a scope that names exactly one resource.
    fn try_from(scope: AccessScope) -> Result<Self, InvalidScope> {
        let name =
            |pattern: NamePattern| if pattern.is_prefix { Err(InvalidScope) } else { Ok(pattern.text) };
        Ok(match scope {
            AccessScope::Organization => AccessTarget::Organization,
            AccessScope::Pipeline(pipeline) => AccessTarget::Pipeline(name(pipeline)?),
            AccessScope::Environment { pipeline, environment } => {
                AccessTarget::Environment { pipeline: name(pipeline)?, environment: name(environment)? }
            }
            AccessScope::Stage { pipeline, stage } => {
                AccessTarget::Stage { pipeline: name(pipeline)?, stage: name(stage)? }
            }
        })
    }
}

impl AccessTarget {
    pub fn pipeline(&self) -> Option<&str> {
        match self {
            AccessTarget::Organization => None,
            AccessTarget::Pipeline(pipeline)
            | AccessTarget::Environment { pipeline, .. }
            | AccessTarget::Stage { pipeline, .. } => Some(pipeline),
        }
    }
}

/// Writes the resource as the scope that contains exactly this resource.
impl fmt::Display for AccessTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessTarget::Organization => f.write_str("org"),
            AccessTarget::Pipeline(pipeline) => write!(f, "pipeline:{pipeline}"),
            AccessTarget::Environment { pipeline, environment } => {
                write!(f, "environment:{pipeline}/{environment}")
            }
            AccessTarget::Stage { pipeline, stage } => write!(f, "stage:{pipeline}@{stage}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment(pipeline: &str, environment: &str) -> AccessTarget {
        AccessTarget::Environment { pipeline: pipeline.into(), environment: environment.into() }
    }

    #[test]
    fn scope_text_is_parsed_and_written_back() {
        for text in
            ["org", "pipeline:shop", "pipeline:*", "environment:shop/qa-*", "environment:*/*", "stage:a@b"]
        {
            assert_eq!(text.parse::<AccessScope>().map(|scope| scope.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "shop",
            "org:",
            "pipeline:",
            "pipeline:a/b",
            "pipeline:a*b",
            "pipeline:**",
            "pipeline:a@b",
            "environment:shop",
            "environment:shop/",
            "environment:/qa",
            "environment:a/b/c",
            "environment:a@b",
            "environment:Shop/qa",
            "stage:a/b",
            "stage:a@b@c",
            "team:a",
            "environment:*/qa*-1",
            "pipeline:-*",
        ] {
            assert_eq!(text.parse::<AccessScope>(), Err(InvalidScope), "{text}");
        }
    }

    #[test]
    fn environment_scope_contains_only_matching_environments() {
        let scope: AccessScope = "environment:shop/qa-*".parse().unwrap();
        assert!(scope.contains(&environment("shop", "qa-1")) && scope.contains(&environment("shop", "qa-")));
        assert!(
            !scope.contains(&environment("shop", "qa")) && !scope.contains(&environment("shop2", "qa-1"))
        );
        assert!(!scope.contains(&AccessTarget::Pipeline("shop".into())));
        let stage = AccessTarget::Stage { pipeline: "shop".into(), stage: "qa-1".into() };
        assert!(!scope.contains(&stage), "a stage with the name of an environment");
        assert!(scope.touches_pipeline("shop") && !scope.touches_pipeline("shop-2"));
    }

    fn any_part() -> impl Strategy<Value = String> {
        "[a-c/@*-]{0,5}"
    }

    proptest! {
        /// However a pattern and a name are chosen, text is never matched across a separator.
        #[test]
        fn pattern_matches_only_within_one_name(pattern in any_part(), name in any_part()) {
            let Ok(pattern) = NamePattern::parse(&pattern) else { return Ok(()) };
            if pattern.matches(&name) {
                prop_assert!(!name.contains(['/', '@']), "{pattern} matches {name}");
                let text = pattern.to_string();
                prop_assert!(name == text || text.strip_suffix('*').is_some_and(|it| name.starts_with(it)));
            }
        }

        /// A scope contains an environment exactly if it contains it part by part.
        #[test]
        fn environment_scope_is_compared_part_by_part(scope in "environment:[ab*]{1,3}/[ab*]{1,3}", pipeline in "[ab]{1,3}", name in "[ab]{1,3}") {
            let Ok(parsed) = scope.parse::<AccessScope>() else { return Ok(()) };
            let (left, right) = scope.trim_start_matches("environment:").split_once('/').unwrap();
            let matches = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            };
            prop_assert_eq!(
                parsed.contains(&environment(&pipeline, &name)),
                matches(left, &pipeline) && matches(right, &name)
            );
        }
    }
}
