//! The first steps of the README: create an organization, serve it, use a pipeline, stop, restart.

use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{ApiHandle, RawRequest, RawResponse};
use crate::harness::{DEFINITION, STOP_MAX, TestHome, TestServer, berth, init, run};

/// Replaces ids, secrets and paths with placeholders.
fn mask_values(text: &str, dir: &str) -> String {
    let word = |word: &str| match word {
        _ if word.starts_with("org_") => "ORG_ID".to_owned(),
        _ if word.starts_with("berth_api_") => "TOKEN".to_owned(),
        _ if word.len() == 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            "PASSWORD".to_owned()
        }
        _ => word.replace(dir, "DIR"),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(|text| line(text) + "\n").collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn init_prints_credentials_and_next_steps() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let check = |org: &str, expected: Expect| {
        let ran = run(&["init", "--data-dir", dir, "--org", org, "--email", "ada@acme.test"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        expected.assert_eq(&mask_values(&ran.stdout, dir));
    };
    check(
        "acme",
        expect![[r#"
            Organization  acme  ORG_ID
            Owner         ada@acme.test
            Password      PASSWORD
            API token     TOKEN

            Save the password and the token; they are not shown again. Next:
              berth serve --data-dir DIR
        "#]],
    );
    check(
        "globex",
        expect![[r#"
            Organization  globex  ORG_ID
            Owner         ada@acme.test
            Password      (unchanged)
            API token     TOKEN

            Save the password and the token; they are not shown again. Next:
              berth serve --data-dir DIR
        "#]],
    );
}

#[test]
fn init_json_creates_an_organization_only_once() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let acme = init(dir, "acme", "ada@acme.test");
    assert_eq!(acme.stdout.lines().count(), 1, "{acme:?}");
    let acme = acme.json();
    assert_eq!(keys(&acme), ["organization", "user", "password", "apiToken"]);
    assert_eq!(keys(&acme["organization"]), ["id", "slug"]);
    assert_eq!(keys(&acme["user"]), ["id", "email"]);
    assert!(acme["organization"]["id"].as_str().unwrap().starts_with("org_"));
    assert!(acme["user"]["id"].as_str().unwrap().starts_with("usr_"));
    assert_eq!(
        (&acme["organization"]["slug"], &acme["user"]["email"]),
        (&json!("acme"), &json!("ada@acme.test"))
    );
    assert!(acme["password"].as_str().unwrap().len() >= 15);

    let files = || ["berth.db", "root.key"].map(|name| std::fs::read(dir.join(name)).unwrap());
    let before = files();
    init(dir, "acme", "eve@acme.test").expect_refusal(&["an organization \"acme\" already exists"]);
    assert!(files() == before, "a refused init has changed something");

    let globex = init(dir, "globex", "ada@acme.test").json();
    assert_eq!(globex["password"], Value::Null);
    assert_eq!(globex["user"], acme["user"]);
    assert_ne!(globex["apiToken"], acme["apiToken"]);
    assert_ne!(globex["organization"]["id"], acme["organization"]["id"]);
    assert_eq!(init(dir, "initech", "bill@initech.test").json()["password"].as_str().map(str::len), Some(20));
}

#[test]
fn pipeline_survives_a_restart() {
    let home = TestHome::new();
    let server = home.serve();
    check_every_spelling_of_a_path(&server.api, &[]);
    let pipeline = create(&server.api);
    check_every_spelling_of_a_path(&server.api, &["shop"]);
    check_stop_and_resume(&server.api);
    let (events, total) = server.api.list_all("/api/v1/organizations/acme/events");
    check_events(&events);
    assert_eq!(total, json!(events.len()));
    let view = server.api.get("/api/v1/organizations/acme/pipelines/shop");
    server.stop();

    let server = home.serve();
    let again = server.api.get("/api/v1/organizations/acme/pipelines/shop");
    assert_eq!((again.json(), again.header("etag")), (view.json(), view.header("etag")));
    assert_eq!(again.json()["data"]["id"], pipeline["id"]);
    assert_eq!(server.api.list_all("/api/v1/organizations/acme/events"), (events, total));
    let definition = server.api.get("/api/v1/organizations/acme/pipelines/shop/definition").json();
    assert_eq!(definition["data"]["source"], DEFINITION);
    server.stop();
}

fn check_every_spelling_of_a_path(api: &ApiHandle, slugs: &[&str]) {
    for path in [
        "/api/v1/organizations/acme/pipelines",
        "/api/v1/organizations/acme/pipelines/",
        "/api/v1//organizations/acme/pipelines",
        "/api/v1//organizations/acme/pipelines/",
        "/organizations/acme/pipelines",
        "/organizations/acme/pipelines/",
        "//organizations/acme/pipelines",
        "//organizations/acme/pipelines/",
        "/organizations/acme/pipelines?unknown=ignored",
    ] {
        let answer = api.get(path);
        let body = answer.json();
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}");
        let listed: Vec<_> =
            body["data"].as_array().into_iter().flatten().map(|found| &found["slug"]).collect();
        assert_eq!(listed, slugs, "{path}");
        assert_eq!(body["pagination"]["total"], slugs.len(), "{path}");
    }
    let anonymous = api.send(&RawRequest::new("GET", "/api/v1/organizations/acme/pipelines"));
    assert_eq!((anonymous.status, anonymous.header("www-authenticate")), (401, Some("Bearer")));
    let elsewhere = api.get("/api/v1/organizations/globex/pipelines");
    assert_eq!((elsewhere.status, &elsewhere.json()["code"]), (404, &json!("not_found")));
}

fn create(api: &ApiHandle) -> Value {
    let path = "/api/v1/organizations/acme/pipelines";
    let body = json!({ "slug": "shop", "definition": DEFINITION });
    let made = api.post(path, &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let pipeline = made.json()["data"].clone();
    assert_eq!((&pipeline["slug"], &pipeline["status"]), (&json!("shop"), &json!("active")));
    let again = api.post(path, &body);
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("already_exists")));
    for key in [text(&pipeline["id"]), "shop"] {
        let viewed = api.get(&format!("{path}/{key}"));
        assert_eq!((viewed.status, viewed.header("etag")), (200, Some("\"1\"")), "{key}");
        assert_eq!(viewed.json()["data"], pipeline, "{key}");
    }
    let location = made.header("location").expect("its place");
    assert_eq!(api.get(location).json()["data"], pipeline);
    pipeline
}

/// Request bodies that are all equivalent to "no reason given".
fn empty_bodies(request: &RawRequest) -> [(&'static str, RawRequest); 6] {
    let json = |body: &str| request.clone().header("Content-Type", "application/json").body(body);
    [
        ("no body", request.clone()),
        ("an empty body", request.clone().body("")),
        ("an empty body with a type", json("")),
        ("white space", json(" \r\n")),
        ("an empty object", json("{}")),
        ("null for the reason", json("{\"reason\": null}")),
    ]
}

fn check_stop_and_resume(api: &ApiHandle) {
    let (stop, resume) = ["stop", "resume"]
        .map(|verb| api.request("POST", &format!("/organizations/acme/pipelines/shop/{verb}")))
        .into();
    let status = |answer: &RawResponse| (answer.status, text(&answer.json()["data"]["status"]).to_owned());
    for ((what, stop), (_, resume)) in empty_bodies(&stop).into_iter().zip(empty_bodies(&resume)) {
        let stopped = api.send(&stop);
        assert_eq!(status(&stopped), (200, "stopped".into()), "{what}");
        assert_eq!(stopped.json()["data"]["stopped"]["reason"], Value::Null, "{what}");
        assert_eq!(status(&api.send(&stop)), (200, "stopped".into()), "{what}, twice");
        assert_eq!(status(&api.send(&resume)), (200, "active".into()), "{what}");
        assert_eq!(status(&api.send(&resume)), (200, "active".into()), "{what}, twice");
    }
    let why = api.send(&stop.json(&json!({ "reason": "release freeze" })));
    assert_eq!(why.json()["data"]["stopped"]["reason"], "release freeze");
    assert_eq!(why.json()["data"]["stopped"]["by"]["name"], "ada");
}

fn check_events(events: &[Value]) {
    let kinds: Vec<_> = events.iter().rev().map(|event| text(&event["kind"])).collect();
    let mut expected = vec!["organization_created", "member_added", "token_created", "pipeline_created"];
    expected.extend(["pipeline_stopped", "pipeline_resumed"].repeat(6));
    expected.push("pipeline_stopped");
    assert_eq!(kinds, expected, "what changes nothing leaves no event");
    assert_eq!(events[0]["data"]["reason"], "release freeze");
    assert_eq!(events[0]["subjects"][0]["name"], "shop");
}

#[test]
fn server_exits_cleanly_on_sigterm_and_sigint() {
    let home = TestHome::new();
    for signal in [Signal::TERM, Signal::INT] {
        let server = home.serve();
        server.check_healthy();
        server.process.signal(signal);
        let ran = server.process.wait(STOP_MAX);
        let lines: Vec<_> = ran.stdout.lines().collect();
        assert_eq!((ran.code, lines.len()), (Some(0), 2), "its address and the dashboard's alone: {ran:?}");
        assert!(!home.path().join("berth.db-wal").exists(), "the database was not closed");
    }
}

#[test]
fn serve_without_init_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let serve = ["serve", "--data-dir", dir, "--listen", "127.0.0.1:0"];
    run(&serve).expect_refusal(&["no database", "berth init"]);
    assert_eq!(init(temp.path(), "acme", "ada@acme.test").code, Some(0));
    std::fs::remove_file(temp.path().join("root.key")).unwrap();
    run(&serve).expect_refusal(&["root.key"]);
}

#[test]
fn validate_shows_the_faulty_line() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("pipeline.yaml");
    let check = |source: &str, code: i32, expected: Expect| {
        std::fs::write(&file, source).unwrap();
        let ran = run(&["pipeline", "validate", file.to_str().unwrap()]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), ""));
        expected.assert_eq(&ran.stdout.replace(file.to_str().unwrap(), "FILE"));
    };
    check(
        DEFINITION,
        0,
        expect![[r#"
        FILE: valid (0 errors, 0 warnings)
    "#]],
    );
    check(
        &DEFINITION.replace("type: dummy", "typ: dummy"),
        1,
        expect![[r#"
            error: `type` is missing
             --> FILE:7:7
              |
            7 |     - name: Pretend
              |       ^^^^^^^^^^^^^

            error: unknown field `typ`; did you mean `type`?
             --> FILE:8:7
              |
            8 |       typ: dummy
              |       ^^^

            FILE: invalid (2 errors, 0 warnings)
        "#]],
    );
    run(&["pipeline", "validate", "/nowhere/pipeline.yaml"])
        .expect_refusal(&["cannot read /nowhere/pipeline.yaml"]);
}

#[test]
fn init_with_closed_stdout_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let mut command = berth(&["init", "--data-dir", dir, "--org", "acme", "--email", "ada@acme.test"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("cannot print")), (Some(1), true), "{said}");
}

#[test]
fn invalid_arguments_are_a_usage_error() {
    for args in [
        &[][..],
        &["sevre"],
        &["serve", "--nope"],
        &["serve", "--listen", "nowhere"],
        &["serve", "--rate-limit", "maybe"],
        &["serve", "--json"],
        &["serve", "--demo", "--data-dir", "x"],
        &["init"],
        &["init", "--org", "acme"],
        &["init", "--org", "Acme!", "--email", "ada@acme.test"],
        &["init", "--org", "acme", "--email", "no-address"],
        &["pipeline"],
        &["pipeline", "validate"],
        &["pipeline", "plan"],
        &["pipeline", "plan", "x", "--environment", "Q A"],
        &["pipeline", "plan", "x", "--commit=--x"],
    ] {
        let ran = run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("--help"), "{args:?}: {ran:?}");
    }
}

#[test]
fn flags_override_environment_which_overrides_the_file() {
    let home = TestHome::new();
    let file = home.path().join("berth.toml");
    let dir = home.path();
    std::fs::write(&file, format!("listen = \"127.0.0.2:0\"\ndata_dir = \"{}\"\n", dir.display())).unwrap();
    let check = |environment: Option<&str>, flag: Option<&str>, expected: &str| {
        let mut command = berth(&["serve", "--config", file.to_str().unwrap()]);
        command.envs(environment.map(|listen| ("BERTH_LISTEN", listen)));
        command.args(flag.map(|listen| ["--listen", listen]).into_iter().flatten());
        let server = TestServer::start(&mut command, &home.token);
        assert_eq!(server.address.ip().to_string(), expected);
        server.check_healthy();
        server.stop();
    };
    check(None, None, "127.0.0.2");
    check(Some("127.0.0.3:0"), None, "127.0.0.3");
    check(None, Some("127.0.0.4:0"), "127.0.0.4");
    check(Some("127.0.0.3:0"), Some("127.0.0.4:0"), "127.0.0.4");

    // Kubernetes sets such variables for a service named "berth".
    let mut crowded = home.serve_command();
    let server = TestServer::start(
        crowded.env("BERTH_SERVICE_HOST", "10.0.0.1").env("BERTH_PORT", "tcp://10.0.0.1:80"),
        &home.token,
    );
    server.stop();

    std::fs::write(&file, "lisen = \"127.0.0.2:0\"\n").unwrap();
    run(&["serve", "--config", file.to_str().unwrap()]).expect_refusal(&["invalid configuration", "lisen"]);
}
