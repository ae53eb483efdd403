//! The canonical form of a request path, computed once before routing, so that routing and authorization cannot
//! interpret a path differently.
//!
//! Accepts a trailing slash, `/organizations` paths without `/api/v1` before them, and one doubled slash directly after
//! the base path (from a base URL that ends in a slash). Rejects anything else that is ambiguous, such as dot segments
//! and encoded slashes.

use std::borrow::Cow;

const BASE: &str = "/api/v1";

/// Returns the path that the router will see, or the reason why the path was rejected.
pub(crate) fn canonical(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    let mut path = match raw.strip_prefix(BASE).unwrap_or(raw) {
        rest if rest.starts_with("//") && is_after_base(raw, rest) => {
            Cow::from(format!("{}{}", &raw[..raw.len() - rest.len()], &rest[1..]))
        }
        _ => Cow::from(raw),
    };
    match path.strip_suffix('/') {
        Some("") | None => {}
        Some(trimmed) if trimmed.ends_with('/') => return Err("a path must not have empty segments"),
        Some(trimmed) => path = Cow::from(trimmed.to_owned()),
    }
    if path != "/" {
        let segments = path.strip_prefix('/').ok_or("a path must begin with a slash")?;
        segments.split('/').try_for_each(check_segment)?;
    }
    if path == "/organizations" || path.starts_with("/organizations/") {
        return Ok(Cow::from(format!("{BASE}{path}")));
    }
    Ok(path)
}

/// Whether a doubled slash comes directly after the base path: `/api/v1//…`, or `//organizations/…` if the base URL is
/// only a host.
fn is_after_base(raw: &str, rest: &str) -> bool {
    raw.len() > rest.len() || rest.starts_with("//organizations")
}

fn check_segment(segment: &str) -> Result<(), &'static str> {
    if segment.is_empty() {
        return Err("a path must not have empty segments");
    }
    // Fast path, because most segments are names and ids.
    if segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        return Ok(());
    }
    let decoded = decode(segment)
        .ok_or("a percent sign must be followed by two hex digits, and the result must be UTF-8")?;
    if decoded == "." || decoded == ".." {
        return Err("a path must not have . or .. segments");
    }
    if decoded.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | ';')) {
        return Err("a path segment must not contain a slash, backslash, semicolon or control character");
    }
    Ok(())
}

/// Percent-decodes a segment. Returns `None` if the encoding is invalid.
pub(super) fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Maximum length of a name or id in a path.
const NAME_CHARS_MAX: usize = 63;

/// Masks parts of a rejected path for the log. Parts that cannot be a name or an id may be tokens or passwords that
/// were pasted by mistake.
pub(crate) fn without_strange_parts(path: &str) -> String {
    let names = |part: &str, word: fn(u8) -> bool| {
        part.len() <= NAME_CHARS_MAX
            && part.bytes().all(|byte| word(byte) || matches!(byte, b'0'..=b'9' | b'_'))
    };
    let lower = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'.');
    let is_name = |part: &str| names(part, lower) || names(part, |byte| byte.is_ascii_uppercase());
    let parts = path.split('/').map(|part| if is_name(part) { part } else { "…" });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::{canonical, without_strange_parts};

    #[test]
    fn rejected_path_is_logged_with_only_names_and_ids() {
        let id = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb";
        for (path, kept) in [
            (format!("/api/v1/organizations/acme/pipelines/{id}/stop"), None),
            ("/api/v1/openapi.json".to_owned(), None),
            ("/organizations/acme/secrets/DATABASE_URL".to_owned(), None),
            ("/".to_owned(), None),
            ("/api/v1/me/berth_api_0aZ".to_owned(), Some("/api/v1/me/…")),
            ("/a%20b/c;d//E-f".to_owned(), Some("/…/…//…")),
            (format!("/x/{}", "a".repeat(64)), Some("/x/…")),
        ] {
            assert_eq!(without_strange_parts(&path), kept.unwrap_or(&path));
        }
    }

    #[test]
    fn tolerated_path_variants_have_one_canonical_form() {
        let one = Ok("/api/v1/organizations/acme/pipelines".into());
        for variant in [
            "/api/v1/organizations/acme/pipelines",
            "/api/v1/organizations/acme/pipelines/",
            "/api/v1//organizations/acme/pipelines",
            "/organizations/acme/pipelines",
            "//organizations/acme/pipelines/",
        ] {
            assert_eq!(canonical(variant), one, "{variant}");
        }
        assert_eq!(canonical("/"), Ok("/".into()));
        assert_eq!(canonical("/api/v1/x/a%20b"), Ok("/api/v1/x/a%20b".into()));
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for trick in [
            "",
            "*",
            "//",
            "///",
            "/a//b",
            "/a/b//",
            "/api/v1///organizations",
            "/a/../b",
            "/a/./b",
            "/..",
            "/a/%2e%2e/b",
            "/a/%2E%2e",
            "/a%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/a;b",
            "/a%3bb",
            "/a%00",
            "/a%0d%0aX: y",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%ff",
            "/a/b/%2e",
            "/api/v1/organizations//acme",
            "/x//organizations",
        ] {
            assert!(canonical(trick).is_err(), "{trick:?} was accepted as {:?}", canonical(trick));
        }
    }
}
