//! What the operator of the machine does for accounts.

use serde_json::{Value, json};

use crate::harness::{Home, run};

const NEW_PASSWORD: &str = "a lighthouse on the cape";

fn reset(home: &Home, email: &str) -> Value {
    let dir = home.path();
    let dir = dir.to_str().expect("a path");
    let ran = run(&["admin", "reset-password", email, "--json", "--data-dir", dir]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.json()
}

fn token(link: &Value) -> String {
    link["url"].as_str().and_then(|url| url.split_once("/reset-password#")).expect("a link").1.to_owned()
}

#[test]
fn operator_resets_a_password_while_the_server_runs_and_while_it_does_not() {
    let home = Home::new();
    let before = reset(&home, "ada@acme.test");
    let server = home.serve();
    let link = reset(&home, "ada@acme.test");
    let set = |link: &Value| {
        let body = json!({ "token": token(link), "newPassword": NEW_PASSWORD });
        server.api.post("/api/v1/auth/reset-password", &body).status
    };
    assert_eq!(set(&before), 404, "a new link replaces the earlier one");
    assert_eq!((set(&link), set(&link)), (200, 404));
    let login = json!({ "email": "ada@acme.test", "password": NEW_PASSWORD });
    assert_eq!(server.api.post("/api/v1/auth/login", &login).status, 200);
    let dir = home.path();
    run(&["admin", "reset-password", "x@acme.test", "--data-dir", dir.to_str().expect("a path")])
        .refused(&["no person with the address x@acme.test"]);
    server.stop();
}
