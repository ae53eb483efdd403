//! Reads the arguments of a call.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::WAIT_S_MAX;
use crate::failure::ToolFailure;
use crate::rest::percent_encode;

/// An environment as `pipeline/environment`.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct EnvironmentName {
    pipeline: String,
    environment: String,
}

impl TryFrom<String> for EnvironmentName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wanted = "must be pipeline/environment, such as shop/qa-1; list_environments returns the names";
        let parts = text.split_once('/').filter(|(pipeline, environment)| {
            !pipeline.is_empty() && !environment.is_empty() && !environment.contains('/')
        });
        let (pipeline, environment) = parts.ok_or(wanted)?;
        Ok(Self { pipeline: pipeline.to_owned(), environment: environment.to_owned() })
    }
}

impl EnvironmentName {
    /// Path of the environment in the API.
    pub(super) fn path(&self) -> String {
        let (pipeline, environment) = (percent_encode(&self.pipeline), percent_encode(&self.environment));
        format!("/pipelines/{pipeline}/ephemeral-environments/{environment}")
    }

    /// Path of a session or another record of the environment.
    pub(super) fn item_path(&self, collection: &str, id: &str) -> String {
        format!("{}/{collection}/{}", self.path(), percent_encode(id))
    }
}

impl std::fmt::Display for EnvironmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.pipeline, self.environment)
    }
}

/// Parses the arguments; the error names the argument and what it accepts.
pub(super) fn parse_arguments<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ToolFailure> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (at, text) = (error.path().to_string(), error.inner().to_string());
        // A missing argument has no path of its own.
        ToolFailure::InvalidArguments(if at == "." { text } else { format!("{at}: {text}") })
    })
}

/// Checks the limit of a wait, in seconds.
pub(super) fn check_wait(seconds: Option<u64>) -> Result<Option<u64>, ToolFailure> {
    match seconds {
        Some(seconds) if seconds > WAIT_S_MAX => {
            let text = format!("waitSeconds: must be from 0 to {WAIT_S_MAX}");
            Err(ToolFailure::InvalidArguments(text))
        }
        seconds => Ok(seconds),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Sample {
        #[expect(dead_code, reason = "only parsed")]
        ttl_seconds: Option<i64>,
    }

    fn error_of<T: DeserializeOwned>(arguments: &Value) -> String {
        match parse_arguments::<T>(arguments.as_object().cloned().unwrap_or_default()) {
            Err(ToolFailure::InvalidArguments(text)) => text,
            Err(_) | Ok(_) => panic!("{arguments} was accepted"),
        }
    }

    #[test]
    fn argument_errors_name_the_argument() {
        let text = error_of::<Sample>(&json!({"ttlSeconds": "soon"}));
        assert!(text.starts_with("ttlSeconds: ") && text.contains("expected i64"), "{text}");
        let text = error_of::<Sample>(&json!({"ttl": 60}));
        assert!(text.contains("unknown field `ttl`, expected `ttlSeconds`"), "{text}");
    }

    #[test]
    fn environment_name_has_exactly_two_parts() {
        for bad in ["qa-1", "/qa-1", "shop/", "shop/qa-1/x", ""] {
            assert!(EnvironmentName::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
        let name = EnvironmentName::try_from("shop/qa 1".to_owned()).expect("a name");
        assert_eq!(name.path(), "/pipelines/shop/ephemeral-environments/qa%201");
    }

    #[test]
    fn wait_above_the_limit_is_refused() {
        assert!(check_wait(Some(WAIT_S_MAX)).is_ok());
        assert!(check_wait(Some(WAIT_S_MAX + 1)).is_err());
    }
}
