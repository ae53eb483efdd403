//! Reads ephemeral environments.

use berth_core::pipeline::limits::{DURATION_S_MAX, LIST_ITEMS_MAX};
use berth_core::pipeline::model::{Environment, OnRelease, ReleaseRule, Trigger};

use super::branch;
use super::stage::{skip, vars};
use crate::cursor::{Cursor, Read};
use crate::report::Problem;
use crate::tree::Value;

pub(super) fn environment(at: &Cursor<'_>) -> Option<Environment> {
    // `qa-1:` without a value is valid, because all fields are optional.
    if matches!(at.node.value, Value::Null) {
        return Some(Environment {
            triggers: Vec::new(),
            release: Vec::new(),
            on_release: OnRelease::default(),
            ttl: None,
            labels: Vec::new(),
            vars: std::collections::BTreeMap::default(),
            skip: std::collections::BTreeSet::default(),
        });
    }
    let fields = at.fields(&["triggers", "release", "on_release", "ttl", "labels", "vars", "skip"])?;
    let rules =
        |name, what| fields.get(name).and_then(|at| at.items(what, LIST_ITEMS_MAX)).unwrap_or_default();
    Some(Environment {
        triggers: rules("triggers", "triggers").iter().filter_map(trigger).collect(),
        release: rules("release", "release rules").iter().filter_map(release_rule).collect(),
        on_release: fields.read("on_release").unwrap_or_default(),
        ttl: fields.get("ttl").and_then(|at| at.duration(1, DURATION_S_MAX)),
        labels: fields.list("labels", "labels"),
        vars: vars(&fields),
        skip: skip(&fields),
    })
}

impl Read for OnRelease {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        at.choice(&[("none", OnRelease::None), ("deploy_tracked", OnRelease::DeployTracked)])
    }
}

#[derive(Clone, Copy)]
enum On {
    Api,
    PullRequest,
    PrClosed,
    Timeout,
}

fn trigger(at: &Cursor<'_>) -> Option<Trigger> {
    let fields = at.fields(&["on", "target_branches"])?;
    let on = fields.require("on")?;
    let kind = on.choice(&[("api", On::Api), ("pull_request", On::PullRequest)])?;
    let branches = fields.get("target_branches");
    match kind {
        On::PullRequest => {
            let message =
                "pull request triggers are not active yet: the environment can be claimed through the API";
            on.add(Problem::warning("not_active_yet", message));
            let branches = branches.and_then(|at| at.items("branches", LIST_ITEMS_MAX)).unwrap_or_default();
            Some(Trigger::PullRequest { target_branches: branches.iter().filter_map(branch).collect() })
        }
        // The API trigger is always implied.
        _ => {
            only_for(branches.as_ref(), "target_branches", "pull_request");
            None
        }
    }
}

fn release_rule(at: &Cursor<'_>) -> Option<ReleaseRule> {
    let fields = at.fields(&["on", "after_idle"])?;
    let on = fields.require("on")?;
    let kind = on.choice(&[("api", On::Api), ("pr_closed", On::PrClosed), ("timeout", On::Timeout)])?;
    if let On::Timeout = kind {
        let after_idle = fields.require("after_idle")?.duration(1, DURATION_S_MAX)?;
        return Some(ReleaseRule::Timeout { after_idle });
    }
    only_for(fields.get("after_idle").as_ref(), "after_idle", "timeout");
    if let On::PrClosed = kind {
        let message =
            "release on a closed pull request is not active yet: sessions end by release, expiry or timeout";
        on.add(Problem::warning("not_active_yet", message));
        return Some(ReleaseRule::PrClosed);
    }
    None
}

fn only_for(at: Option<&Cursor<'_>>, field: &str, kind: &str) {
    if let Some(at) = at {
        at.add_at_key(Problem::error(
            "unknown_field",
            format!("`{field}` is only allowed with `on: {kind}`; remove it"),
        ));
    }
}
