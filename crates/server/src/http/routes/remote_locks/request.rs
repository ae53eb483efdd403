//! The body of an acquire request. Unknown members are ignored, as the protocol demands; a member of the wrong type is
//! refused, because its default could lock something else than the client meant.

use berth_core::environment::ClaimTerms;
use berth_core::environment::limits::{LEASE_S_MAX, WAIT_S_MAX, WAIT_S_MIN};
use berth_core::name::{CONTACT_CHARS_MAX, Contact, REASON_CHARS_MAX, Reason};
use http::StatusCode;
use serde_json::{Map, Value};

use super::response::LockError;
use crate::http::body::nesting_depth;
use crate::limits::JSON_DEPTH_MAX;

/// Number of heartbeats that may be missing before the lock is lost.
const HEARTBEATS_MISSED_MAX: i64 = 6;
/// Shortest lease of a lock, in seconds. Also the lease of a client that does not say how often it sends heartbeats.
const LOCK_LEASE_S_MIN: i64 = 60;
const VARIABLE_CHARS_MAX: usize = 64;
const SELECT_STRATEGIES: [&str; 2] = ["SEQUENTIAL", "RANDOM"];

/// What an acquire request asks for.
#[derive(Debug)]
pub(super) struct LockRequest {
    pub(super) target: LockTarget,
    pub(super) terms: ClaimTerms,
    pub(super) wait_seconds: i64,
    pub(super) skip_if_locked: bool,
    /// Environment variable that will contain the name of the locked resource.
    pub(super) variable: Option<VariableName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LockTarget {
    /// One environment.
    Resource { pipeline: String, environment: String },
    /// Any environment of the pipeline with the label, or all of them.
    Label { pipeline: String, label: String, all: bool },
}

/// The name of an environment variable, safe in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VariableName(String);

impl VariableName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = text.starts_with(is_first)
            && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
            && text.len() <= VARIABLE_CHARS_MAX;
        is_name.then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl LockRequest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, LockError> {
        let body = parse_object(bytes)?;
        let Some(Value::Object(lock)) = body.get("lockRequest") else {
            let text = "lockRequest must be an object";
            return Err(bad("MISSING_LOCK_REQUEST", text));
        };
        let target = parse_target(lock)?;
        refuse_unsupported(lock)?;
        let variable = match text_of(lock, "variable")? {
            None => None,
            Some(name) => Some(VariableName::parse(name).ok_or_else(|| {
                let text = format!("variable must be the name of an environment variable of at most {VARIABLE_CHARS_MAX} characters");
                bad("INVALID_FIELD_VALUE", text)
            })?),
        };
        let client = text_of(&body, "clientId")?.map(|text| one_line(text, CONTACT_CHARS_MAX));
        let reason = text_of(lock, "reason")?.map(|text| one_line(text, REASON_CHARS_MAX));
        Ok(Self {
            target,
            terms: ClaimTerms {
                context: reason.and_then(|text| Reason::parse(&text).ok()),
                contact: client.and_then(|text| Contact::parse(&text).ok()),
                lease_seconds: Some(parse_lease(&body)?),
                deploy: false,
                ..ClaimTerms::default()
            },
            wait_seconds: parse_wait(lock)?,
            skip_if_locked: flag_of(lock, "skipIfLocked")?,
            variable,
        })
    }
}

fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, LockError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| nesting_depth(text) <= JSON_DEPTH_MAX);
    match text.map(serde_json::from_str) {
        Some(Ok(Value::Object(body))) => Ok(body),
        _ => Err(bad("INVALID_JSON", "the body must be a JSON object")),
    }
}

