//! TLS: new certificates are loaded while the server runs; invalid ones are rejected.

use std::path::Path;
use std::process::Command;

use berth_testkit::outcome;
use rustix::process::Signal;

use super::{PATIENCE, path_text};
use crate::harness::{BerthProcess, STOP_MAX, TestHome, wait_until};

pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("version").output().is_ok()
}

/// Creates a key and a self-signed certificate for this machine.
pub(crate) fn create_certificate(dir: &Path, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=berth", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
        .arg(dir.join(format!("{name}.key")))
        .arg("-out")
        .arg(dir.join(format!("{name}.pem")))
        .output();
    let made = made.expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn is_served(address: &str, trusted: &Path) -> bool {
    let told = Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "10",
            "--cacert",
            path_text(trusted),
            &format!("https://{address}/healthz"),
        ])
        .output();
    let told = told.expect("curl runs");
    told.status.success() && String::from_utf8_lossy(&told.stdout).contains("ok")
}

#[test]
fn tls_certificate_is_reloaded_and_an_invalid_one_rejected() {
    if !is_installed("openssl") || !is_installed("curl") {
        outcome::skip("openssl or curl", "apt-get install openssl curl");
        return;
    }
    let home = TestHome::on_sqlite();
    let place = tempfile::tempdir().expect("a directory");
    let file = |name: &str| place.path().join(name);
    for name in ["one", "two"] {
        create_certificate(place.path(), name);
    }
    let put = |name: &str| {
        for ending in ["pem", "key"] {
            std::fs::copy(file(&format!("{name}.{ending}")), file(&format!("live.{ending}")))
                .expect("a copy");
        }
    };
    put("one");
    let mut command = home.serve_command();
    command.env("BERTH_TLS__CERTIFICATE", file("live.pem")).env("BERTH_TLS__KEY", file("live.key"));
    let mut process = BerthProcess::start(&mut command);
    let line = process.first_line();
    let address = line.strip_prefix("berth is serving at https://").expect("an https address").to_owned();
    assert!(is_served(&address, &file("one.pem")));
    assert!(!is_served(&address, &file("two.pem")), "not the one that is served");

    put("two");
    process.signal(Signal::HUP);
    wait_until(PATIENCE, "the new certificate", || is_served(&address, &file("two.pem")).then_some(()));
    assert!(!is_served(&address, &file("one.pem")));

    // Try the key of another certificate, then a file that contains no key.
    for (bad, count) in [("one.key", 1), ("one.pem", 2)] {
        std::fs::copy(file(bad), file("live.key")).expect("a copy");
        process.signal(Signal::HUP);
        wait_until(PATIENCE, "word about it", || {
            (process.stderr().matches("cannot load the new certificate").count() >= count).then_some(())
        });
        assert!(is_served(&address, &file("two.pem")), "the old one stays");
    }
    // Send no signal this time: the server must notice the changed files.
    put("one");
    wait_until(PATIENCE, "files that changed", || is_served(&address, &file("one.pem")).then_some(()));
    process.signal(Signal::TERM);
    assert_eq!(process.wait(STOP_MAX).code, Some(0));

    std::fs::write(file("live.key"), "nonsense").expect("a bad key");
    BerthProcess::start(&mut command).wait(STOP_MAX).expect_refusal(&["live.key", "no private key"]);
    command.env_remove("BERTH_TLS__KEY");
    BerthProcess::start(&mut command).wait(STOP_MAX).expect_refusal(&["or neither"]);
}
