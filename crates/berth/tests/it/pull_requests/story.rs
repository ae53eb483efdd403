//! What people see on GitHub, from opening pull requests to closing them.

use serde_json::json;

use super::{ConnectedServer, ORG, PATIENCE, text};
use crate::harness::wait_until;

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  ephemeral_environments:
    qa-1:
      ttl: 8h
      triggers: [{ on: pull_request, target_branches: [main] }]
      release: [{ on: pr_closed }]
      on_release: deploy_tracked
  steps:
    - { name: Deploy, type: script, params: { run: 'cat version.txt' } }
    - name: Announce
      type: script
      env: { API_KEY: '${{ secrets.API_KEY }}' }
      params: { run: 'test ${#API_KEY} = 23' }
";
const CONTEXT: &str = "berth/shop/qa-1";

#[test]
fn two_pull_requests_and_a_fork_are_followed_on_emulated_github() {
    let Some(berth) = ConnectedServer::start(DEFINITION) else { return };
    let front = &berth.front;
    let show = |what: &str, text: &str| println!("--- {what}\n{text}");

    let first = front.push("refs/heads/first", "one");
    let number = front.open("first");
    show("opened", &berth.wait_for_comment(number, "· deployed"));
    let author = front.pull_request(number)["user"].clone();
    let is_shown = |commit: &str, state: &str| {
        wait_until(PATIENCE, state, || (front.status(commit, CONTEXT)? == state).then_some(()));
    };
    is_shown(&first, "success");

    let second = front.push("refs/heads/second", "two");
    let other = front.open("second");
    let queued = berth.wait_for_comment(other, "1st in queue for ");
    show("another one", &queued);
    assert!(queued.contains("expected at about 2"), "no estimate: {queued}");

    let first = front.push("refs/heads/first", "one again");
    berth.deliver_change("synchronize", number, "pushed");
    show("pushed", &berth.wait_for_comment(number, &format!("deployed {}", &first[..8])));
    is_shown(&first, "success");

    // Commands need an account in Berth.
    berth.deliver_comment(number, 901, &author, "/berth extend 2h");
    show("unknown account", &berth.wait_for_comment(number, "not connected to Berth"));
    let made = berth.post("/me/forge-accounts", &json!({}), 201);
    let code = text(&made, "code");
    berth.deliver_comment(number, 902, &author, &format!("/berth connect {code}"));
    let connected = berth.wait_for_comment(number, "connected to the Berth account");
    assert!(!connected.contains(&code), "{connected}");
    show("connected", &connected);
    berth.deliver_comment(number, 903, &author, "/berth extend 2h");
    show("extended", &berth.wait_for_comment(number, "extended qa-1 until"));

    let (fork, forked) = front.open_fork("three");
    show("fork", &berth.wait_for_comment(fork, &format!("`/berth approve {forked}`")));
    assert!(front.status(&forked, CONTEXT).is_none() && berth.deployments_of(&forked).is_empty());

    front.close(number);
    show("granted", &berth.wait_for_comment(other, &format!("deployed {}", &second[..8])));
    show("closed", &berth.wait_for_comment(number, "uses no environment"));
    is_shown(&second, "success");

    // Another member approves the fork, because its author may not.
    let path = format!("{ORG}/repositories?limit=1");
    let repository = text(&berth.server.api.get(&path).json()["data"][0], "id");
    let path = format!("/repositories/{repository}/pull-requests/{fork}/approve");
    let refused = berth.server.api.post(&format!("{ORG}{path}"), &json!({"commit": forked}));
    assert_eq!(refused.status, 403, "{}", refused.text());
    let linked = format!("{ORG}/me/forge-accounts/127.0.0.1/{}", author["id"]);
    assert_eq!(berth.server.api.send(&berth.server.api.request("DELETE", &linked)).status, 200);
    berth.post(&path, &json!({"commit": forked}), 200);
    berth.wait_for_comment(fork, "1st in queue for ");
    front.close(other);
    let failed = berth.wait_for_comment(fork, "failed to deploy");
    show("fork without secrets", &failed);
    assert!(failed.contains("from a fork, without secrets") && failed.contains("get no secrets"), "{failed}");
    is_shown(&forked, "failure");
    front.close(fork);
    wait_until(PATIENCE, "the release", || {
        let found = berth.fetch("/pipelines/shop/ephemeral-environments/qa-1");
        found["lock"].is_null().then_some(())
    });

    wait_until(PATIENCE, "inactive deployments", || {
        let shown = front.deployments();
        let last = |commit: &str| {
            let found = shown.iter().find(|it| it.created["ref"] == commit)?;
            assert_eq!(found.created["environment"], "qa-1");
            found.states.last().cloned()
        };
        let is_inactive = |commit: &str| last(commit).as_deref() == Some("inactive");
        (is_inactive(&first) && is_inactive(&second) && last(&forked)? == "failure").then_some(())
    });
    berth.server.stop();
}
