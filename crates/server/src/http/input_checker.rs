//! Validation of members in request bodies. Collects all errors instead of stopping at the first.

use berth_api::problem::InputError;

use crate::error::{AppError, input_error};

#[derive(Default)]
pub(super) struct InputChecker(Vec<InputError>);

impl InputChecker {
    pub(super) fn require<T, E: std::fmt::Display>(
        &mut self,
        pointer: &str,
        parsed: Result<T, E>,
    ) -> Option<T> {
        parsed.map_err(|error| self.0.push(input_error(pointer, error.to_string()))).ok()
    }

    /// Parses an optional member. An empty string counts as absent.
    pub(super) fn optional<T, E: std::fmt::Display>(
        &mut self,
        pointer: &str,
        given: Option<&str>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        given.filter(|text| !text.is_empty()).and_then(|text| self.require(pointer, parse(text)))
    }

    /// Returns `parts` if there were no errors, otherwise all collected errors.
    pub(super) fn finish<T>(self, parts: Option<T>) -> Result<T, AppError> {
        match parts {
            Some(parts) if self.0.is_empty() => Ok(parts),
            _ => Err(AppError::invalid(self.0)),
        }
    }
}
