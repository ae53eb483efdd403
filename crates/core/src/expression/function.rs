//! The functions of the expression language, with the semantics of GitHub Actions.

use std::borrow::Cow;

use github_actions_expressions::call::Function;
use serde_json::Value;

use super::budget::within_result;
use super::value::{equal, folded, is_collection, text};
use super::{Budget, EvaluationError};

type Answer<T> = Result<T, EvaluationError>;

pub(super) fn call(function: Function, arguments: &[Cow<'_, Value>], budget: &mut Budget) -> Answer<Value> {
    let first = arguments.first().map_or(&Value::Null, AsRef::as_ref);
    let second = arguments.get(1).map(AsRef::as_ref);
    Ok(match function {
        Function::Format => Value::String(format(first, arguments.get(1..).unwrap_or_default(), budget)?),
        Function::Contains => Value::Bool(contains(first, second.unwrap_or(&Value::Null), budget)?),
        Function::StartsWith => {
            Value::Bool(edge(first, second, budget, |text, part| text.starts_with(part))?)
        }
        Function::EndsWith => Value::Bool(edge(first, second, budget, |text, part| text.ends_with(part))?),
        Function::Join => Value::String(join(first, second, budget)?),
        Function::ToJSON => Value::String(to_json(first, budget)?),
        Function::FromJSON => from_json(first, budget)?,
        Function::HashFiles
        | Function::Case
        | Function::Success
        | Function::Always
        | Function::Cancelled
        | Function::Failure => return Err(EvaluationError::new("calls a function that is not available")),
    })
}

/// Pretty-printed JSON; also the text form of a collection.
pub(super) fn to_json(value: &Value, budget: &mut Budget) -> Answer<String> {
    budget.copy(value)?;
    let text = serde_json::to_string_pretty(value)
        .map_err(|_| EvaluationError::new("gives `toJSON` something that is not JSON"))?;
    within_result(text.len())?;
    Ok(text)
}

/// Errors contain only the position, because the parser's message would quote the text.
fn from_json(value: &Value, budget: &mut Budget) -> Answer<Value> {
    let text = weighed(value, budget)?;
    let value = serde_json::from_str(&text).map_err(|error| {
        EvaluationError::new(format!(
            "gives `fromJSON` a text that is not JSON, at line {}, column {}",
            error.line(),
            error.column()
        ))
    })?;
    budget.copy(&value)?;
    Ok(value)
}

fn contains(within: &Value, wanted: &Value, budget: &mut Budget) -> Answer<bool> {
    match within {
        Value::Array(items) => {
            for item in items {
                budget.compared(item, wanted)?;
                if equal(item, wanted) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Object(_) => Ok(false),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            edge(within, Some(wanted), budget, |text, part| text.contains(part))
        }
    }
}

/// Case-insensitive; a collection never matches.
fn edge(
    value: &Value,
    part: Option<&Value>,
    budget: &mut Budget,
    test: impl Fn(&str, &str) -> bool,
) -> Answer<bool> {
    let part = part.unwrap_or(&Value::Null);
    if is_collection(value) || is_collection(part) {
        return Ok(false);
    }
    let (text, part) = (weighed(value, budget)?, weighed(part, budget)?);
    Ok(test(&folded(&text), &folded(&part)))
}

fn join(value: &Value, separator: Option<&Value>, budget: &mut Budget) -> Answer<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => &[],
        one => std::slice::from_ref(one),
    };
    let separator = match separator {
        Some(separator) if !is_collection(separator) => weighed(separator, budget)?,
        _ => Cow::Borrowed(","),
    };
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            append(&mut joined, &separator, budget)?;
        }
        append(&mut joined, &weighed(item, budget)?, budget)?;
    }
    Ok(joined)
}

/// `{0}` is the first value; `{{` and `}}` are literal braces.
fn format(pattern: &Value, values: &[Cow<'_, Value>], budget: &mut Budget) -> Answer<String> {
    const LONE: &str = "gives `format` a text with a lone brace; write `{{` and `}}` for braces";
    let pattern = weighed(pattern, budget)?;
    let mut filled = String::new();
    let mut rest = pattern.as_ref();
    while let Some(at) = rest.find(['{', '}']) {
        append(&mut filled, &rest[..at], budget)?;
        let brace = &rest[at..=at];
        let after = &rest[at + 1..];
        rest = if let Some(after) = after.strip_prefix(brace) {
            append(&mut filled, brace, budget)?;
            after
        } else {
            let (index, after) = after.split_once('}').ok_or_else(|| EvaluationError::new(LONE))?;
            let plain = brace == "{" && !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
            let index = index.parse::<usize>().ok().filter(|_| plain);
            let index = index.ok_or_else(|| EvaluationError::new(LONE))?;
            let value = values.get(index).ok_or_else(|| {
                EvaluationError::new(format!(
                    "uses a `format` placeholder beyond the {} given values; the first one is `{{0}}`",
                    values.len()
                ))
            })?;
            append(&mut filled, &weighed(value, budget)?, budget)?;
            after
        };
    }
    append(&mut filled, rest, budget)?;
    Ok(filled)
}

fn weighed<'v>(value: &'v Value, budget: &mut Budget) -> Answer<Cow<'v, str>> {
    let text = text(value);
    budget.text(text.len())?;
    Ok(text)
}

fn append(text: &mut String, more: &str, budget: &mut Budget) -> Answer<()> {
    within_result(text.len() + more.len())?;
    budget.steps(1 + more.len() / super::EXPR_STEP_BYTES)?;
    text.push_str(more);
    Ok(())
}
