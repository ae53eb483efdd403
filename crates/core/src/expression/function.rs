//! The functions of the expression language. They behave like those of GitHub Actions.

use std::borrow::Cow;

use github_actions_expressions::call::Function;
use serde_json::Value;

use super::budget::check_length;
use super::value::{equal, fold_case, is_collection, text};
use super::{EvaluationBudget, EvaluationError};

type EvaluationResult<T> = Result<T, EvaluationError>;

pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    budget: &mut EvaluationBudget,
) -> EvaluationResult<Value> {
    let first = arguments.first().map_or(&Value::Null, AsRef::as_ref);
    let second = arguments.get(1).map(AsRef::as_ref);
    Ok(match function {
        Function::Format => Value::String(format(first, arguments.get(1..).unwrap_or_default(), budget)?),
        Function::Contains => Value::Bool(contains(first, second.unwrap_or(&Value::Null), budget)?),
        Function::StartsWith => {
            Value::Bool(matches_edge(first, second, budget, |text, part| text.starts_with(part))?)
        }
        Function::EndsWith => {
            Value::Bool(matches_edge(first, second, budget, |text, part| text.ends_with(part))?)
        }
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

/// Converts to pretty-printed JSON. Collections inserted into a string use the same format.
pub(super) fn to_json(value: &Value, budget: &mut EvaluationBudget) -> EvaluationResult<String> {
    budget.charge_copy(value)?;
    let text = serde_json::to_string_pretty(value)
        .map_err(|_| EvaluationError::new("gives `toJSON` something that is not JSON"))?;
    check_length(text.len())?;
    Ok(text)
}

/// Error messages contain only the position, because the JSON parser's own message would quote the text, which may be a
/// secret.
fn from_json(value: &Value, budget: &mut EvaluationBudget) -> EvaluationResult<Value> {
    let text = text_within_budget(value, budget)?;
    let value = serde_json::from_str(&text).map_err(|error| {
        EvaluationError::new(format!(
            "gives `fromJSON` a text that is not JSON, at line {}, column {}",
            error.line(),
            error.column()
        ))
    })?;
    budget.charge_copy(&value)?;
    Ok(value)
}

fn contains(within: &Value, wanted: &Value, budget: &mut EvaluationBudget) -> EvaluationResult<bool> {
    match within {
        Value::Array(items) => {
            for item in items {
                budget.charge_comparison(item, wanted)?;
                if equal(item, wanted) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Object(_) => Ok(false),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            matches_edge(within, Some(wanted), budget, |text, part| text.contains(part))
        }
    }
}

/// Whether a string starts or ends with another, ignoring case. Always false for collections.
fn matches_edge(
    value: &Value,
    part: Option<&Value>,
    budget: &mut EvaluationBudget,
    test: impl Fn(&str, &str) -> bool,
) -> EvaluationResult<bool> {
    let part = part.unwrap_or(&Value::Null);
    if is_collection(value) || is_collection(part) {
        return Ok(false);
    }
    let (text, part) = (text_within_budget(value, budget)?, text_within_budget(part, budget)?);
    Ok(test(&fold_case(&text), &fold_case(&part)))
}

fn join(value: &Value, separator: Option<&Value>, budget: &mut EvaluationBudget) -> EvaluationResult<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => &[],
        one => std::slice::from_ref(one),
    };
    let separator = match separator {
        Some(separator) if !is_collection(separator) => text_within_budget(separator, budget)?,
        _ => Cow::Borrowed(","),
    };
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            append(&mut joined, &separator, budget)?;
        }
        append(&mut joined, &text_within_budget(item, budget)?, budget)?;
    }
    Ok(joined)
}

/// Replaces `{0}` with the first argument, `{1}` with the second, and so on; `{{` and `}}` are literal braces.
fn format(
    pattern: &Value,
    values: &[Cow<'_, Value>],
    budget: &mut EvaluationBudget,
) -> EvaluationResult<String> {
    const LONE: &str = "gives `format` a text with a lone brace; write `{{` and `}}` for braces";
    let pattern = text_within_budget(pattern, budget)?;
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
            append(&mut filled, &text_within_budget(value, budget)?, budget)?;
            after
        };
    }
    append(&mut filled, rest, budget)?;
    Ok(filled)
}

fn text_within_budget<'v>(value: &'v Value, budget: &mut EvaluationBudget) -> EvaluationResult<Cow<'v, str>> {
    let text = text(value);
    budget.charge_text(text.len())?;
    Ok(text)
}

fn append(text: &mut String, more: &str, budget: &mut EvaluationBudget) -> EvaluationResult<()> {
    check_length(text.len() + more.len())?;
    budget.charge_steps(1 + more.len() / super::EXPR_STEP_BYTES)?;
    text.push_str(more);
    Ok(())
}
