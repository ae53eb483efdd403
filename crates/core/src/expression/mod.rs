//! Expressions `${{ … }}`: finds, parses, checks and evaluates them.
//!
//! A library parses the syntax of GitHub Actions; this module defines which functions and contexts exist. Every
//! evaluation terminates: the functions are fixed, size and depth are limited, and a budget bounds the work.
//! Replacement happens once: a value that looks like an expression stays text.

mod budget;
mod evaluate;
mod fill;
mod function;
mod mark;
mod reference;
mod template;
mod value;

pub use budget::EvaluationBudget;
pub use evaluate::{EvaluationError, ExpressionContexts, evaluate, is_true, is_true_within};
pub use fill::{fill, fill_value};
pub use mark::{MarkerRenderer, mark, mark_value};
pub use reference::{Context, ContextReference, PathMember, references};
pub use template::{TemplateRange, UnclosedTemplate, condition, condition_range, templates};

pub const EXPR_BYTES_MAX: usize = 4 * 1024;
/// Maximum nesting of operators, calls, indices and parentheses.
pub const EXPR_DEPTH_MAX: usize = 32;
/// Maximum number of operators. Counted before parsing, so that no input can overflow the parser's stack.
pub const EXPR_OPERATORS_MAX: usize = 200;
/// Work units per evaluation: one for each syntax node, each visited member, and each [`EXPR_STEP_BYTES`] of text.
pub const EXPR_FUEL_MAX: usize = 10_000;
pub const EXPR_STEP_BYTES: usize = 256;
/// Maximum size of the result and of any intermediate string.
pub const EXPR_RESULT_BYTES_MAX: usize = 64 * 1024;

/// An error in an expression. The range is a byte range in the expression's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    pub code: &'static str,
    pub message: String,
    pub suggestion: Option<String>,
    pub range: std::ops::Range<usize>,
}
