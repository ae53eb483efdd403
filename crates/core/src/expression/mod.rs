//! Expressions `${{ … }}`: finding them in text, parsing them, and saying what they refer to.
//!
//! The grammar is that of GitHub Actions, read by a library; which functions and contexts exist is decided here.
//! The language is total: no calls outside the list, bounded size and depth. Evaluation comes with the engine.

mod reference;
mod template;

pub use reference::{Context, Member, Reference, references};
pub use template::{Template, Unclosed, condition, condition_range, templates};

pub const EXPR_BYTES_MAX: usize = 4 * 1024;
/// Of the parsed expression: operators, calls, indices and brackets inside one another.
pub const EXPR_DEPTH_MAX: usize = 32;
/// Counted in the text before it is parsed, so that no input makes the parser's tree deeper than the stack is.
pub const EXPR_OPERATORS_MAX: usize = 200;

/// What is wrong with an expression. The range is in bytes of the expression's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    pub code: &'static str,
    pub message: String,
    pub suggestion: Option<String>,
    pub range: std::ops::Range<usize>,
}
