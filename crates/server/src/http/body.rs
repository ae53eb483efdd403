//! JSON request bodies, with limits on size, nesting and idle time. An empty body is read as `{}`. Error responses list
//! every unknown member, not only the first.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use berth_api::problem::{Code, InputError, InputErrorCode};
use berth_core::wording::nearest;
use berth_engine::vault::hex;
use berth_store::idempotency::IdempotencyKey;
use http::header;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::auth::authorize::Principal;
use crate::error::{AppError, input_error};
use crate::limits::{
    BODY_IDLE_MAX, IDEMPOTENCY_KEY_BYTES_MAX, INPUT_ERRORS_MAX, JSON_BODY_BYTES_MAX, JSON_DEPTH_MAX,
    RUNNER_BODY_BYTES_MAX,
};

/// The body of a PUT or PATCH request, or of a POST request that is safe to repeat.
pub(super) struct JsonBody<T>(pub(super) T);

/// The body of a POST request, with its idempotency key.
pub(super) struct PostBody<T> {
    pub(super) body: T,
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, AppError> {
        parse(&read_json(request).await?).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for PostBody<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, AppError> {
        let (bytes, idempotency_key) = read_post(request, app).await?;
        Ok(Self { body: parse(&bytes)?, idempotency_key })
    }
}

/// Reads the body of a POST request, with its idempotency key.
pub(super) async fn read_post(
    request: Request,
    app: &App,
) -> Result<(Vec<u8>, Option<IdempotencyKey>), AppError> {
    let key = idempotency_key(&request)?;
    let caller = request.extensions().get::<Arc<Principal>>().map(|who| who.key_scope());
    let operation = format!("{} {}", request.method(), request.uri().path());
    let bytes = read_json(request).await?;
    let once = key.zip(caller).map(|(key, caller)| {
        let marks = app.services.vault.keyed_hashes();
        // Store only a hash of the key, because keys are only compared and clients may use sensitive values as keys.
        let key = hex(&marks.request_hash(key.as_bytes()));
        IdempotencyKey::new(&caller, &operation, &key, marks.request_hash(&bytes))
    });
    Ok((bytes, once))
}

fn idempotency_key(request: &Request) -> Result<Option<String>, AppError> {
    let mut sent = request.headers().get_all("idempotency-key").iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()));
    // `to_str` accepts tabs, but keys must not contain them.
    let key = key.filter(|key| !key.contains('\t'));
    match key.filter(|_| sent.next().is_none()) {
        Some(key) => Ok(Some(key.to_owned())),
        None => {
            let text = format!(
                "must be given once, with 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters"
            );
            Err(AppError::invalid_parameter("Idempotency-Key", text))
        }
    }
}

/// The body of a runner's request.
pub(super) struct RunnerBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for RunnerBody<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, AppError> {
        parse(&read_json_up_to(request, RUNNER_BODY_BYTES_MAX).await?).map(Self)
    }
}

async fn read_json(request: Request) -> Result<Vec<u8>, AppError> {
    read_json_up_to(request, JSON_BODY_BYTES_MAX).await
}

