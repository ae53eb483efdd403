//! Sends hundreds of ambiguous paths for every route. Each one is either refused for every caller, or it is an accepted
//! spelling of the route and has the same authorization.

use std::collections::BTreeSet;

use berth_server::http::{RouteAccess, RouteInfo};
use http::Uri;

use super::api_operations::list_operations;
use super::resource_target::ResourceTarget;

const VARIANTS_MIN: usize = 250;

/// Segments that are inserted into a path.
const SEGMENTS: &[&str] = &[
    "",
    ".",
    "..",
    "...",
    "%2e",
    "%2E",
    "%2e%2e",
    "%2E%2E",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e",
    "..;",
    ";..",
    ".;",
    "..%00",
    "%00",
    "..%2f",
    "..%5c",
    "..%255c",
    "%2f",
    "%2F",
    "%5c",
    "%5C",
    "%252f",
    "%c0%ae%c0%ae",
    "%e0%80%ae",
    "%f0%80%80%ae",
    "%c0%af",
    "%e0%80%af",
    "%c1%9c",
    "%ef%bc%8f",
    "%ef%bc%8e",
    "%u002e%u002e",
    "%ff",
    "%fe",
    "%",
    "%2",
    "%zz",
    ";",
    ";x=1",
    "%3b",
    "%3Bx",
    "\\",
    "..\\",
    "\\..",
    "%0a",
    "%0d%0a",
    "%09",
    "%20",
    "%7f",
    "%e2%80%ae",
    "*",
    "%2a",
    "~",
    "@",
    "%40",
    "-",
    "_",
    "null",
    "x",
];

/// Strings that are appended to a segment.
const SUFFIXES: &[&str] = &[
    ".json",
    ".html",
    ".css",
    ".js",
    ".png",
    ".ico",
    ".xml",
    ".txt",
    ".bak",
    "%00",
    "%00.html",
    "%00.json",
    "%2500",
    ";",
    ";jsessionid=1",
    ";x",
    ";.css",
    ";/.css",
    "%3b",
    "%3b.js",
    "/..;",
    "/.;",
    "%20",
    "%20%20",
    "+",
    "%09",
    "%0a",
    "%0d",
    "%0d%0aX-Evil:%20yes",
    ".",
    "..",
    "%2e",
    "%2e%2e",
    "%252e",
    "/.",
    "/..",
    "/./",
    "/../",
    "/%2e",
    "/%2e%2e",
    "%2f",
    "%2F",
    "%2f%2f",
    "%252f",
    "%5c",
    "%5C",
    "\\",
    "\\.",
    "/%2f",
    "/%5c",
    "//",
    "///",
    "/;",
    "/;/",
    "%c0%af",
    "%e0%80%af",
    "%c0%ae",
    "%ef%bc%8f",
    "%ff",
    "%",
    "%2",
    "%zz",
    "%23",
    "%23x",
    "%3f",
    "%3fx=1",
    "%3F.css",
    "~",
    "~1",
    "'",
    "%27",
    "%22",
    "$",
    "%24",
    "!",
    "@",
    "%40evil.test",
    ":80",
    ":",
    ",",
    "|",
    "*",
    "(",
    ")",
    "=1",
    "&x=1",
    "%26x",
    "%c2%a0",
    "%e2%80%8b",
    "%ef%bb%bf",
    "%cc%81",
    "%f0%9f%9a%a2",
];

/// Strings that are prepended to a path.
const PREFIXES: &[&str] = &[
    "/.",
    "/..",
    "/./.",
    "/x/..",
    "/%2e",
    "/%2e%2e",
    "/%2e%2e%2f",
    "/..%2f",
    "/..;",
    "/;",
    "/;x",
    "/%00",
    "/%20",
    "/%09",
    "/docs/..",
    "/docs/errors/..",
    "/healthz/..",
    "/healthz/..;",
    "/api/v1/openapi.json/..",
    "/api/v1/auth/login/..",
    "/api/v1/openapi.json/%2e%2e",
    "/api/v1/openapi.json;",
    "//",
    "///",
    "/\\",
    "\\",
    "/%5c",
    "/%2f",
    "/%ef%bc%8f",
    "/api/v1",
    "/api/v1/x/..",
    "/api",
    "/v1",
    "/api/v2",
    "/API",
    "/Api/V1",
    "/api/v1.0",
    "/organizations/..",
    "/organizations/acme/..",
    "/@",
    "/*",
    "/%252e%252e",
    "/%c0%ae%c0%ae",
    "/static",
    "/assets/..",
];