fn parse_target(lock: &Map<String, Value>) -> Result<LockTarget, LockError> {
    let quantity = number_of(lock, "quantity")?.unwrap_or(0);
    match (text_of(lock, "resource")?, text_of(lock, "label")?) {
        (Some(_), Some(_)) => {
            Err(bad("INVALID_REQUEST", "name a resource or a label in one lock() step, not both"))
        }
        (Some(resource), None) => match resource.split_once('/') {
            Some((pipeline, environment)) => {
                Ok(LockTarget::Resource { pipeline: pipeline.into(), environment: environment.into() })
            }
            None => Err(LockError::unknown_resource()),
        },
        (None, Some(label)) => match (quantity, label.split_once('/')) {
            (0 | 1, Some((pipeline, label))) => {
                Ok(LockTarget::Label { pipeline: pipeline.into(), label: label.into(), all: quantity == 0 })
            }
            (0 | 1, None) => Err(LockError::unknown_label()),
            _ => Err(bad("INVALID_REQUEST", ONE_AT_A_TIME)),
        },
        (None, None) if has_extra(lock) => Err(bad("INVALID_EXTRA", ONE_AT_A_TIME)),
        (None, None) => Err(bad("MISSING_TARGET", "lockRequest must name a resource or a label")),
    }
}

/// Why a request for several environments at once is refused.
pub(super) const ONE_AT_A_TIME: &str = "a lock() step locks one environment: write quantity: 1, and nest lock() \
    steps for several environments, in the same order in all jobs";

fn has_extra(lock: &Map<String, Value>) -> bool {
    !matches!(lock.get("extra"), None | Some(Value::Null))
        && lock.get("extra").and_then(Value::as_array).is_none_or(|extra| !extra.is_empty())
}

/// Checks members that have no effect, and refuses those whose effect would be missing.
fn refuse_unsupported(lock: &Map<String, Value>) -> Result<(), LockError> {
    if has_extra(lock) {
        return Err(bad("INVALID_EXTRA", ONE_AT_A_TIME));
    }
    let strategy = text_of(lock, "resourceSelectStrategy")?.unwrap_or(SELECT_STRATEGIES[0]);
    if !SELECT_STRATEGIES.iter().any(|known| known.eq_ignore_ascii_case(strategy)) {
        let text = format!("resourceSelectStrategy must be one of {}", SELECT_STRATEGIES.join(", "));
        return Err(bad("INVALID_SELECT_STRATEGY", text));
    }
    flag_of(lock, "inversePrecedence")?;
    number_of(lock, "priority").map(drop)
}

/// Returns the lease in seconds: the time in which several heartbeats would arrive.
fn parse_lease(body: &Map<String, Value>) -> Result<i64, LockError> {
    let longest = LEASE_S_MAX / HEARTBEATS_MISSED_MAX;
    let refused = || {
        let text = format!("heartbeatIntervalSeconds must be a whole number from 1 to {longest}");
        bad("INVALID_HEARTBEAT_INTERVAL", text)
    };
    match number_of(body, "heartbeatIntervalSeconds").map_err(|_| refused())? {
        None => Ok(LOCK_LEASE_S_MIN),
        Some(seconds) if (1..=longest).contains(&seconds) => {
            Ok((seconds * HEARTBEATS_MISSED_MAX).max(LOCK_LEASE_S_MIN))
        }
        Some(_) => Err(refused()),
    }
}

/// Returns how many seconds the request may wait in the queue. Without a timeout, as long as possible.
fn parse_wait(lock: &Map<String, Value>) -> Result<i64, LockError> {
    let unit = text_of(lock, "timeoutUnit")?.unwrap_or("MINUTES").to_ascii_uppercase();
    let micros: i128 = match unit.as_str() {
        "NANOSECONDS" | "MICROSECONDS" => 1,
        "MILLISECONDS" => 1_000,
        "SECONDS" => 1_000_000,
        "MINUTES" => 60_000_000,
        "HOURS" => 3_600_000_000,
        "DAYS" => 86_400_000_000,
        _ => return Err(bad("INVALID_FIELD_VALUE", "timeoutUnit must be SECONDS, MINUTES, HOURS or DAYS")),
    };
    let wanted = number_of(lock, "timeoutForAllocateResource")?.unwrap_or(0);
    if wanted <= 0 {
        return Ok(WAIT_S_MAX);
    }
    let seconds = i64::try_from(i128::from(wanted) * micros / 1_000_000).unwrap_or(WAIT_S_MAX);
    Ok(seconds.clamp(WAIT_S_MIN, WAIT_S_MAX))
}

/// A text member; `null` and blanks count as absent.
fn text_of<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, LockError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(bad("INVALID_FIELD_VALUE", format!("{name} must be a string"))),
    }
}

