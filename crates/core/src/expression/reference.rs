//! Collects the references in an expression and rejects functions and contexts that are not supported.

use std::ops::Range;

use github_actions_expressions::call::{self, Function};
use github_actions_expressions::literal::Literal;
use github_actions_expressions::op::BinExpr;
use github_actions_expressions::{Error, Expr, SpannedExpr};

use super::{EXPR_BYTES_MAX, EXPR_DEPTH_MAX, EXPR_OPERATORS_MAX, ExpressionError};
use crate::wording::{hint, join_words, quote};

/// A context and the path into it, like `steps.build.image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReference {
    pub context: Context,
    pub members: Vec<PathMember>,
    /// Byte range in the expression.
    pub range: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMember {
    Name(String),
    /// `.*`, or an index whose value is only known at evaluation.
    Computed,
}

macro_rules! contexts {
    ($($name:ident = $text:literal,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Context { $($name,)+ }

        impl Context {
            pub const ALL: &'static [Context] = &[$(Context::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Context::$name => $text),+ }
            }
        }
    };
}

contexts! {
    Stage = "stage",
    Pipeline = "pipeline",
    Organization = "organization",
    Trigger = "trigger",
    Vars = "vars",
    Build = "build",
    Steps = "steps",
    Environment = "environment",
    Session = "session",
    Secrets = "secrets",
}

const FUNCTIONS: [&str; 7] = ["format", "contains", "startsWith", "endsWith", "join", "toJSON", "fromJSON"];

/// All references in an expression given without `${{ }}`, or all its errors.
pub fn references(text: &str) -> Result<Vec<ContextReference>, Vec<ExpressionError>> {
    parse_expression(text).map(|(_, found)| found)
}

/// Like [`references`], but also returns the syntax tree. Its size and depth are within the limits, so it is safe to
/// walk recursively.
pub(super) fn parse_expression(
    text: &str,
) -> Result<(SpannedExpr<'_>, Vec<ContextReference>), Vec<ExpressionError>> {
    check_bounds(text).map_err(|error| vec![error])?;
    let parsed = Expr::parse(text).map_err(|error| vec![syntax_error(text, &error)])?;
    let mut walk = ReferenceCollector { found: Vec::new(), errors: Vec::new() };
    walk.visit(&parsed, 1);
    if walk.errors.is_empty() { Ok((parsed, walk.found)) } else { Err(walk.errors) }
}

impl ContextReference {
    /// The member at this position of the path, if its name is a literal.
    pub fn member(&self, index: usize) -> Option<&str> {
        match self.members.get(index) {
            Some(PathMember::Name(name)) => Some(name),
            Some(PathMember::Computed) | None => None,
        }
    }
}

struct ReferenceCollector {
    found: Vec<ContextReference>,
    errors: Vec<ExpressionError>,
}

impl ReferenceCollector {
    /// The recursion is bounded by `check_bounds` and by `depth`.
    fn visit(&mut self, expression: &SpannedExpr<'_>, depth: usize) {
        let range = expression.origin.span.as_range();
        if depth > EXPR_DEPTH_MAX {
            self.errors.push(too_deep(range));
            return;
        }
        match &expression.inner {
            Expr::Literal(_) | Expr::Star | Expr::Identifier(_) => {}
            Expr::Index(inner) => self.visit(inner, depth + 1),
            Expr::UnExpr { expr, .. } => self.visit(expr, depth + 1),
            Expr::BinExpr(BinExpr { lhs, rhs, .. }) => {
                self.visit(lhs, depth + 1);
                self.visit(rhs, depth + 1);
            }
            Expr::Call(call) => {
                self.errors.extend(
                    unsupported_reason(call.func).map(|message| error("refused_function", message, range)),
                );
                for argument in &call.args {
                    self.visit(argument, depth + 1);
                }
            }
            Expr::Context(context) => {
                if let Some((Expr::Identifier(name), rest)) =
                    context.parts.split_first().map(|(head, rest)| (&head.inner, rest))
                {
                    self.context(name.as_str(), rest, range);
                }
                for part in &context.parts {
                    self.visit(part, depth + 1);
                }
            }
        }
    }

