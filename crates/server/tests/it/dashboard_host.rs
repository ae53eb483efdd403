//! On loopback, the dashboard has its own host name. So its cookie is not sent to other programs that listen on
//! loopback.

use berth_server::config::AppConfig;
use http::header::{HOST, HeaderValue};
use serde_json::json;

use super::world::{TestRequest, TestWorld, get, post, token_of_link};

const NAVIGATION: (&str, &str) = ("sec-fetch-mode", "navigate");

fn with_host(host: &'static str, call: TestRequest) -> TestRequest {
    let mut call = call;
    call.0.headers_mut().insert(HOST, HeaderValue::from_static(host));
    call
}

/// Opens a page and returns the status and the `Location` header.
async fn open_page(
    world: &TestWorld,
    host: &'static str,
    path: &str,
    (name, value): (&str, &str),
) -> (u16, String) {
    let reply = world.send(with_host(host, get(path)).header(name, value)).await;
    (reply.status.as_u16(), reply.header("location").to_owned())
}

fn redirect_to(address: &str) -> (u16, String) {
    (307, address.to_owned())
}

#[tokio::test]
async fn navigation_on_loopback_is_redirected_to_the_dashboards_host() {
    let world = TestWorld::new().await;
    for (host, origin) in [
        ("127.0.0.1:8080", "http://berth.localhost:8080"),
        ("localhost:9000", "http://berth.localhost:9000"),
        ("LOCALHOST", "http://berth.localhost"),
        ("[::1]:8080", "http://berth.localhost:8080"),
    ] {
        for path in
            ["/", "/sign-in?next=%2Fo%2Facme", "/invitation", "/reset-password", "/o/acme/events?kind=x"]
        {
            let to = redirect_to(&format!("{origin}{path}"));
            assert_eq!(open_page(&world, host, path, NAVIGATION).await, to, "{host}{path}");
        }
    }
    let old_browser = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let to = redirect_to("http://berth.localhost:8080/o/acme");
    assert_eq!(open_page(&world, "127.0.0.1:8080", "/o/acme", old_browser).await, to);
}

#[tokio::test]
async fn api_assets_and_non_browsers_stay_on_loopback() {
    let world = TestWorld::new().await;
    let here = "127.0.0.1:8080";
    for (path, header) in [
        ("/", ("accept", "*/*")),
        ("/o/acme", ("sec-fetch-mode", "cors")),
        ("/healthz", NAVIGATION),
        ("/docs/errors", NAVIGATION),
        ("/api/v1/openapi.json", NAVIGATION),
    ] {
        assert_eq!(open_page(&world, here, path, header).await, (200, String::new()), "{path}");
    }
    for host in ["berth.localhost:8080", "berth.test", "127.0.0.3:8080", "127.0.0.1.evil.test"] {
        assert_eq!(open_page(&world, host, "/o/acme", NAVIGATION).await, (200, String::new()), "{host}");
    }
    let mut public = AppConfig::local(([127, 0, 0, 1], 8080).into());
    public.public_url = Some("https://berth.acme.test".into());
    let mut elsewhere = AppConfig::local(([127, 0, 0, 1], 8080).into());
    elsewhere.local = false;
    let mut encrypted = AppConfig::local(([127, 0, 0, 1], 8080).into());
    encrypted.has_tls = true;
    for config in [public, elsewhere, encrypted] {
        let world = TestWorld::with_config(config).await;
        assert_eq!(open_page(&world, here, "/o/acme", NAVIGATION).await, (200, String::new()));
    }
}

#[tokio::test]
async fn browser_gets_no_cookie_on_loopback_and_learns_where_to_log_in() {
    let world = TestWorld::new().await;
    let body = json!({"email": world.ada.email, "password": world.ada.password});
    let log_in = || post("/api/v1/auth/login").json(&body);
    let invited = json!({"token": world.invite("grace@acme.test", "viewer").await, "password": "a quiet harbour at dawn"});
    let sign_up = || post("/api/v1/auth/sign-up").json(&invited);
    for call in [log_in(), sign_up()] {
        let refused =
            world.send(with_host("127.0.0.1:8080", call).header("origin", "http://127.0.0.1:8080")).await;
        refused.assert_problem(409, "invalid_state");
        assert_eq!(refused.header("set-cookie"), "");
        assert!(refused.text.contains("log in at http://berth.localhost:8080"), "{}", refused.text);
    }
    for call in [log_in(), sign_up()] {
        let own = with_host("berth.localhost:8080", call).header("origin", "http://berth.localhost:8080");
        let reply = world.send(own).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert!(reply.header("set-cookie").starts_with("berth_local=berth_web_"));
    }
    // A client that is not a browser sends no `Origin` header.
    assert_eq!(world.send(with_host("127.0.0.1:8080", log_in())).await.status, 200);
}

#[tokio::test]
async fn links_for_people_name_the_dashboards_host() {
    let world = TestWorld::new().await;
    for host in ["127.0.0.1:8080", "berth.localhost:8080"] {
        let body = json!({"email": "grace@acme.test", "role": "viewer"});
        let call = post("/api/v1/organizations/acme/invitations").with_account(&world.ada).json(&body);
        let url = world.send(with_host(host, call)).await.body["data"]["url"].clone();
        let expected = format!("http://berth.localhost:8080/invitation#{}", token_of_link(&url));
        assert_eq!(url, expected);
    }
}

#[tokio::test]
async fn browser_gets_a_page_for_an_unknown_path_and_other_clients_a_problem() {
    let world = TestWorld::new().await;
    let browser = world.send(get("/mistyped").header(NAVIGATION.0, NAVIGATION.1)).await;
    assert_eq!(browser.status, 404);
    assert!(browser.header("content-type").starts_with("text/html"), "{}", browser.text);
    for call in [get("/mistyped"), get("/api/v1/mistyped").header(NAVIGATION.0, NAVIGATION.1)] {
        world.send(call).await.assert_problem(404, "not_found");
    }
}
