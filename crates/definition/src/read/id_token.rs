//! Reads the ID token that a step asks for.

use berth_core::pipeline::limits::AUDIENCE_CHARS_MAX;
use berth_core::pipeline::model::{IdTokenRequest, StepType};
use berth_core::step::BuiltinStepType;
use berth_core::wording::quote;

use super::step::variable;
use crate::cursor::{FieldReader, NodeCursor};

/// Only steps that start a process can read the file of a token.
pub(super) fn read(fields: &FieldReader<'_>, kind: &StepType) -> Option<IdTokenRequest> {
    let at = fields.get("id_token")?;
    match kind {
        StepType::Builtin(BuiltinStepType::Script) | StepType::Custom(_) => {}
        StepType::Builtin(other) => {
            let message = format!(
                "a step of the type `{}` cannot use an ID token; only `script` and custom steps can",
                other.as_str()
            );
            at.error("unused_id_token", message);
        }
    }
    let token = at.fields(&["audience", "file"])?;
    let audience = token.require("audience").and_then(|at| audience(&at));
    let file = token.require("file").and_then(|at| match variable(at.text()?) {
        Ok(name) => Some(name),
        Err(problem) => {
            at.add(problem);
            None
        }
    });
    Some(IdTokenRequest { audience: audience?, file: file? })
}

/// The audience is fixed text. A value from outside of the definition could redirect the token to another service.
fn audience(at: &NodeCursor<'_>) -> Option<String> {
    let text = at.text()?;
    let is_plain = text.chars().all(|c| c.is_ascii_graphic());
    if text.is_empty() || text.len() > AUDIENCE_CHARS_MAX || !is_plain {
        let message = format!(
            "{} must be the name or URL of one service, at most {AUDIENCE_CHARS_MAX} characters without spaces",
            quote(text)
        );
        at.error("bad_audience", message);
        return None;
    }
    Some(text.to_owned())
}
