//! Tests of the images' health check without a container engine.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::tool::root;

const SCRIPT: &str = "packaging/healthcheck.sh";
const PLACE: &str = "/usr/lib/berth/healthcheck";
/// A fatal TLS alert, as sent by rustls in response to a plain-text request.
const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x32";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Returns whether the image's health check succeeds for a server at this address.
fn is_healthy(listen: &str) -> bool {
    let mut script = Command::new("bash");
    script.arg(root().join(SCRIPT)).env("BERTH_LISTEN", listen).output().unwrap().status.success()
}

/// Returns whether the health check succeeds for a server that handles its connection with `answer`.
fn is_healthy_when(at: &str, answer: impl FnOnce(TcpStream) + Send) -> bool {
    let listener = TcpListener::bind(at).unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(move || answer(listener.accept().unwrap().0));
        let told = is_healthy(&listen);
        // If the health check did not connect to the server, unblock the server with a connection.
        let _ = TcpStream::connect(&listen);
        told
    })
}

fn read_request(mut stream: &TcpStream) -> String {
    let mut request = [0; 1024];
    let length = stream.read(&mut request).unwrap();
    String::from_utf8_lossy(&request[..length]).into_owned()
}

fn respond_with(answer: &'static [u8]) -> impl FnOnce(TcpStream) + Send {
    move |mut stream| {
        let request = read_request(&stream);
        assert!(request.starts_with("GET /healthz HTTP/1.0\r\n"), "{request}");
        stream.write_all(answer).unwrap();
    }
}

#[test]
fn health_check_succeeds_on_any_port_with_and_without_tls() {
    for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        if TcpListener::bind(at).is_err() {
            println!("{at} cannot be listened on here: left out");
            continue;
        }
        assert!(is_healthy_when(at, respond_with(OK)), "{at}");
        assert!(is_healthy_when(at, respond_with(ALERT)), "{at} with TLS");
    }
}

#[test]
fn health_check_fails_for_missing_failing_or_hanging_server() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert!(!is_healthy(&gone), "no listener");
    let here = "127.0.0.1:0";
    assert!(!is_healthy_when(here, respond_with(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")), "503");
    assert!(!is_healthy_when(here, respond_with(b"")), "no answer");
    let hangs = |mut stream: TcpStream| {
        read_request(&stream);
        // Wait until the health check has given up.
        let _ = stream.read(&mut [0]);
    };
    assert!(!is_healthy_when(here, hangs), "it hangs");
}

#[test]
fn images_have_the_same_settings_and_the_health_check() {
    let read = |name: &str| std::fs::read_to_string(root().join("packaging").join(name)).unwrap();
    let (source, release) = (read("Dockerfile"), read("image/Containerfile"));
    let settings = |text: &str| text.split_once("\n# Both ").unwrap().1.to_owned();
    assert_eq!(settings(&source), settings(&release));
    let settings = settings(&source);
    assert!(settings.contains("\nUSER 10001:10001\n"), "{settings}");
    let check = settings.lines().find(|line| line.starts_with("HEALTHCHECK ")).unwrap();
    assert!(check.ends_with(&format!("CMD [\"{PLACE}\"]")), "{check}");
    assert!(settings.contains(" BERTH_LISTEN="), "the check reads the address from it");
    assert!(source.contains(&format!("\nCOPY --from=build /src/{SCRIPT} {PLACE}\n")), "{source}");
    assert!(release.contains(&format!(" healthcheck {PLACE}\n")), "{release}");
    let script = std::fs::read_to_string(root().join(SCRIPT)).unwrap();
    assert!(script.starts_with("#!/bin/bash\n"), "sh has no /dev/tcp");
}
