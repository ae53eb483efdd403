//! Expressions `${{ … }}`: finding them in text, parsing them, saying what they refer to, and computing them.
//!
//! The grammar is that of GitHub Actions, read by a library; which functions and contexts exist is decided here.
//! The language is total: no calls outside the list, bounded size and depth, and a budget for every evaluation.
//! A text is filled once: what a value brings along stays text, even if it looks like an expression.

mod budget;
mod evaluate;
mod fill;
mod function;
mod mark;
mod reference;
mod template;
mod value;

pub use budget::Budget;
pub use evaluate::{Contexts, EvaluationError, evaluate, is_true, is_true_within};
pub use fill::{fill, fill_value};
pub use mark::{Marks, mark, mark_value};
pub use reference::{Context, Member, Reference, references};
pub use template::{Template, Unclosed, condition, condition_range, templates};

pub const EXPR_BYTES_MAX: usize = 4 * 1024;
/// Of the parsed expression: operators, calls, indices and brackets inside one another.
pub const EXPR_DEPTH_MAX: usize = 32;
/// Counted in the text before it is parsed, so that no input makes the parser's tree deeper than the stack is.
pub const EXPR_OPERATORS_MAX: usize = 200;
/// Steps of one evaluation: parts of the expression, members walked through, and every [`EXPR_STEP_BYTES`] of text.
pub const EXPR_FUEL_MAX: usize = 10_000;
pub const EXPR_STEP_BYTES: usize = 256;
/// What one evaluation may bring, and the longest text that any part of it may work on.
pub const EXPR_RESULT_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with an expression. The range is in bytes of the expression's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    pub code: &'static str,
    pub message: String,
    pub suggestion: Option<String>,
    pub range: std::ops::Range<usize>,
}
