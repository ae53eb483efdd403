//! Renders texts and values for display: known values are substituted, secrets and unknown outputs become markers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::evaluate::evaluate_within;
use super::fill::{single_template, to_text};
use super::value::find_key;
use super::{
    Context, ContextReference, EvaluationBudget, EvaluationError, ExpressionContexts, references, templates,
};

/// Substitutes known values. A template that refers to a secret becomes `[SECRET:NAME]`, one that refers to an unknown
/// output `[OUTPUT:step/name]`. A template that cannot be evaluated stays as written.
pub fn mark(text: &str, contexts: &ExpressionContexts) -> String {
    MarkerRenderer::new(contexts, EvaluationBudget::for_one_call()).text(text)
}

pub fn mark_value(value: &Value, contexts: &ExpressionContexts) -> Value {
    MarkerRenderer::new(contexts, EvaluationBudget::for_one_call()).value(value)
}

/// Renders many texts with one budget. Once it is exhausted, the rest stays as written.
pub struct MarkerRenderer<'c> {
    contexts: &'c ExpressionContexts,
    budget: EvaluationBudget,
}

impl<'c> MarkerRenderer<'c> {
    pub const fn new(contexts: &'c ExpressionContexts, budget: EvaluationBudget) -> Self {
        Self { contexts, budget }
    }

    /// Keeps the budget and changes the contexts.
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

    /// The depth of the definition bounds the recursion.
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

    /// An expression that refers to a secret is never evaluated here, so no part of its value can be shown.
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

    /// Contains a secret on purpose: the tests check that it never appears.
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
    fn what_is_known_is_filled_in_and_the_rest_is_marked() {
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
    fn no_way_of_writing_it_shows_a_secret() {
        check("${{ format('{0}@{1}', secrets.TOKEN, vars.url) }}", &expect!["[SECRET:TOKEN]"]);
        check("${{ toJSON(secrets) }} ${{ secrets.* }}", &expect!["[SECRET:*] [SECRET:*]"]);
        check("${{ secrets['TOKEN'] }} ${{ secrets[vars.url] }}", &expect!["[SECRET:TOKEN] [SECRET:*]"]);
        check("${{ startsWith(secrets.TOKEN, 'h') && 'yes' }}", &expect!["[SECRET:TOKEN]"]);
        check("${{ vars[secrets.TOKEN] || build.image }}", &expect!["[OUTPUT:build/image][SECRET:TOKEN]"]);
    }

    #[test]
    fn a_value_is_marked_all_the_way_down_and_keeps_its_types() {
        let value = json!({ "a": ["${{ vars.replicas }}", { "b": "${{ secrets.TOKEN }}" }], "c": "${{ build.x }}", "d": 1 });
        assert_eq!(
            mark_value(&value, &contexts()),
            json!({ "a": [3, { "b": "[SECRET:TOKEN]" }], "c": "[OUTPUT:build/x]", "d": 1 })
        );
    }

    #[test]
    fn when_the_budget_is_spent_the_rest_stays_as_it_is_written() {
        let contexts = contexts();
        let mut marks = MarkerRenderer::new(&contexts, EvaluationBudget::new(1_000, 20));
        assert_eq!(marks.text("${{ vars.url }}"), "https://shop.test");
        assert_eq!(marks.text("${{ vars.url }}"), "${{ vars.url }}");
        assert_eq!(marks.value(&json!("${{ vars.url }}")), json!("${{ vars.url }}"));
    }
}
