//! The calls that clients made on an environment and the responses they got, with the times of both.
//!
//! A history has a text form: incorrect ones can be written by hand, and recorded ones printed and parsed again.
//!
//! ```text
//! 10-20 claim -> opened s1 #1
//! 12-25 claim -> held s1 #1
//! 30-? force if #1
//! ```

use std::fmt;
use std::sync::Arc;

/// Nanoseconds on a monotonic clock.
pub(crate) type Tick = u64;

/// A session, as identified in responses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionRef {
    pub(crate) session: Arc<str>,
    pub(crate) fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockCall {
    Claim,
    Force {
        /// The fence in `If-Match`: the call succeeds only if the holder has it.
        only: Option<u64>,
    },
    Release {
        session: Arc<str>,
    },
    Get,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockAnswer {
    /// Claim, force: succeeded, and opened this session.
    Opened(SessionRef),
    /// Claim: refused, because this session holds the lock. Get: this session holds the lock.
    Held(SessionRef),
    /// Get: the lock is free; `fence` is the last one issued.
    Free { fence: u64 },
    /// Release: the session ended now.
    Released,
    /// Release: the session had already ended.
    NotActive,
    /// Force with `If-Match`: that session does not hold the lock.
    Moved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) call: LockCall,
    pub(crate) invoked: Tick,
    /// `None`: no response arrived, so the operation may or may not have taken effect.
    pub(crate) outcome: Option<CallOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOutcome {
    pub(crate) returned: Tick,
    pub(crate) answer: LockAnswer,
}

impl Operation {
    pub(crate) fn answer(&self) -> Option<&LockAnswer> {
        self.outcome.as_ref().map(|outcome| &outcome.answer)
    }

    /// Returns whether the call can open a session.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.call, LockCall::Claim | LockCall::Force { .. })
    }
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.session, self.fence)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Some(outcome) => write!(f, "{}-{} ", self.invoked, outcome.returned)?,
            None => write!(f, "{}-? ", self.invoked)?,
        }
        match &self.call {
            LockCall::Claim => write!(f, "claim")?,
            LockCall::Force { only: None } => write!(f, "force")?,
            LockCall::Force { only: Some(fence) } => write!(f, "force if #{fence}")?,
            LockCall::Release { session } => write!(f, "release {session}")?,
            LockCall::Get => write!(f, "get")?,
        }
        match self.answer() {
            None => Ok(()),
            Some(LockAnswer::Opened(hold)) => write!(f, " -> opened {hold}"),
            Some(LockAnswer::Held(hold)) => write!(f, " -> held {hold}"),
            Some(LockAnswer::Free { fence }) => write!(f, " -> free #{fence}"),
            Some(LockAnswer::Released) => write!(f, " -> released"),
            Some(LockAnswer::NotActive) => write!(f, " -> not active"),
            Some(LockAnswer::Moved) => write!(f, " -> moved"),
        }
    }
}

/// Formats one operation per line.
pub(crate) fn format_history(history: &[Operation]) -> String {
    history.iter().map(|operation| format!("{operation}\n")).collect()
}

/// Parses the output of [`format_history`] or a handwritten history.
pub(crate) fn parse_history(text: &str) -> Vec<Operation> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("not an operation: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Operation> {
    let (times, what) = line.split_once(' ')?;
    let (invoked, returned) = times.split_once('-')?;
    let (call, answer) = match what.split_once(" -> ") {
        Some((call, answer)) => (call, Some(parse_answer(answer)?)),
        None => (what, None),
    };
    let outcome = match (returned, answer) {
        ("?", None) => None,
        (returned, Some(answer)) => Some(CallOutcome { returned: returned.parse().ok()?, answer }),
        (_, None) => return None,
    };
    Some(Operation { call: parse_call(call)?, invoked: invoked.parse().ok()?, outcome })
}

fn parse_call(text: &str) -> Option<LockCall> {
    Some(match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["claim"] => LockCall::Claim,
        ["force"] => LockCall::Force { only: None },
        ["force", "if", fence] => LockCall::Force { only: Some(parse_fence(fence)?) },
        ["release", session] => LockCall::Release { session: session.into() },
        ["get"] => LockCall::Get,
        _ => return None,
    })
}

fn parse_answer(text: &str) -> Option<LockAnswer> {
    let hold =
        |session: &str, fence| Some(SessionRef { session: session.into(), fence: parse_fence(fence)? });
    Some(match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["opened", session, fence] => LockAnswer::Opened(hold(session, fence)?),
        ["held", session, fence] => LockAnswer::Held(hold(session, fence)?),
        ["free", fence] => LockAnswer::Free { fence: parse_fence(fence)? },
        ["released"] => LockAnswer::Released,
        ["not", "active"] => LockAnswer::NotActive,
        ["moved"] => LockAnswer::Moved,
        _ => return None,
    })
}

fn parse_fence(text: &str) -> Option<u64> {
    text.strip_prefix('#')?.parse().ok()
}

#[test]
fn history_print_and_parse_round_trip() {
    let text = "0-1 claim -> opened s1 #1\n2-5 claim -> held s1 #1\n3-4 get -> held s1 #1\n\
                3-? force\n3-9 force if #1 -> moved\n3-9 release s1 -> released\n\
                3-9 release s1 -> not active\n9-10 get -> free #1\n";
    assert_eq!(format_history(&parse_history(text)), text);
}
