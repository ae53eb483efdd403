//! Finds and parses expressions in `env`, `params` and `if`, and checks their references.

use std::ops::Range;

use berth_core::expression::{self, Context};
use berth_core::pipeline::model::Step;
use berth_core::pipeline::secrets::Phase;
use berth_core::wording::quoted;

use super::graph::Graph;
use super::references::{Known, Scope};
use crate::cursor::{Cursor, Site};
use crate::read::Draft;
use crate::report::Problem;
use crate::tree::Value;

pub(super) fn check(draft: &Draft<'_>, build: &Graph, stages: &Graph) {
    let known = Known::of(draft);
    for (phase, steps, graph) in [(Phase::Build, &draft.build, build), (Phase::Stages, &draft.steps, stages)]
    {
        for step in steps {
            in_step(step, &Scope { known: &known, phase, step: &step.value, graph });
        }
    }
}

fn in_step(step: &Site<'_, Step>, scope: &Scope<'_>) {
    let part = |name: &str| step.at.get(name);
    for (at, text) in part("env").into_iter().flat_map(|at| at.texts()) {
        in_text(&at, text, scope);
    }
    for param in part("params").into_iter().flat_map(|at| at.children()) {
        let is_shell = param.pointer.ends_with("/params/run");
        for (at, text) in param.texts() {
            if is_shell { no_expression(&at, text) } else { in_text(&at, text, scope) }
        }
    }
    if let Some(at) = part("if") {
        in_condition(&at, scope);
    }
}

fn in_text(at: &Cursor<'_>, text: &str, scope: &Scope<'_>) {
    let mut finder = Finder::new(at, text);
    match expression::templates(text) {
        Ok(templates) => {
            for template in templates {
                let place = finder.find(template.whole.clone());
                in_expression(
                    &Found { at, text, whole: template.whole, inner: template.inner, place },
                    scope,
                );
            }
        }
        Err(expression::Unclosed(start)) => {
            let problem = Problem::error("bad_expression", "`${{` is never closed; add `}}`");
            at.add_at(&finder.find(start..text.len()), problem);
        }
    }
}

fn in_condition(at: &Cursor<'_>, scope: &Scope<'_>) {
    let Value::Text(text) = &at.node.value else { return };
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
    let place = Finder::new(at, text).find(inner.clone());
    in_expression(&Found { at, text, whole: inner.clone(), inner, place }, scope);
}

/// An expression in a text, with its position in the source.
struct Found<'c, 'a> {
    at: &'c Cursor<'a>,
    text: &'c str,
    whole: Range<usize>,
    inner: Range<usize>,
    /// The range of `whole` in the source.
    place: Range<usize>,
}

fn in_expression(found: &Found<'_, '_>, scope: &Scope<'_>) {
    let Found { at, text, whole, inner, place } = found;
    // Columns are exact only if the source contains the expression verbatim, without escapes or folded lines.
    let exact = place.len() == whole.len();
    let locate = |range: &Range<usize>| {
        let start = place.start + (inner.start - whole.start) + range.start;
        if exact { start..start + range.len() } else { place.clone() }
    };
    let references = match expression::references(&text[inner.clone()]) {
        Ok(references) => references,
        Err(errors) => {
            for error in errors {
                let problem =
                    Problem { suggestion: error.suggestion, ..Problem::error(error.code, error.message) };
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

/// Expressions are not allowed in shell text, because their values would become part of the program.
fn no_expression(at: &Cursor<'_>, text: &str) {
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
        quoted(inner)
    );
    at.add_at(
        &Finder::new(at, text).find(range),
        Problem::error("expression_in_run", message).suggesting(rewrite),
    );
}

/// Suggests a variable name: the last part of a reference, in upper case.
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

/// Locates parts of a parsed text in the source, in order.
struct Finder<'t> {
    text: &'t str,
    source: &'t str,
    start: usize,
    searched: usize,
}

impl<'t> Finder<'t> {
    fn new(at: &Cursor<'t>, text: &'t str) -> Self {
        let range = &at.node.range;
        Self { text, source: at.report().source().slice(range), start: range.start, searched: 0 }
    }

    /// The range of a part in the source, or of the whole value if escapes or folding changed the text.
    fn find(&mut self, part: Range<usize>) -> Range<usize> {
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
