//! Chat destinations and the Slack app.

use expect_test::expect_file;

use super::settings::start_receiver;
use super::{CliFixture, PATIENCE, Transcript};
use crate::harness::{TestHome, wait_until};

/// The answer of a double of Slack to every request.
const SLACK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 44\r\nconnection: close\r\n\r\n\
    {\"ok\":true,\"team_id\":\"T0ACME\",\"team\":\"acme\"}";

#[test]
fn chat_add_test_delete_and_slack_connect() {
    let home = TestHome::new();
    let mut command = home.serve_command();
    command.args(["--egress-allow", "127.0.0.1"]);
    let cli = CliFixture::with(home, command);
    let mut transcript = Transcript::new(&cli);
    let address = start_receiver(SLACK);
    transcript.hide(&address.to_string(), "RECEIVER");
    transcript.run_with_input("chat add ops --to slack-webhook", &format!("http://{address}/hook\n"));
    transcript.run_with_input("chat add ops --to slack-webhook", &format!("http://{address}/hook\n"));
    transcript.run_with_input("chat add dev --to teams-webhook", "");
    transcript.run_all(&[
        "chat add dev --to slack-channel --channel C024BE91L",
        "chat list",
        "chat test ops",
        "chat test nothing",
    ]);
    wait_until(PATIENCE, "delivery", || {
        (cli.run("chat show ops --jq .deliveredAt").stdout != "null\n").then_some(())
    });
    transcript.run_all(&["chat show ops", "chat show nothing", "chat slack"]);
    let connect = format!("chat slack-connect --api-url http://{address}/api/");
    transcript.run_with_input(&connect, "signing-secret\n");
    transcript.run_with_input(&connect, "signing-secret\nxoxb-1\n");
    transcript.run_all(&[
        "chat slack",
        "chat add dev --to slack-channel --channel C024BE91L",
        "chat slack-disconnect",
        "chat slack-disconnect",
        "chat delete dev",
        "chat delete dev",
    ]);
    transcript.run_with_invalid_token("chat list");
    transcript.run_with_invalid_token("chat slack");
    transcript.compare(&expect_file!["expected/chat.txt"]);
}
