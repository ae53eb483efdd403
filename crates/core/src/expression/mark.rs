//! Renders strings and values for display: known values are filled in; secrets and outputs that do not exist yet are
//! replaced with markers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::evaluate::evaluate_within;
use super::fill::{single_template, to_text};
use super::value::find_key;
use super::{
    Context, ContextReference, EvaluationBudget, EvaluationError, ExpressionContexts, references, templates,
};

/// Fills in known values. An expression that refers to a secret becomes `[SECRET:NAME]`, and one that refers to an
/// output that does not exist yet becomes `[OUTPUT:step/name]`. An expression that cannot be evaluated stays as
/// written.
pub fn mark(text: &str, contexts: &ExpressionContexts) -> String {
    MarkerRenderer::new(contexts, EvaluationBudget::for_one_call()).text(text)
}

pub fn mark_value(value: &Value, contexts: &ExpressionContexts) -> Value {
    MarkerRenderer::new(contexts, EvaluationBudget::for_one_call()).value(value)
}

/// Renders many strings with one shared budget. Once it is exhausted, the remaining strings stay as written.
pub struct MarkerRenderer<'c> {
    contexts: &'c ExpressionContexts,
    budget: EvaluationBudget,
}

impl<'c> MarkerRenderer<'c> {
    pub const fn new(contexts: &'c ExpressionContexts, budget: EvaluationBudget) -> Self {
        Self { contexts, budget }
    }

    /// Continues with other contexts and the same budget.
    pub fn with(self, contexts: &ExpressionContexts) -> MarkerRenderer<'_> {
        MarkerRenderer { contexts, budget: self.budget }
    }

    pub fn text(&mut self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut from = 0;
        for template in templates(text).unwrap_or_default() {
            marked.push_str(&text[from..template.whole.start]);
            let shown = self
                .evaluate_or_mark(&text[template.inner])
                .and_then(|value| to_text(&value, &mut self.budget));
            marked.push_str(&shown.unwrap_or_else(|_| text[template.whole.clone()].to_owned()));
            from = template.whole.end;
        }
        marked.push_str(&text[from..]);
        marked
    }

    /// The recursion is bounded because the depth of a definition is limited.
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                match single_template(text).map(|expression| self.evaluate_or_mark(expression)) {
                    Some(Ok(value)) => value,
                    Some(Err(_)) => value.clone(),
                    None => Value::String(self.text(text)),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, item)| (name.clone(), self.value(item))).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Never evaluates an expression that refers to a secret, so that no part of the secret can be shown.
    fn evaluate_or_mark(&mut self, expression: &str) -> Result<Value, EvaluationError> {
        let found = references(expression).unwrap_or_default();
        let markers: BTreeSet<String> =
            found.iter().filter_map(|reference| marker(reference, self.contexts)).collect();
        if markers.is_empty() {
            evaluate_within(expression, self.contexts, &mut self.budget)
        } else {
            Ok(Value::String(markers.into_iter().collect()))
        }
    }
}

fn marker(reference: &ContextReference, contexts: &ExpressionContexts) -> Option<String> {
    let name = |index| reference.member(index).unwrap_or("*");
    let known = |path: &[&str]| {
        let start = contexts.get(reference.context.as_str());
        path.iter().try_fold(start?, |value, name| {
            let fields = value.as_object()?;
            fields.get(find_key(fields, name)?)
        })
    };
    match reference.context {
        Context::Secrets => Some(format!("[SECRET:{}]", name(0))),
        Context::Build => known(&[name(0)]).is_none().then(|| format!("[OUTPUT:build/{}]", name(0))),
        Context::Steps => {
            known(&[name(0), name(1)]).is_none().then(|| format!("[OUTPUT:{}/{}]", name(0), name(1)))
        }
        Context::Stage
        | Context::Pipeline
        | Context::Organization
        | Context::Trigger
        | Context::Vars
        | Context::Environment
        | Context::Session => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// Contains a secret on purpose: the tests check that it never appears in the output.
    fn contexts() -> ExpressionContexts {
        let known = json!({
            "vars": { "url": "https://shop.test", "replicas": 3 },
            "steps": { "deploy": { "address": "10.0.0.7" } },
            "secrets": { "TOKEN": "hunter2!" },
            "session": null,
        });
        serde_json::from_value(known).expect("contexts")
    }

    fn check(text: &str, expected: &Expect) {
        expected.assert_eq(&mark(text, &contexts()));
    }

    #[test]
    fn mark_fills_in_known_values_and_marks_the_rest() {
        check("${{ vars.url }}/health", &expect!["https://shop.test/health"]);
        check("${{ secrets.TOKEN }}", &expect!["[SECRET:TOKEN]"]);
        check("x-${{ build.image }}-y", &expect!["x-[OUTPUT:build/image]-y"]);
        check("${{ steps.deploy.address }} ${{ steps.deploy.id }}", &expect!["10.0.0.7 [OUTPUT:deploy/id]"]);
        check("${{ session.id }}!", &expect!["!"]);
        check(
            "${{ trigger.commit }} ${{ nonsense( }} ${{ open",
            &expect!["${{ trigger.commit }} ${{ nonsense( }} ${{ open"],
        );
    }

    #[test]
    fn mark_never_shows_secret_whatever_the_expression() {
        check("${{ format('{0}@{1}', secrets.TOKEN, vars.url) }}", &expect!["[SECRET:TOKEN]"]);
        check("${{ toJSON(secrets) }} ${{ secrets.* }}", &expect!["[SECRET:*] [SECRET:*]"]);
        check("${{ secrets['TOKEN'] }} ${{ secrets[vars.url] }}", &expect!["[SECRET:TOKEN] [SECRET:*]"]);
        check("${{ startsWith(secrets.TOKEN, 'h') && 'yes' }}", &expect!["[SECRET:TOKEN]"]);
        check("${{ vars[secrets.TOKEN] || build.image }}", &expect!["[OUTPUT:build/image][SECRET:TOKEN]"]);
    }

    #[test]
    fn mark_value_handles_nested_values_and_keeps_types() {
        let value = json!({ "a": ["${{ vars.replicas }}", { "b": "${{ secrets.TOKEN }}" }], "c": "${{ build.x }}", "d": 1 });
        assert_eq!(
            mark_value(&value, &contexts()),
            json!({ "a": [3, { "b": "[SECRET:TOKEN]" }], "c": "[OUTPUT:build/x]", "d": 1 })
        );
    }

    #[test]
    fn mark_leaves_templates_unchanged_once_budget_is_spent() {
        let contexts = contexts();
        let mut marks = MarkerRenderer::new(&contexts, EvaluationBudget::new(1_000, 20));
        assert_eq!(marks.text("${{ vars.url }}"), "https://shop.test");
        assert_eq!(marks.text("${{ vars.url }}"), "${{ vars.url }}");
        assert_eq!(marks.value(&json!("${{ vars.url }}")), json!("${{ vars.url }}"));
    }
}
