//! Why did a step fail? Answered by rules, from what the step printed and how it ended.
//!
//! Everything here is a plain function of values: no IO, no clock, no network. What comes in was written by somebody
//! else and is data: it is cleaned and cut first ([`clean`]), matched by patterns that take linear time ([`rules`]),
//! and comes out again only as bounded text.
//!
//! [`analyse`] answers with a [`Finding`], or says that there is not enough to go by. [`fingerprint()`] tells whether two
//! failures are the same. [`fix::suggest`] makes a diff where a rule knows one, and [`diff::apply`] is the only way a
//! diff of anybody becomes files.

mod analyse;
mod category;
mod clean;
pub mod diff;
mod finding;
mod fingerprint;
pub mod fix;
mod input;
mod news;
mod pattern;
pub mod rule;
pub mod rules;
mod template;

pub use analyse::analyse;
pub use category::Category;
pub use clean::clean;
pub use finding::{Analysis, Confidence, Finding, LineRange, Unexplained};
pub use fingerprint::{Fingerprint, fingerprint};
pub use input::{Ending, Input, LINE_CHARS_MAX, LINES_MAX, LOG_BYTES_MAX};
pub use template::template;
