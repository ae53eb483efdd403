//! The server is killed between a delivery and its effect: everything happens exactly once.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::Value;

use super::{ConnectedServer, PATIENCE};
use crate::harness::wait_until;
use crate::random::SeededRandom;

const ROUNDS: usize = 3;
const ROUNDS_LONG: usize = 30;
/// Milliseconds between a delivery and the kill.
const UNTIL_KILL_MS: std::ops::Range<u64> = 0..400;
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  ephemeral_environments:
    qa-1:
      triggers: [{ on: pull_request }]
      release: [{ on: pr_closed }]
  steps:
    - { name: Deploy, type: script, on_lost: retry, params: { run: 'cat version.txt' } }
";

#[test]
fn deliveries_have_exactly_one_effect_when_the_server_is_killed() {
    let Some(mut berth) = ConnectedServer::start(DEFINITION) else { return };
    let mut random = SeededRandom::from_env("PULL_REQUEST_KILLS_SEED");
    let rounds = outcome::short_or_long(ROUNDS, ROUNDS_LONG);
    for round in 0..rounds {
        let mut kill = |berth: &mut ConnectedServer| {
            std::thread::sleep(Duration::from_millis(random.next_in(UNTIL_KILL_MS)));
            berth.kill_and_restart();
        };
        let branch = format!("branch-{round}");
        let head = berth.front.push(&format!("refs/heads/{branch}"), &format!("version {round}"));
        // The emulator sends the delivery once; GitHub can be asked to repeat it.
        let number = berth.front.open(&branch);
        kill(&mut berth);
        for _ in 0..2 {
            berth.deliver_change("opened", number, &format!("opened-{number}"));
        }
        kill(&mut berth);
        berth.wait_for_comment(number, &format!("deployed {}", &head[..8]));
        assert_eq!(berth.deployments_of(&head).len(), 1);

        // Anyone may ask for help, and the answer is written once.
        let author = berth.front.pull_request(number)["user"].clone();
        berth.deliver_comment(number, number, &author, "/berth help");
        kill(&mut berth);
        berth.deliver_comment(number, number, &author, "/berth help");
        berth.wait_for_comment(number, "the commands are");
        berth.front.close(number);
        kill(&mut berth);
        berth.deliver_change("closed", number, &format!("closed-{number}"));
        wait_until(PATIENCE, "the release", || {
            let found = berth.fetch("/pipelines/shop/ephemeral-environments/qa-1");
            found["lock"].is_null().then_some(())
        });
        assert_eq!(berth.deployments_of(&head).len(), 1, "the pull request was deployed twice");
        assert_eq!(berth.front.comments_of(number).len(), 1);
        for kind in ["session_claimed", "session_released"] {
            let events = berth.fetch(&format!("/events?kind={kind}&limit=200"));
            assert_eq!(events.as_array().map(Vec::len), Some(round + 1), "{kind}: {events}");
        }
    }
    let shown = berth.front.deployments();
    let distinct: BTreeSet<_> = shown.iter().map(|it| it.created["payload"]["berth"].to_string()).collect();
    assert_eq!(distinct.len(), shown.len(), "a deployment was created twice: {shown:?}");
    assert!(!shown.iter().any(|it| it.created["payload"]["berth"] == Value::Null), "{shown:?}");
    outcome::report_coverage(&format!("{} kills around {} deliveries", rounds * 4, rounds * 6));
    berth.server.stop();
}