/// Variants of a path that must be refused for every caller.
fn ambiguous_variants(path: &str) -> Vec<String> {
    let mut made = BTreeSet::new();
    let forms = [Some(path), path.strip_prefix("/api/v1").filter(|rest| rest.starts_with("/organizations"))];
    for path in forms.into_iter().flatten() {
        made.extend(PREFIXES.iter().map(|prefix| format!("{prefix}{path}")));
        let parts: Vec<&str> = path.split('/').skip(1).filter(|part| !part.is_empty()).collect();
        let joined = |parts: &[String]| format!("/{}", parts.join("/"));
        for place in 0..=parts.len() {
            let owned: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let mut insert = |segment: &str| {
                let mut with = owned.clone();
                with.insert(place, segment.to_owned());
                made.insert(joined(&with));
            };
            SEGMENTS.iter().for_each(|segment| insert(segment));
            let Some(part) = parts.get(place) else { continue };
            let mut replace = |other: String| {
                let mut with = owned.clone();
                with[place] = other;
                made.insert(joined(&with));
            };
            SUFFIXES.iter().for_each(|suffix| replace(format!("{part}{suffix}")));
            replace(part.to_uppercase());
            replace(format!("{}{}", part[..1].to_uppercase(), &part[1..]));
            replace(format!("%25{:02x}{}", part.as_bytes()[0], &part[1..]));
            replace(format!("{part}%2f{part}"));
        }
    }
    // A short path has too few variants, so some combine two modifications.
    let mixed = SEGMENTS.iter().flat_map(|one| SUFFIXES.iter().map(move |two| (one, two)));
    for (segment, suffix) in mixed.step_by(7) {
        if made.len() > VARIANTS_MIN + 150 {
            break;
        }
        made.insert(format!("{}/{segment}{suffix}", path.trim_end_matches('/')));
    }
    for same in accepted_spellings(path) {
        made.remove(&same);
    }
    // Drops variants that are not valid URIs or that are the original path.
    made.retain(|variant| variant.parse::<Uri>().is_ok_and(|uri| uri.path() != path));
    // A long path has thousands of variants, so only a sample is tested, which differs from route to route.
    let step = (made.len() / VARIANTS_MIN).max(1);
    made.into_iter().skip(path.len() % step).step_by(step).collect()
}

/// Alternative spellings of a path that the server accepts on purpose.
fn accepted_spellings(path: &str) -> Vec<String> {
    let mut same = vec![path.to_owned(), format!("http://elsewhere.test{path}"), format!("{path}?x=/../y;z")];
    if path != "/" {
        same.push(format!("{path}/"));
    }
    if let Some(rest) = path.strip_prefix("/api/v1") {
        same.push(format!("/api/v1/{rest}"));
        if rest.starts_with("/organizations") {
            same.extend([rest.to_owned(), format!("/{rest}"), format!("{rest}/")]);
            same.push(path.replace("/acme", "/%61cme"));
        }
    }
    same
}

#[tokio::test]
async fn ambiguous_path_is_refused_on_every_route_for_every_caller() {
    let target = ResourceTarget::new().await;
    let before = target.snapshot().await;
    let callers = [Some(target.world.ada.token.as_str()), None, Some(target.world.hank.token.as_str())];
    let mut sent = 0;
    for operation in list_operations(&target.world).await {
        let path = target.fill_path(&operation);
        let variants = ambiguous_variants(&path);
        assert!(variants.len() >= VARIANTS_MIN, "{}: only {} variants", operation.path, variants.len());
        for variant in &variants {
            for token in callers {
                let reply = target.send_request(&operation, variant, token).await;
                let what = format!("{} {variant} as {token:?}: {}", operation.method, reply.text);
                // Routes of instance admins are forbidden for everyone else, before the path is read.
                let is_forbidden = reply.status == 403 && operation.path.starts_with("/api/v1/instance/");
                let is_refused = [400, 401, 404, 405].contains(&reply.status.as_u16());
                assert!(is_refused || is_forbidden, "{} {what}", reply.status);
                assert_eq!(reply.header("content-type"), "application/problem+json", "{what}");
                assert_eq!(reply.header("location"), "", "{what}");
                sent += 1;
            }
        }
    }
    assert!(sent >= 32 * VARIANTS_MIN * callers.len(), "{sent}");
    assert_eq!(target.snapshot().await, before, "nothing was changed");
}

#[tokio::test]
async fn alternative_path_spelling_has_the_same_authorization() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    let routes = world.edge.routes().to_vec();
    for operation in &list_operations(world).await {
        let is_its =
            |route: &&RouteInfo| (&route.method, &route.path) == (&operation.method, &operation.path);
        let route = routes.iter().find(is_its).unwrap();
        // Skips writes that need no credentials, because repeating them would be refused.
        if operation.method != "GET" && route.access == RouteAccess::Open {
            continue;
        }
        // Not found without a public URL, an identity provider, a forge or the token of a link, which this test does not have.
        let is_missing = route.path.starts_with("/.well-known/")
            || route.path.ends_with("/connection")
            || route.path == "/actions"
            || route.path.ends_with("/forge-apps/form");
        if is_missing || route.path.contains("{provider}") {
            continue;
        }
        for variant in accepted_spellings(&target.fill_path(operation)) {
            let what = format!("{} {variant}", operation.method);
            let anonymous = target.send_request(operation, &variant, None).await.status.as_u16();
            match route.access {
                RouteAccess::Open => assert_eq!(anonymous, 200, "{what}"),
                RouteAccess::Caller
                | RouteAccess::InstanceAdmin
                | RouteAccess::Runner
                | RouteAccess::NewRunner
                | RouteAccess::TokenPermission(_) => {
                    assert_eq!(anonymous, 401, "{what}");
                }
                RouteAccess::Permission(_) => {
                    let foreign = target.send_request(operation, &variant, Some(&world.hank.token)).await;
                    assert_eq!((anonymous, foreign.status.as_u16()), (401, 404), "{what}");
                }
            }
            if operation.method == "GET" {
                let own = target.send_request(operation, &variant, Some(&world.ada.token)).await;
                ResourceTarget::assert_reached(operation, &own, &what);
            }
        }
    }
}
