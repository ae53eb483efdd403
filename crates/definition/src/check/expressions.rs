//! Finds and parses expressions in `env`, `params`, `if`, images and services, and checks their references.

use std::ops::Range;

use berth_core::expression::{self, Context};
use berth_core::pipeline::model::StepDefinition;
use berth_core::pipeline::secrets::StepPhase;
use berth_core::wording::quote;

use super::graph::StepGraph;
use super::references::{KnownNames, ReferenceScope};
use crate::cursor::{LocatedValue, NodeCursor};
use crate::read::DefinitionDraft;
use crate::report::DefinitionProblem;
use crate::tree::YamlValue;

pub(super) fn check(draft: &DefinitionDraft<'_>, build: &StepGraph, stages: &StepGraph) {
    let known = KnownNames::from_draft(draft);
    for (phase, steps, graph) in
        [(StepPhase::Build, &draft.build, build), (StepPhase::Stages, &draft.steps, stages)]
    {
        for step in steps {
            check_step(step, &ReferenceScope { known: &known, phase, step: &step.value, graph });
        }
    }
}

fn check_step(step: &LocatedValue<'_, StepDefinition>, scope: &ReferenceScope<'_>) {
    let part = |name: &str| step.at.get(name);
    for (at, text) in part("env").into_iter().flat_map(|at| at.texts()) {
        check_text(&at, text, scope);
    }
    for param in part("params").into_iter().flat_map(|at| at.children()) {
        let is_shell = param.pointer.ends_with("/params/run");
        for (at, text) in param.texts() {
            if is_shell { refuse_expression(&at, text) } else { check_text(&at, text, scope) }
        }
    }
    let services = || part("services").into_iter().flat_map(|at| at.children());
    let image = part("container").and_then(|at| at.get("image"));
    for (at, text) in image.clone().into_iter().chain(part("services")).flat_map(|at| at.texts()) {
        check_text(&at, text, scope);
    }
    for image in image.into_iter().chain(services().filter_map(|service| service.get("image"))) {
        refuse_secret_in_image(&image);
    }
    if let Some(at) = part("if") {
        check_condition(&at, scope);
    }
}

fn check_text(at: &NodeCursor<'_>, text: &str, scope: &ReferenceScope<'_>) {
    let mut finder = SourceLocator::new(at, text);
    match expression::templates(text) {
        Ok(templates) => {
            for template in templates {
                let place = finder.locate(template.whole.clone());
                check_expression(
                    &LocatedExpression { at, text, whole: template.whole, inner: template.inner, place },
                    scope,
                );
            }
        }
        Err(expression::UnclosedTemplate(start)) => {
            let problem = DefinitionProblem::error("bad_expression", "`${{` is never closed; add `}}`");
            at.add_at(&finder.locate(start..text.len()), problem);
        }
    }
}

/// Reports secrets in the name of an image, which the audit log and the deployment show.
fn refuse_secret_in_image(at: &NodeCursor<'_>) {
    let YamlValue::Text(text) = &at.node.value else { return };
    let templates = expression::templates(text).unwrap_or_default();
    let mut references =
        templates.into_iter().flat_map(|it| expression::references(&text[it.inner]).unwrap_or_default());
    if references.any(|reference| reference.context == Context::Secrets) {
        at.error(
            "secret_in_image",
            "the name of an image must not contain a secret, because the audit log shows it; use `credential` for the registry",
        );
    }
}

fn check_condition(at: &NodeCursor<'_>, scope: &ReferenceScope<'_>) {
    let YamlValue::Text(text) = &at.node.value else { return };
    let inner = expression::condition_range(text);
    if text[inner.clone()].contains("${{") {
        at.error("bad_expression", "write the whole condition in one `${{ }}`, or without");
        return;
    }
    let secrets = expression::references(&text[inner.clone()]).unwrap_or_default();
    if secrets.iter().any(|reference| reference.context == Context::Secrets) {
        at.error(
            "secret_in_condition",
            "a condition must not depend on a secret: whether the step runs would reveal it",
        );
    }
    let place = SourceLocator::new(at, text).locate(inner.clone());
    check_expression(&LocatedExpression { at, text, whole: inner.clone(), inner, place }, scope);
}

