//! Health checks, the pages of the dashboard, and the headers of every response.

use expect_test::expect;

use super::world::{TestWorld, get};

#[tokio::test]
async fn health_check_succeeds_until_shutdown() {
    let world = TestWorld::new().await;
    for path in ["/healthz", "/readyz", "/healthz/"] {
        assert_eq!(world.send(get(path)).await.body["data"]["status"], "ok");
    }
    world.app.services().shutdown.cancel();
    world.send(get("/readyz")).await.assert_problem(503, "unavailable");
    assert_eq!(world.send(get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn problem_type_urls_are_pages() {
    let world = TestWorld::new().await;
    let problem = world.send(get("/api/v1/nowhere")).await;
    let page = world.send(get(problem.body["type"].as_str().unwrap())).await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html") && page.text.contains("not_found"));
    world.send(get("/docs/errors/nonsense")).await.assert_problem(404, "not_found");
    assert_eq!(world.send(get("/docs/errors")).await.status, 200);
    assert_eq!(world.send(get("/")).await.status, 200);
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let world = TestWorld::new().await;
    let paths =
        ["/healthz", "/api/v1/nowhere", "/api/v1/organizations/acme/pipelines", "/a;b", "/docs/errors"];
    for path in paths {
        let reply = world.send(get(path)).await;
        let shown = ["content-security-policy", "x-content-type-options", "referrer-policy", "cache-control"]
            .map(|name| format!("{name}: {}\n", reply.header(name)))
            .concat();
        expect![[r#"
            content-security-policy: default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'
            x-content-type-options: nosniff
            referrer-policy: no-referrer
            cache-control: no-store
        "#]]
        .assert_eq(&shown);
        assert!(!reply.headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

/// Must pass with and without the dashboard built into the binary.
#[tokio::test]
async fn dashboard_pages_are_html_with_the_content_security_policy() {
    let world = TestWorld::new().await;
    let policy = world.send(get("/healthz")).await.header("content-security-policy").to_owned();
    for path in ["/", "/sign-in", "/profile", "/o/acme", "/o/acme/environments/shop/qa-1/", "/o/unknown"] {
        let reply = world.send(get(path)).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.header("content-type").starts_with("text/html"), "{path}");
        assert_eq!(reply.header("content-security-policy"), policy, "{path}");
        assert!(["no-cache", "no-store"].contains(&reply.header("cache-control")), "{path}");
    }
}

#[tokio::test]
async fn api_paths_never_return_html() {
    let world = TestWorld::new().await;
    for path in [
        "/api",
        "/api/o/acme",
        "/api/v1/sign-in",
        "/organizations/acme/o/x",
        "/organizations",
        "/o",
        "/index.html",
    ] {
        let reply = world.send(get(path)).await;
        assert!(reply.status.as_u16() >= 400, "{path}");
        assert_eq!(reply.header("content-type"), "application/problem+json", "{path}");
    }
}
