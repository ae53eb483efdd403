//! What an evaluation may spend.

use serde_json::Value;

use super::{EXPR_FUEL_MAX, EXPR_RESULT_BYTES_MAX, EXPR_STEP_BYTES, EvaluationError};

/// Shared by everything that is evaluated together, so that many small expressions cost no more than a large one.
#[derive(Debug)]
pub struct Budget {
    fuel: usize,
    fuel_max: usize,
    bytes: usize,
    bytes_max: usize,
}

impl Budget {
    pub const fn new(fuel_max: usize, bytes_max: usize) -> Self {
        Self { fuel: fuel_max, fuel_max, bytes: bytes_max, bytes_max }
    }

    /// Of one call: an expression, or all expressions of one text or value.
    pub(super) const fn of_one() -> Self {
        Self::new(EXPR_FUEL_MAX, EXPR_RESULT_BYTES_MAX)
    }

    /// Nothing more can be evaluated with it.
    pub const fn is_spent(&self) -> bool {
        self.fuel == 0
    }

    pub(super) fn steps(&mut self, count: usize) -> Result<(), EvaluationError> {
        match self.fuel.checked_sub(count) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                let max = self.fuel_max;
                Err(EvaluationError::new(format!("takes more than {max} steps; make the expression simpler")))
            }
        }
    }

    /// A text somebody is about to look at from end to end.
    pub(super) fn text(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        within_result(bytes)?;
        self.steps(1 + bytes / EXPR_STEP_BYTES)
    }

    /// Two values somebody is about to compare: a text is read to its end even when the other is a number.
    pub(super) fn compared(&mut self, left: &Value, right: &Value) -> Result<(), EvaluationError> {
        self.text(left.as_str().map_or(0, str::len))?;
        self.text(right.as_str().map_or(0, str::len))
    }

    /// A value somebody is about to copy: every part of it is a step. As deep as JSON is read, which is bounded.
    pub(super) fn copy(&mut self, value: &Value) -> Result<usize, EvaluationError> {
        let mut bytes = 0;
        self.part(value, &mut bytes)?;
        Ok(bytes)
    }

    fn part(&mut self, value: &Value, bytes: &mut usize) -> Result<(), EvaluationError> {
        const SCALAR_BYTES: usize = 8;
        let own = match value {
            Value::String(text) => text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR_BYTES,
            Value::Array(_) => 0,
            Value::Object(fields) => fields.keys().map(String::len).sum(),
        };
        *bytes += own;
        within_result(*bytes)?;
        self.steps(1 + own / EXPR_STEP_BYTES)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.part(item, bytes)),
            Value::Object(fields) => fields.values().try_for_each(|item| self.part(item, bytes)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// What leaves an evaluation.
    pub(super) fn result(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(too_large(self.bytes_max)),
        }
    }
}

/// No text is ever longer, not even on the way to a short result.
pub(super) fn within_result(bytes: usize) -> Result<(), EvaluationError> {
    if bytes > EXPR_RESULT_BYTES_MAX { Err(too_large(EXPR_RESULT_BYTES_MAX)) } else { Ok(()) }
}

fn too_large(bytes_max: usize) -> EvaluationError {
    EvaluationError::new(format!("brings more than {bytes_max} bytes; hand large values over in a file"))
}
