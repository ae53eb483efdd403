//! The account, members, runners, webhooks and metrics.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use expect_test::expect_file;

use super::{CliFixture, PATIENCE, Transcript};
use crate::harness::{TestHome, wait_until};

/// Soaks until it is ended.
const SOAKS: &str = "version: 1
pipeline:
  name: Soaks
  stages: [{ name: staging }]
  steps: [{ name: Soak, type: soak, params: { duration: 1h } }]
";

/// Answers every request with this response.
pub(super) fn start_receiver(response: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_request(stream, response));
        }
    });
    address
}

fn answer_request(mut stream: TcpStream, response: &str) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
            None if line == "\r\n" => break,
            None => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    stream.write_all(response.as_bytes()).ok()
}

/// Hides how long a receiver took to respond.
fn hide_latencies(transcript: &mut Transcript<'_>, text: &str) {
    for part in text.split(" after ").skip(1) {
        let latency = part.split(" ms").next().expect("a number");
        transcript.hide(&format!(" after {latency} ms"), " after N ms");
    }
}

#[test]
fn whoami_and_insights() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&["whoami", "insights", "insights --days 0", "insights --pipeline nothing"]);
    transcript.run_with_invalid_token("whoami");
    assert_eq!(cli.run("deploy shop v1 --bypass fire").code, Some(0));
    let insights = wait_until(PATIENCE, "metrics", || {
        let found = cli.run("insights --pipeline shop");
        found.stdout.contains("(1 in total)").then_some(found)
    });
    assert!(
        insights.stdout.contains("change failure rate   0 % (0 failed and 0 rolled back of 1)"),
        "{insights:?}"
    );
    let daily = cli.run("insights --daily").stdout;
    assert!(daily.lines().count() == 1 && daily.contains("\t1\t0\t"), "{daily}");
    transcript.compare(&expect_file!["expected/account.txt"]);
}

#[test]
fn member_invite_change_and_remove() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    let invited = transcript.run("member invite grace@acme.test --role tester --name Grace");
    let link = invited.stdout.trim().rsplit('#').next().expect("a link").to_owned();
    transcript.hide(&link, "LINK");
    transcript.run_all(&[
        "member invite grace",
        "member invitations",
        "member revoke-invitation grace@acme.test",
        "member revoke-invitation grace@acme.test",
        "member add-service ci@acme.test --role tester",
        "member add-service ci@acme.test",
        "member role ci deployer",
        "member role ci emperor",
        "member remove ci",
        "member remove ci",
        "team create sre",
        "team rename sre Reliability",
        "team rename nothing Reliability",
    ]);
    transcript.run_with_invalid_token("member invitations");
    transcript.compare(&expect_file!["expected/members.txt"]);
}

#[test]
fn runner_create_list_show_delete() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    let made = transcript.run("runner create build-1 --labels gpu,arm64");
    transcript.hide(made.stdout.trim(), "TOKEN");
    transcript.run("runner create build-1");
    // The runner inside the server depends on the machine.
    let listed = cli.run("runner list");
    let lines = listed.stdout.lines().filter(|line| line.starts_with("build-1"));
    transcript.record("runner list", &[&lines.collect::<Vec<_>>().join("\n")], &listed);
    transcript.run_all(&[
        "runner show build-1",
        "runner show nothing",
        "runner delete build-1",
        "runner delete build-1",
    ]);
    transcript.run_with_invalid_token("runner list");
    transcript.compare(&expect_file!["expected/runners.txt"]);
}

#[test]
fn webhook_create_ping_deliver_delete() {
    let home = TestHome::new();
    let mut command = home.serve_command();
    command.args(["--egress-allow", "127.0.0.1"]);
    let cli = CliFixture::with(home, command);
    let mut transcript = Transcript::new(&cli);
    let address = start_receiver("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    transcript.hide(&address.to_string(), "RECEIVER");
    let made = transcript.run(&format!("webhook create ops http://{address}/hook --events pipeline_stopped"));
    transcript.hide(made.stdout.trim(), "SECRET");
    transcript.run_all(&[
        "webhook create ops http://127.0.0.1:9/hook",
        "webhook list",
        "webhook show ops",
        "webhook show nothing",
    ]);
    let pinged = transcript.run("webhook ping ops");
    hide_latencies(&mut transcript, &pinged.stdout);
    transcript.run_all(&["webhook ping nothing", "webhook deliveries ops"]);
    assert_eq!(cli.run("pipeline stop shop --why freeze").code, Some(0));
    wait_until(PATIENCE, "delivery", || {
        (cli.run("webhook deliveries ops --jq .data[].status").stdout == "delivered\n").then_some(())
    });
    let delivered = transcript.run("webhook deliveries ops");
    hide_latencies(&mut transcript, &delivered.stdout);
    let id = cli.run("webhook deliveries ops --jq .data[].id").stdout.trim().to_owned();
    transcript.run_all(&[
        "webhook deliveries nothing",
        "webhook redeliver ops",
        &format!("webhook redeliver ops {id}"),
    ]);
    let rotated = transcript.run("webhook rotate ops");
    transcript.hide(rotated.stdout.trim(), "SECRET-2");
    transcript.run_all(&[
        "webhook rotate nothing",
        "webhook update ops --deactivate --events deployment_failed,deployment_succeeded",
        "webhook update ops --events everything",
        "webhook delete ops",
        "webhook delete ops",
    ]);
    transcript.run_with_invalid_token("webhook list");
    transcript.compare(&expect_file!["expected/webhooks.txt"]);
}

#[test]
fn soak_end_and_reject() {
    let cli = CliFixture::new();
    std::fs::write(cli.config.path().join("soaks.yaml"), SOAKS).expect("a file");
    assert_eq!(cli.run("pipeline apply soaks.yaml").code, Some(0));
    let start_soak = |commit: &str| {
        assert_eq!(cli.run(&format!("deploy soaks {commit} --detach")).code, Some(0));
        wait_until(PATIENCE, "soak", || {
            (cli.run("status soaks --jq .blockedBy[].kind").stdout == "soak\n").then_some(())
        });
    };
    let mut transcript = Transcript::new(&cli);
    start_soak("v1");
    transcript.run_all(&["deployment end-soak soaks#1 nothing", "deployment end-soak soaks#1 --why stable"]);
    assert_eq!(cli.run("status soaks#1 --watch").code, Some(0));
    start_soak("v2");
    transcript.run("deployment reject-soak soaks#2 soak --why slow");
    assert_eq!(cli.run("status soaks#2 --watch").code, Some(1));
    transcript.run_all(&["deployment reject-soak soaks#2", "deployment show soaks#3"]);
    transcript.compare(&expect_file!["expected/soak.txt"]);
}

#[test]
fn inbox() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&["inbox", "inbox --unread", "inbox --all-read", "inbox --limit 0"]);
    transcript.run_with_invalid_token("inbox");
    transcript.compare(&expect_file!["expected/inbox.txt"]);
}