/// A whole number. Clients also send it as text.
fn number_of(object: &Map<String, Value>, name: &str) -> Result<Option<i64>, LockError> {
    let refused = || bad("INVALID_FIELD_VALUE", format!("{name} must be a whole number"));
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => number.as_i64().map(Some).ok_or_else(refused),
        Some(Value::String(text)) => text.trim().parse().map(Some).map_err(|_| refused()),
        Some(_) => Err(refused()),
    }
}

fn flag_of(object: &Map<String, Value>, name: &str) -> Result<bool, LockError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(bad("INVALID_FIELD_VALUE", format!("{name} must be true or false"))),
    }
}

/// Shortens a text and replaces its control characters, because a lock must not fail because of its description.
fn one_line(text: &str, chars_max: usize) -> String {
    let is_bad = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
    text.chars().take(chars_max).map(|c| if is_bad(c) { ' ' } else { c }).collect()
}

fn bad(code: &'static str, message: impl Into<String>) -> LockError {
    LockError::new(StatusCode::BAD_REQUEST, code, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &Value) -> Result<LockRequest, &'static str> {
        LockRequest::parse(body.to_string().as_bytes()).map_err(|refused| refused.code)
    }

    fn parse_lock(more: &Value) -> Result<LockRequest, &'static str> {
        let mut lock = json!({"resource": "shop/qa-1"});
        lock.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(&json!({ "lockRequest": lock }))
    }

    #[test]
    fn waiting_time_is_clamped_and_rounded() {
        for (timeout, unit, seconds) in [
            (json!(0), json!("MINUTES"), WAIT_S_MAX),
            (json!(-5), json!("SECONDS"), WAIT_S_MAX),
            (json!(null), json!(null), WAIT_S_MAX),
            (json!(5), json!(null), 300),
            (json!("5"), json!("seconds"), 5),
            (json!(1), json!("MILLISECONDS"), WAIT_S_MIN),
            (json!(8), json!("DAYS"), WAIT_S_MAX),
            (json!(i64::MAX), json!("DAYS"), WAIT_S_MAX),
        ] {
            let asked = parse_lock(&json!({"timeoutForAllocateResource": timeout, "timeoutUnit": unit}));
            assert_eq!(asked.unwrap().wait_seconds, seconds, "{timeout} {unit}");
        }
        let typo = parse_lock(&json!({"timeoutForAllocateResource": 5, "timeoutUnit": "MINUTE"}));
        assert_eq!(typo.err(), Some("INVALID_FIELD_VALUE"), "it must not wait without a limit");
    }

    #[test]
    fn lease_is_six_heartbeats_and_at_least_a_minute() {
        let lease = |interval: &Value| {
            let body =
                json!({"lockRequest": {"resource": "shop/qa-1"}, "heartbeatIntervalSeconds": interval});
            parse(&body).map(|asked| asked.terms.lease_seconds.unwrap())
        };
        assert_eq!(
            [json!(null), json!(1), json!(10), json!(11)].map(|it| lease(&it).unwrap()),
            [60, 60, 60, 66]
        );
        assert_eq!(lease(&json!(100)), Ok(600));
        for bad in [json!(0), json!(-1), json!(101), json!("abc"), json!(1.5), json!({})] {
            assert_eq!(lease(&bad), Err("INVALID_HEARTBEAT_INTERVAL"), "{bad}");
        }
    }

    #[test]
    fn texts_are_cleaned_and_variable_names_checked() {
        let asked =
            parse_lock(&json!({"reason": format!("a\nb\u{202e}{}", "x".repeat(5_000)), "unknown": 1}));
        let reason = asked.unwrap().terms.context.unwrap();
        assert!(reason.as_str().starts_with("a b x") && reason.as_str().chars().count() == REASON_CHARS_MAX);
        for good in ["QA", "_x1", &"x".repeat(64)] {
            assert_eq!(parse_lock(&json!({"variable": good})).unwrap().variable.unwrap().as_str(), good);
        }
        for bad in ["1A", "A B", "A-B", "A/B", "ä", &"x".repeat(65)] {
            assert_eq!(parse_lock(&json!({"variable": bad})).err(), Some("INVALID_FIELD_VALUE"), "{bad}");
        }
    }
}
