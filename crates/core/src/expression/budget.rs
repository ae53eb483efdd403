//! Limits the work and memory of an evaluation.

use serde_json::Value;

use super::{EXPR_FUEL_MAX, EXPR_RESULT_BYTES_MAX, EXPR_STEP_BYTES, EvaluationError};

/// A budget shared by all expressions that are evaluated together, so that splitting an expression does not circumvent
/// the limits.
#[derive(Debug)]
pub struct EvaluationBudget {
    fuel: usize,
    fuel_max: usize,
    bytes: usize,
    bytes_max: usize,
}

impl EvaluationBudget {
    pub const fn new(fuel_max: usize, bytes_max: usize) -> Self {
        Self { fuel: fuel_max, fuel_max, bytes: bytes_max, bytes_max }
    }

    /// The budget of one call, which evaluates one expression or all expressions in one string or value.
    pub(super) const fn for_one_call() -> Self {
        Self::new(EXPR_FUEL_MAX, EXPR_RESULT_BYTES_MAX)
    }

    /// Whether the budget is exhausted.
    pub const fn is_spent(&self) -> bool {
        self.fuel == 0
    }

    pub(super) fn charge_steps(&mut self, count: usize) -> Result<(), EvaluationError> {
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

    /// Charges the cost of reading an entire string.
    pub(super) fn charge_text(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        check_length(bytes)?;
        self.charge_steps(1 + bytes / EXPR_STEP_BYTES)
    }

    /// Charges for comparing two values. A string is charged in full even if the other value is a number.
    pub(super) fn charge_comparison(&mut self, left: &Value, right: &Value) -> Result<(), EvaluationError> {
        self.charge_text(left.as_str().map_or(0, str::len))?;
        self.charge_text(right.as_str().map_or(0, str::len))
    }

    /// Charges for copying a value: one unit for each nested value, plus the length of its strings. The recursion is
    /// bounded because the depth of JSON values is limited.
    pub(super) fn charge_copy(&mut self, value: &Value) -> Result<usize, EvaluationError> {
        let mut bytes = 0;
        self.charge_part(value, &mut bytes)?;
        Ok(bytes)
    }

    fn charge_part(&mut self, value: &Value, bytes: &mut usize) -> Result<(), EvaluationError> {
        const SCALAR_BYTES: usize = 8;
        let own = match value {
            Value::String(text) => text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR_BYTES,
            Value::Array(_) => 0,
            Value::Object(fields) => fields.keys().map(String::len).sum(),
        };
        *bytes += own;
        check_length(*bytes)?;
        self.charge_steps(1 + own / EXPR_STEP_BYTES)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_part(item, bytes)),
            Value::Object(fields) => fields.values().try_for_each(|item| self.charge_part(item, bytes)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// Charges for the result of an evaluation.
    pub(super) fn charge_result(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(too_large(self.bytes_max)),
        }
    }
}

/// Checks the length of a string, which may be an intermediate result.
pub(super) fn check_length(bytes: usize) -> Result<(), EvaluationError> {
    if bytes > EXPR_RESULT_BYTES_MAX { Err(too_large(EXPR_RESULT_BYTES_MAX)) } else { Ok(()) }
}

fn too_large(bytes_max: usize) -> EvaluationError {
    EvaluationError::new(format!("has a result of more than {bytes_max} bytes; pass large values in a file"))
}