    fn context(&mut self, name: &str, rest: &[SpannedExpr<'_>], range: Range<usize>) {
        let Some(context) = Context::ALL.iter().copied().find(|context| context.as_str() == name) else {
            let (hint, suggestion) = hint(name, Context::ALL.iter().map(|context| context.as_str()));
            let message = format!("there is no {} in expressions{hint}", quote(name));
            let error = error("unknown_context", message, range.start..range.start + name.len());
            self.errors.push(ExpressionError { suggestion, ..error });
            return;
        };
        let members = rest.iter().map(|part| match &part.inner {
            Expr::Identifier(name) => PathMember::Name(name.as_str().to_owned()),
            Expr::Index(index) => match &index.inner {
                Expr::Literal(Literal::String(name)) => PathMember::Name(name.to_string()),
                _ => PathMember::Computed,
            },
            _ => PathMember::Computed,
        });
        self.found.push(ContextReference { context, members: members.collect(), range });
    }
}

/// Why Berth does not support this function, or `None` if it does.
fn unsupported_reason(function: Function) -> Option<String> {
    match function {
        Function::Format
        | Function::Contains
        | Function::StartsWith
        | Function::EndsWith
        | Function::Join
        | Function::ToJSON
        | Function::FromJSON => None,
        Function::Success | Function::Always | Function::Cancelled | Function::Failure => {
            Some("status functions are not available: a step runs when all it needs succeeded, and `on_failure` of the stage says what happens otherwise".into())
        }
        Function::HashFiles | Function::Case => Some(format!("this function is not available; there are {}", join_words(FUNCTIONS, "and"))),
    }
}

fn syntax_error(text: &str, cause: &Error) -> ExpressionError {
    match cause {
        Error::Depth => too_deep(0..text.len()),
        Error::Call(call::Error::UnknownFunction(name)) => {
            let start = text.find(name.as_str()).unwrap_or(0);
            let (hint, suggestion) = match hint(name, FUNCTIONS) {
                (_, None) if name.starts_with("secret") => {
                    ("; a secret is written `secrets.NAME`".into(), None)
                }
                found => found,
            };
            let message = format!("there is no function {}{hint}", quote(name));
            ExpressionError { suggestion, ..error("unknown_function", message, start..start + name.len()) }
        }
        Error::Call(call::Error::Arity(function, expected)) => {
            error("bad_expression", format!("`{function:?}` takes {expected}"), 0..text.len())
        }
        Error::Syntax(syntax) => {
            let start = syntax.offset.min(text.len());
            let rest = text.get(start..).unwrap_or_default();
            let message = match rest.chars().next() {
                Some('"') => "text in an expression takes single quotes: 'like this'".to_owned(),
                _ if text.is_empty() => "the expression is empty".to_owned(),
                _ => format!("the expression cannot be read: {}", syntax.message),
            };
            error("bad_expression", message, start..start + rest.chars().next().map_or(0, char::len_utf8))
        }
    }
}

/// Checks length, nesting and number of operators before parsing.
fn check_bounds(text: &str) -> Result<(), ExpressionError> {
    if text.len() > EXPR_BYTES_MAX {
        let message =
            format!("an expression may be at most {EXPR_BYTES_MAX} bytes long; this one has {}", text.len());
        return Err(error("expression_too_long", message, 0..text.len()));
    }
    let (mut quoted, mut open, mut operators) = (false, 0usize, 0usize);
    for byte in text.bytes() {
        match byte {
            b'\'' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' => open += 1,
            b')' | b']' => open = open.saturating_sub(1),
            b'!' | b'&' | b'|' | b'=' | b'<' | b'>' => operators += 1,
            _ => {}
        }
        if open > EXPR_DEPTH_MAX {
            return Err(too_deep(0..text.len()));
        }
    }
    // The loop counts characters, and most operators consist of two.
    if operators > 2 * EXPR_OPERATORS_MAX {
        return Err(error(
            "expression_too_deep",
            format!("more than {EXPR_OPERATORS_MAX} operators; split the expression"),
            0..text.len(),
        ));
    }
    Ok(())
}

fn too_deep(range: Range<usize>) -> ExpressionError {
    error(
        "expression_too_deep",
        format!("nested more than {EXPR_DEPTH_MAX} levels deep; split the expression"),
        range,
    )
}

fn error(code: &'static str, message: impl Into<String>, range: Range<usize>) -> ExpressionError {
    ExpressionError { code, message: message.into(), suggestion: None, range }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &Expect) {
        let lines: Vec<String> = match references(text) {
            Ok(found) => found.iter().map(format_reference).collect(),
            Err(errors) => errors
                .iter()
                .map(|error| format!("{:?} {}: {}", error.range, error.code, error.message))
                .collect(),
        };
        expected.assert_eq(&lines.join("\n"));
    }

