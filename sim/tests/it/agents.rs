//! Agents that crash while they hold environments.

use berth_sim::agents::{self, AgentTally};
use berth_testkit::outcome;

#[test]
fn crashing_agents_never_share_an_environment_or_keep_it_beyond_their_lease() {
    let seeds = 0..outcome::short_or_long(40, 2_000);
    let mut total = AgentTally::default();
    for seed in seeds.clone() {
        match agents::run(seed) {
            Ok(tally) => total += tally,
            Err(broken) => panic!("{broken}"),
        }
    }
    outcome::report_seed_coverage(&format!("runs of 50 agents in 5 environments ({total})"), &seeds);
    let rare = [total.crashes, total.leases_ended, total.restarts];
    assert!(rare.into_iter().all(|count| count > seeds.end / 2), "{total}");
}
