//! Failure analysis: determines why a step failed, from its log and its exit code.
//!
//! All functions are pure: no IO, no clock, no network. The input is untrusted. It is first cleaned and truncated
//! ([`clean`]), then matched against patterns in linear time ([`rules`]), and quoted only in bounded length.
//!
//! [`analyse`] returns a [`Finding`], or reports that there is not enough evidence. [`fingerprint()`] tells whether two
//! failures are the same. [`fix::suggest_fix`] writes a diff for the findings of some rules. Every diff, whatever its
//! source, is applied by [`diff::apply`].

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
