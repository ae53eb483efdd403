//! How values turn into one another. The library that reads expressions knows these rules, too: it is asked.

use std::borrow::Cow;
use std::cmp::Ordering;

use github_actions_expressions::Evaluation;
use github_actions_expressions::literal::Literal;
use serde_json::{Map, Number, Value};

use super::EvaluationError;

/// The largest number up to which every whole number has a place of its own.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn is_collection(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        other => plain(other).as_boolean(),
    }
}

pub(super) fn number(value: &Value) -> f64 {
    plain(value).as_number()
}

/// As a function sees it: nothing for null, and one word for a collection, which GitHub never writes out by itself.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number_text(number)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(plain(value).sema().to_string())
        }
    }
}

/// Text without regard to case, everything else by number. A collection equals itself alone, and none is here twice.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    if is_collection(left) && is_collection(right) {
        return std::ptr::eq(left, right);
    }
    plain(left).sema() == plain(right).sema()
}

pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    plain(left).sema().partial_cmp(&plain(right).sema())
}

/// Two texts that differ in case alone give the same key.
pub(super) fn folded(text: &str) -> String {
    // The dotless i is a letter of its own, and stays one.
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        if c == 'ı' { folded.push(c) } else { folded.extend(c.to_uppercase()) }
    }
    folded
}

/// Exactly as written, or else without regard to case.
pub(super) fn key<'m>(fields: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    let exact = fields.get_key_value(name).map(|(key, _)| key);
    exact.or_else(|| fields.keys().find(|key| key.eq_ignore_ascii_case(name))).map(String::as_str)
}

pub(super) fn literal(literal: &Literal<'_>) -> Result<Value, EvaluationError> {
    Ok(match literal {
        Literal::Null => Value::Null,
        Literal::Boolean(value) => Value::Bool(*value),
        Literal::String(text) => Value::String(text.to_string()),
        Literal::Number(number) => Value::Number(
            whole(*number)
                .or_else(|| Number::from_f64(*number))
                .ok_or_else(|| EvaluationError::new("has a number that is none"))?,
        ),
    })
}

/// A collection counts as a number that is none, and as true; what it holds does not matter for that.
fn plain(value: &Value) -> Evaluation {
    match value {
        Value::Null => Evaluation::Null,
        Value::Bool(value) => Evaluation::Boolean(*value),
        Value::Number(number) => Evaluation::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Evaluation::String(text.clone()),
        Value::Array(_) => Evaluation::Array(Vec::new()),
        Value::Object(_) => Evaluation::Object(std::collections::HashMap::new()),
    }
}

/// The library cuts large numbers off, so that these are written here.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.abs() < WHOLE_MAX => {
            Evaluation::Number(value).sema().to_string()
        }
        _ => number.to_string(),
    }
}

fn whole(number: f64) -> Option<Number> {
    let fits = number.fract() == 0.0 && number.abs() <= WHOLE_MAX;
    fits.then(|| Number::from(number as i64))
}
