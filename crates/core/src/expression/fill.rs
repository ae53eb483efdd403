//! Replaces expressions in strings and values with their results, in a single pass.

use serde_json::Value;

use super::evaluate::evaluate_within;
use super::value::text;
use super::{EvaluationBudget, EvaluationError, ExpressionContexts, UnclosedTemplate, function, templates};

/// Replaces every `${{ … }}` in a string with its result. Null becomes an empty string; objects and lists become JSON.
pub fn fill(text: &str, contexts: &ExpressionContexts) -> Result<String, EvaluationError> {
    fill_within(text, contexts, &mut EvaluationBudget::for_one_call())
}

/// Replaces the expressions in every string inside a value. A string that consists of a single `${{ … }}` is replaced
/// with the result itself, which keeps its type.
pub fn fill_value(value: &Value, contexts: &ExpressionContexts) -> Result<Value, EvaluationError> {
    fill_value_within(value, contexts, &mut EvaluationBudget::for_one_call())
}

/// The expression, if the string consists of exactly one `${{ … }}`.
pub(super) fn single_template(text: &str) -> Option<&str> {
    match templates(text).as_deref() {
        Ok([one]) if one.whole == (0..text.len()) => Some(&text[one.inner.clone()]),
        _ => None,
    }
}

/// Converts a value to the string that is inserted for it.
pub(super) fn to_text(value: &Value, budget: &mut EvaluationBudget) -> Result<String, EvaluationError> {
    match value {
        Value::Array(_) | Value::Object(_) => function::to_json(value, budget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(text(value).into_owned()),
    }
}

fn fill_within(
    text: &str,
    contexts: &ExpressionContexts,
    budget: &mut EvaluationBudget,
) -> Result<String, EvaluationError> {
    let found = templates(text)
        .map_err(|UnclosedTemplate(_)| EvaluationError::new("`${{` is never closed; add `}}`"))?;
    let mut filled = String::with_capacity(text.len());
    let mut from = 0;
    for template in found {
        let value = evaluate_within(&text[template.inner], contexts, budget)?;
        filled.push_str(&text[from..template.whole.start]);
        filled.push_str(&to_text(&value, budget)?);
        from = template.whole.end;
    }
    filled.push_str(&text[from..]);
    Ok(filled)
}

/// The recursion is bounded because the depth of a definition is limited.
fn fill_value_within(
    value: &Value,
    contexts: &ExpressionContexts,
    budget: &mut EvaluationBudget,
) -> Result<Value, EvaluationError> {
    Ok(match value {
        Value::String(text) => match single_template(text) {
            Some(expression) => evaluate_within(expression, contexts, budget)?,
            None => Value::String(fill_within(text, contexts, budget)?),
        },
        Value::Array(items) => {
            let filled = items.iter().map(|item| fill_value_within(item, contexts, budget));
            Value::Array(filled.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let filled = fields
                .iter()
                .map(|(name, item)| Ok((name.clone(), fill_value_within(item, contexts, budget)?)));
            Value::Object(filled.collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn contexts() -> ExpressionContexts {
        let known = json!({
            "vars": { "url": "https://shop.test", "replicas": 3, "on": true, "none": null, "ports": [80, 443] },
            "trigger": { "title": "${{ secrets.TOKEN }} $(rm -rf /) `id` \"quoted\"\nnext" },
            "secrets": { "TOKEN": "hunter2!" },
        });
        serde_json::from_value(known).expect("contexts")
    }

    fn check(text: &str, expected: &Expect) {
        let answer = fill(text, &contexts());
        expected.assert_eq(&answer.unwrap_or_else(|error| format!("error: {error}")));
    }

    #[test]
    fn fill_replaces_templates_with_values() {
        check("no template", &expect!["no template"]);
        check("${{ vars.url }}/health", &expect!["https://shop.test/health"]);
        check(
            "a${{ vars.replicas }}b${{vars.on}}c${{ vars.none }}d${{ vars.gone }}e",
            &expect!["a3btruecde"],
        );
        check(
            "${{ vars.ports }}",
            &expect![[r#"
            [
              80,
              443
            ]"#]],
        );
        check("Bearer ${{ secrets.TOKEN }}", &expect!["Bearer hunter2!"]);
        check("${{ vars.url", &expect!["error: `${{` is never closed; add `}}`"]);
        check("${{ steps.a.b }}", &expect!["error: `steps.a.b` refers to `steps`, which is not known here"]);
    }

    #[test]
    fn fill_never_evaluates_expressions_inside_values() {
        check(
            "title: ${{ trigger.title }}",
            &expect![[r#"
                title: ${{ secrets.TOKEN }} $(rm -rf /) `id` "quoted"
                next"#]],
        );
        check("${{ format('${0}', '{{ secrets.TOKEN }}') }}", &expect!["${{ secrets.TOKEN }}"]);
        let value = fill_value(&json!({ "a": "${{ trigger.title }}" }), &contexts()).expect("filled");
        assert_eq!(value["a"], contexts()["trigger"]["title"]);
        // A result and the text next to it are not combined into a new expression.
        check("$${{ '{' }}{ secrets.TOKEN }}", &expect!["${{ secrets.TOKEN }}"]);
    }

    #[test]
    fn fill_value_keeps_type_of_single_template() {
        let value = json!({
            "expect_status": "${{ vars.replicas }}", "text": "${{ vars.replicas }} ", "ports": ["${{ vars.ports }}", 1],
            "${{ key }}": null, "on": "${{ vars.on }}",
        });
        assert_eq!(
            fill_value(&value, &contexts()),
            Ok(json!({
                "expect_status": 3, "text": "3 ", "ports": [[80, 443], 1], "${{ key }}": null, "on": true,
            }))
        );
    }

    #[test]
    fn fill_shares_one_budget_among_all_expressions() {
        let contexts =
            ExpressionContexts::from([("vars".to_owned(), json!({ "large": "x".repeat(40_000) }))]);
        assert!(fill("${{ vars.large }}", &contexts).is_ok());
        let twice = fill("${{ vars.large }}${{ vars.large }}", &contexts).expect_err("too large");
        expect!["`vars.large` has a result of more than 65536 bytes; pass large values in a file"]
            .assert_eq(&twice.message);
        assert!(fill_value(&json!(["${{ vars.large }}", "${{ vars.large }}"]), &contexts).is_err());
        // The literal text around expressions does not count towards the limit.
        let long = format!("{}${{{{ vars.large }}}}", "y".repeat(100_000));
        assert_eq!(fill(&long, &contexts).map(|text| text.len()), Ok(140_000));
    }
}