/// An expression in a string, with its position in the source file.
struct LocatedExpression<'c, 'a> {
    at: &'c NodeCursor<'a>,
    text: &'c str,
    whole: Range<usize>,
    inner: Range<usize>,
    /// The range of `whole` in the source file.
    place: Range<usize>,
}

fn check_expression(found: &LocatedExpression<'_, '_>, scope: &ReferenceScope<'_>) {
    let LocatedExpression { at, text, whole, inner, place } = found;
    // Columns inside the expression are exact only if the source contains it verbatim, without escapes or folded lines.
    let exact = place.len() == whole.len();
    let locate = |range: &Range<usize>| {
        let start = place.start + (inner.start - whole.start) + range.start;
        if exact { start..start + range.len() } else { place.clone() }
    };
    let references = match expression::references(&text[inner.clone()]) {
        Ok(references) => references,
        Err(errors) => {
            for error in errors {
                let problem = DefinitionProblem {
                    suggestion: error.suggestion,
                    ..DefinitionProblem::error(error.code, error.message)
                };
                at.add_at(&locate(&error.range), problem);
            }
            return;
        }
    };
    for reference in references {
        if let Err(problem) = scope.check(&reference, at.report()) {
            at.add_at(&locate(&reference.range), problem);
        }
    }
}

/// Reports expressions in shell scripts. They are not allowed there, because a value could inject shell code.
fn refuse_expression(at: &NodeCursor<'_>, text: &str) {
    let Some(start) = text.find("${{") else { return };
    let template = expression::templates(text).ok().and_then(|found| found.into_iter().next());
    let (range, inner) = match &template {
        Some(found) => (found.whole.clone(), &text[found.inner.clone()]),
        None => (start..text.len(), "…"),
    };
    let variable = variable_for(inner);
    let rewrite = format!("env: {{ {variable}: \"${{{{ {inner} }}}}\" }}");
    let message = format!(
        "`run` must not contain expressions, because their values would become shell code. Pass {} through the step's {rewrite} and write \"${variable}\" in the script",
        quote(inner)
    );
    at.add_at(
        &SourceLocator::new(at, text).locate(range),
        DefinitionProblem::error("expression_in_run", message).with_suggestion(rewrite),
    );
}

/// Suggests a name for an environment variable: the last part of the reference, in upper case.
fn variable_for(expression: &str) -> String {
    let last = expression.rsplit('.').next().unwrap_or_default();
    let plain = !last.is_empty() && last.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = last.to_ascii_uppercase().replace('-', "_");
    if plain && berth_core::pipeline::grammar::EnvVarName::parse(&name).is_ok() {
        name
    } else {
        "VALUE".into()
    }
}

/// Finds the source positions of successive parts of a parsed string.
struct SourceLocator<'t> {
    text: &'t str,
    source: &'t str,
    start: usize,
    searched: usize,
}

impl<'t> SourceLocator<'t> {
    fn new(at: &NodeCursor<'t>, text: &'t str) -> Self {
        let range = &at.node.range;
        Self { text, source: at.report().source().slice(range), start: range.start, searched: 0 }
    }

    /// The range of a part in the source. If escapes or folding changed the string, the range of the entire value.
    fn locate(&mut self, part: Range<usize>) -> Range<usize> {
        let wanted = &self.text[part];
        let found = self.source.get(self.searched..).and_then(|rest| rest.find(wanted));
        match found {
            Some(offset) => {
                let from = self.searched + offset;
                self.searched = from + wanted.len();
                self.start + from..self.start + self.searched
            }
            None => self.start..self.start + self.source.len(),
        }
    }
}