/// Reads a body of any media type, up to `most` bytes.
pub(super) async fn read_raw(body: Body, most: usize) -> Result<Vec<u8>, AppError> {
    let mut body = body;
    let mut bytes = Vec::new();
    while let Some(frame) = next_frame(&mut body).await? {
        if bytes.len() + frame.len() > most {
            let text = format!("the body is larger than {most} bytes");
            return Err(AppError::new(Code::BodyTooLarge, text));
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes)
}

async fn read_json_up_to(request: Request, most: usize) -> Result<Vec<u8>, AppError> {
    let media_type = request.headers().get(header::CONTENT_TYPE).cloned();
    let bytes = read_raw(request.into_body(), most).await?;
    // The media type of an empty body does not matter. A missing media type means JSON.
    let is_json = media_type.is_none_or(|value| value.to_str().is_ok_and(is_json_type));
    if !bytes.is_empty() && !is_json {
        return Err(AppError::new(Code::UnsupportedMediaType, "the body must be application/json"));
    }
    Ok(bytes)
}

pub(super) async fn next_frame(body: &mut Body) -> Result<Option<axum::body::Bytes>, AppError> {
    loop {
        let frame = tokio::time::timeout(BODY_IDLE_MAX, body.frame()).await.map_err(|_| {
            let text = format!("no part of the body arrived for more than {} s", BODY_IDLE_MAX.as_secs());
            AppError::new(Code::RequestTimeout, text)
        })?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => {
                let text = format!("the body ended too early: {error}");
                return Err(AppError::new(Code::InvalidRequest, text));
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

fn is_json_type(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AppError> {
    let bytes = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { bytes };
    let text = std::str::from_utf8(bytes).map_err(|_| invalid_json("the body is not UTF-8"))?;
    if nesting_depth(text) > JSON_DEPTH_MAX {
        return Err(invalid_json(&format!("the body is nested more than {JSON_DEPTH_MAX} deep")));
    }
    // Fast path for valid bodies. Arrays are excluded because serde can also read a struct from an array.
    if text.trim_start().starts_with('{')
        && let Ok(read) = serde_json::from_str(text)
    {
        return Ok(read);
    }
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| invalid_json(&error.to_string()))?;
    if !value.is_object() {
        return Err(AppError::new(Code::InvalidRequest, "the body must be a JSON object"));
    }
    // Parse the text again instead of using `value`, in order to detect duplicate members.
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let all = collect_errors::<T>(value);
        let first = || vec![data_error(&pointer(error.path()), error.inner())];
        AppError::invalid(if all.is_empty() { first() } else { all })
    })
}

/// Collects all unknown members. serde stops at the first error, so each unknown member is removed before the next
/// attempt.
fn collect_errors<T: DeserializeOwned>(mut value: serde_json::Value) -> Vec<InputError> {
    let mut errors = Vec::new();
    while errors.len() < INPUT_ERRORS_MAX {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&value) else { break };
        let at = pointer(error.path());
        errors.push(data_error(&at, error.inner()));
        let unknown = error.inner().to_string().starts_with("unknown field");
        if !unknown || !remove(&mut value, &at) {
            break;
        }
    }
    errors
}

fn remove(value: &mut serde_json::Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    let members = value.pointer_mut(parent).and_then(serde_json::Value::as_object_mut);
    members.is_some_and(|members| members.shift_remove(&name.replace("~1", "/").replace("~0", "~")).is_some())
}

fn data_error(pointer: &str, error: &serde_json::Error) -> InputError {
    let text = error.to_string();
    // Remove the line and column, because the pointer already shows the position.
    let text = text.split(" at line ").next().unwrap_or_default();
    if text.starts_with("unknown field") {
        return unknown_member(pointer, text);
    }
    if let Some(name) = text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return InputError {
            code: InputErrorCode::Required,
            ..input_error(&format!("{pointer}/{name}"), "is required")
        };
    }
    // Drop the value from `invalid type: string "…", expected i64`, because it may be a secret sent in the wrong
    // member.
    match text.rsplit_once(", expected ") {
        Some((_, "i64" | "u64" | "u32")) => input_error(pointer, "must be a whole number"),
        Some((_, expected)) if expected.starts_with("struct ") => input_error(pointer, "must be an object"),
        Some((_, expected)) => input_error(pointer, format!("must be {expected}")),
        None => input_error(pointer, text),
    }
}

