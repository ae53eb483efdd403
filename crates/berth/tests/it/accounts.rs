//! Account commands for operators.

use serde_json::{Value, json};

use crate::harness::{ProcessOutput, TestHome, run};

const NEW_PASSWORD: &str = "a lighthouse on the cape";

fn run_reset(home: &TestHome, email: &str) -> ProcessOutput {
    let dir = home.path();
    let mut args =
        vec!["admin", "reset-password", email, "--json", "--data-dir", dir.to_str().expect("a path")];
    args.extend(home.database().iter().flat_map(|url| ["--database", url]));
    run(&args)
}

fn reset_link(home: &TestHome) -> Value {
    let ran = run_reset(home, "ada@acme.test");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.json()
}

fn link_token(link: &Value) -> String {
    link["url"].as_str().and_then(|url| url.split_once("/reset-password#")).expect("a link").1.to_owned()
}

#[test]
fn password_reset_works_online_and_offline() {
    let home = TestHome::new();
    let before = reset_link(&home);
    let server = home.serve();
    let link = reset_link(&home);
    let set = |link: &Value| {
        let body = json!({ "token": link_token(link), "newPassword": NEW_PASSWORD });
        server.api.post("/api/v1/auth/reset-password", &body).status
    };
    assert_eq!(set(&before), 404, "a new link replaces the earlier one");
    assert_eq!((set(&link), set(&link)), (200, 404));
    let login = json!({ "email": "ada@acme.test", "password": NEW_PASSWORD });
    assert_eq!(server.api.post("/api/v1/auth/login", &login).status, 200);
    run_reset(&home, "x@acme.test").expect_refusal(&["no user with the address x@acme.test"]);
    server.stop();
}
