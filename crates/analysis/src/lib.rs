//! Failure analysis: why a step failed, from its log and its exit.
//!
//! Pure functions: no IO, no clock, no network. Input is untrusted: it is cleaned and truncated first ([`clean`]),
//! matched by patterns in linear time ([`rules`]), and quoted only in bounded length.
//!
//! [`analyse`] returns a [`Finding`], or that there is not enough evidence. [`fingerprint()`] tells whether two
//! failures are the same. [`fix::suggest_fix`] writes a diff for some rules; every diff, whatever its source, is
//! applied through [`diff::apply`].

mod analyse;
mod category;
mod clean;
pub mod diff;
mod finding;
mod fingerprint;
pub mod fix;
mod input;
mod new_lines;
mod pattern;
pub mod rule;
pub mod rules;
mod template;

pub use analyse::analyse;
pub use category::Category;
pub use clean::clean;
pub use finding::{AnalysisResult, Confidence, Finding, LineRange, UnexplainedFailure};
pub use fingerprint::{Fingerprint, fingerprint};
pub use input::{AnalysisInput, LINE_CHARS_MAX, LINES_MAX, LOG_BYTES_MAX, StepEnding};
pub use template::template;