/// Suggests a known member with a similar name. serde lists the known members in its message: "unknown field `…`,
/// expected one of `url`, `name`".
fn unknown_member(pointer: &str, text: &str) -> InputError {
    let known = text.rsplit_once(", expected ").map_or("", |(_, known)| known);
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let sent = pointer.rsplit('/').next().unwrap_or_default();
    let hint = nearest(sent, &known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let detail = format!("is not a field of this request{hint}");
    InputError { code: InputErrorCode::UnknownMember, ..input_error(pointer, detail) }
}

fn invalid_json(detail: &str) -> AppError {
    AppError::new(Code::InvalidJson, detail)
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    path.iter()
        .map(|segment| match segment {
            Segment::Map { key } => format!("/{}", escaped(key)),
            Segment::Seq { index } => format!("/{index}"),
            Segment::Enum { variant } => format!("/{}", escaped(variant)),
            Segment::Unknown => "/?".to_owned(),
        })
        .collect()
}

/// Returns the maximum nesting depth of brackets, without parsing the JSON.
pub(super) fn nesting_depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use InputErrorCode::{Invalid, Required, UnknownMember};
    use berth_api::pipeline::{PipelineNew, ReasonBody};
    use berth_api::registry::StepRegistryNew;
    use berth_api::secret::SecretNew;

    use super::*;

    fn errors<T: DeserializeOwned>(text: &str) -> Vec<(String, InputErrorCode)> {
        let problem = parse::<T>(text.as_bytes()).err().expect("an error").into_problem();
        problem.errors.into_iter().map(|error| (error.pointer, error.code)).collect()
    }

    #[test]
    fn empty_body_is_read_as_empty_object() {
        for empty in ["", "  \n", "{}", r#"{"reason": null}"#] {
            assert!(parse::<ReasonBody>(empty.as_bytes()).is_ok(), "{empty:?}");
        }
    }

    #[test]
    fn unknown_members_are_all_reported() {
        let found = errors::<ReasonBody>(r#"{"reason": "x", "a": 1, "b/c": {"d": 2}}"#);
        assert_eq!(found, [("/a".into(), UnknownMember), ("/b~1c".into(), UnknownMember)]);
    }

    #[test]
    fn unknown_member_error_suggests_similar_name() {
        for (sent, detail) in [
            (r#"{"repositoryUrl": "x"}"#, "is not a field of this request; did you mean `url`?"),
            (r#"{"nmae": "x"}"#, "is not a field of this request; did you mean `name`?"),
            (r#"{"poll": "x"}"#, "is not a field of this request"),
            (r#"{"x`, expected `s3cret": "x"}"#, "is not a field of this request"),
        ] {
            let problem = parse::<StepRegistryNew>(sent.as_bytes()).expect_err("refused").into_problem();
            assert_eq!((&*problem.code, &*problem.errors[0].detail), ("unknown_member", detail));
        }
        let nested =
            errors::<SecretNew>(r#"{"name": "X", "value": "x", "scope": {"type": "stage", "stag": 1}}"#);
        assert_eq!(nested, [("/scope/stag".into(), UnknownMember)]);
    }

    #[test]
    fn wrong_type_missing_and_duplicate_members_are_reported() {
        assert_eq!(errors::<ReasonBody>(r#"{"reason": ["x"]}"#), [("/reason".into(), Invalid)]);
        assert_eq!(errors::<PipelineNew>(r#"{"slug": "x"}"#), [("/definition".into(), Required)]);
        assert_eq!(errors::<ReasonBody>(r#"{"reason": "a", "reason": "b"}"#).len(), 1);
    }

    #[test]
    fn body_errors_do_not_echo_sent_values() {
        for sent in [
            r#"{"reason": 4711471147}"#,
            r#"{"reason": {"s3cret": 1}}"#,
            r#"{"reason": "s3cret", "reason": 1}"#,
        ] {
            let problem = parse::<ReasonBody>(sent.as_bytes()).expect_err("refused").into_problem();
            let text = serde_json::to_string(&problem).unwrap();
            assert!(!text.contains("s3cret") && !text.contains("4711471147"), "{text}");
        }
        let token = parse::<berth_api::token::ApiTokenNew>(br#"{"name": "x", "expiresInDays": "s3cret"}"#);
        let problem = token.expect_err("refused").into_problem();
        assert_eq!(problem.errors[0].detail, "must be a whole number");
    }

    #[test]
    fn nesting_above_limit_is_refused_and_ignores_strings() {
        assert_eq!(nesting_depth(r#"{"a": "[[[[\"[["}"#), 1);
        let deep = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
        let code =
            |n| parse::<serde_json::Value>(deep(n).as_bytes()).err().map(|error| error.into_problem().code);
        assert_eq!(code(JSON_DEPTH_MAX), None);
        assert_eq!(code(JSON_DEPTH_MAX + 1).as_deref(), Some("invalid_json"));
        assert_eq!(code(500_000).as_deref(), Some("invalid_json"));
    }
}