    fn format_reference(reference: &ContextReference) -> String {
        let members = reference.members.iter().map(|member| match member {
            PathMember::Name(name) => format!(".{name}"),
            PathMember::Computed => "[?]".to_owned(),
        });
        format!("{:?} {}{}", reference.range, reference.context.as_str(), members.collect::<String>())
    }

    #[test]
    fn references_finds_all_references_in_expression() {
        check("vars.url", &expect!["0..8 vars.url"]);
        check("secrets['DEPLOY_TOKEN']", &expect!["0..23 secrets.DEPLOY_TOKEN"]);
        check(
            "!steps.build-it.image || build.image == vars[stage.name]",
            &expect![[r#"
            1..21 steps.build-it.image
            25..36 build.image
            40..56 vars[?]
            45..55 stage.name"#]],
        );
        check("format('{0}', join(fromJSON(vars.list).*, ','))", &expect!["28..37 vars.list"]);
        check("'no references'", &expect![[""]]);
    }

    #[test]
    fn references_rejects_unsupported_syntax_with_reason() {
        check(
            "success() && failure()",
            &expect![[r#"
            0..9 refused_function: status functions are not available: a step runs when all it needs succeeded, and `on_failure` of the stage says what happens otherwise
            13..22 refused_function: status functions are not available: a step runs when all it needs succeeded, and `on_failure` of the stage says what happens otherwise"#]],
        );
        check(
            "hashFiles('a')",
            &expect![
                "0..14 refused_function: this function is not available; there are format, contains, startsWith, endsWith, join, toJSON and fromJSON"
            ],
        );
        check(
            "secret('X')",
            &expect![
                "0..6 unknown_function: there is no function `secret`; a secret is written `secrets.NAME`"
            ],
        );
        check(
            "startWith(vars.a, 'b')",
            &expect!["0..9 unknown_function: there is no function `startWith`; did you mean `startsWith`?"],
        );
        check("contains(vars.a)", &expect!["0..16 bad_expression: `Contains` takes exactly 2 arguments"]);
        check(
            "var.url || github.actor",
            &expect![[r#"
            0..3 unknown_context: there is no `var` in expressions; did you mean `vars`?
            11..17 unknown_context: there is no `github` in expressions; there are stage, pipeline, organization, trigger, vars, build, steps, environment, session and secrets"#]],
        );
        check(
            "vars.a == \"b\"",
            &expect!["10..11 bad_expression: text in an expression takes single quotes: 'like this'"],
        );
        check(
            "vars.a ==",
            &expect!["9..9 bad_expression: the expression cannot be read: unexpected end of expression"],
        );
        check("", &expect!["0..0 bad_expression: the expression is empty"]);
    }

    #[test]
    fn references_enforces_size_and_depth_limits_exactly() {
        let fits = |text: &str| references(text).is_ok();
        assert!(fits(&format!("'{}'", "x".repeat(EXPR_BYTES_MAX - 2))));
        assert!(!fits(&format!("'{}'", "x".repeat(EXPR_BYTES_MAX - 1))));
        assert!(fits(&format!("{}true", "!".repeat(EXPR_DEPTH_MAX - 1))));
        assert!(!fits(&format!("{}true", "!".repeat(EXPR_DEPTH_MAX))));
        let nested = |depth: usize| format!("{}1{}", "toJSON(".repeat(depth), ")".repeat(depth));
        assert!(fits(&nested(EXPR_DEPTH_MAX - 1)));
        assert!(!fits(&nested(EXPR_DEPTH_MAX)));
        assert!(fits(&vec!["vars.a"; EXPR_DEPTH_MAX - 1].join(" || ")));
        assert!(!fits(&vec!["a"; 1_000].join("||")));
        assert!(!fits(&"(".repeat(EXPR_BYTES_MAX)));
        assert!(!fits(&"!".repeat(EXPR_BYTES_MAX)));
        assert!(!fits(&"a[".repeat(EXPR_BYTES_MAX / 2)));
    }

    proptest! {
        #[test]
        fn references_never_panics_on_arbitrary_text(text in "\\PC{0,200}") {
            let _ = references(&text);
        }

        #[test]
        fn references_never_panics_on_token_sequences(tokens in prop::collection::vec(
            prop::sample::select(vec!["vars", ".", "a", "[", "]", "(", ")", "'", "!", "&&", "||", "==", "*", "1", ",", "format", "ü", " "]), 0..120,
        )) {
            let _ = references(&tokens.concat());
        }
    }
}
