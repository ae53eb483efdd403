//! Conversions between values, following the rules of the expression library.

use std::borrow::Cow;
use std::cmp::Ordering;

use github_actions_expressions::Evaluation;
use github_actions_expressions::literal::Literal;
use serde_json::{Map, Number, Value};

use super::EvaluationError;

/// 2^53: a float represents every integer up to this one exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn is_collection(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

pub(super) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        other => to_evaluation(other).as_boolean(),
    }
}

pub(super) fn number(value: &Value) -> f64 {
    to_evaluation(value).as_number()
}

/// The string that functions see. As in GitHub Actions, it is empty for null and a fixed word for a collection.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number_text(number)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(to_evaluation(value).sema().to_string())
        }
    }
}

/// Compares two strings case-insensitively and other values as numbers. A collection is equal only to itself.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    if is_collection(left) && is_collection(right) {
        return std::ptr::eq(left, right);
    }
    to_evaluation(left).sema() == to_evaluation(right).sema()
}

pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    to_evaluation(left).sema().partial_cmp(&to_evaluation(right).sema())
}

/// A comparison key: strings that differ only in case have the same key.
pub(super) fn fold_case(text: &str) -> String {
    // The dotless `ı` is a letter of its own; converting it to upper case would make it equal to `i`.
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        if c == 'ı' { folded.push(c) } else { folded.extend(c.to_uppercase()) }
    }
    folded
}

/// Finds a key. An exact match takes precedence over a case-insensitive one.
pub(super) fn find_key<'m>(fields: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    let exact = fields.get_key_value(name).map(|(key, _)| key);
    exact.or_else(|| fields.keys().find(|key| key.eq_ignore_ascii_case(name))).map(String::as_str)
}

pub(super) fn literal(literal: &Literal<'_>) -> Result<Value, EvaluationError> {
    Ok(match literal {
        Literal::Null => Value::Null,
        Literal::Boolean(value) => Value::Bool(*value),
        Literal::String(text) => Value::String(text.to_string()),
        Literal::Number(number) => Value::Number(
            whole_number(*number)
                .or_else(|| Number::from_f64(*number))
                .ok_or_else(|| EvaluationError::new("has a number that is none"))?,
        ),
    })
}

/// Converts a value to the library's type. A collection becomes an empty one, because its content does not matter: as a
/// number it is NaN, as a boolean true.
fn to_evaluation(value: &Value) -> Evaluation {
    match value {
        Value::Null => Evaluation::Null,
        Value::Bool(value) => Evaluation::Boolean(*value),
        Value::Number(number) => Evaluation::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Evaluation::String(text.clone()),
        Value::Array(_) => Evaluation::Array(Vec::new()),
        Value::Object(_) => Evaluation::Object(std::collections::HashMap::new()),
    }
}

/// Formats integers and large numbers without the library, which truncates large numbers.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.abs() < WHOLE_MAX => {
            Evaluation::Number(value).sema().to_string()
        }
        _ => number.to_string(),
    }
}

fn whole_number(number: f64) -> Option<Number> {
    let fits = number.fract() == 0.0 && number.abs() <= WHOLE_MAX;
    fits.then(|| Number::from(number as i64))
}
