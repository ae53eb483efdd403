//! Reads ephemeral environments.

use berth_core::pipeline::limits::{DURATION_S_MAX, LIST_ITEMS_MAX, QUEUE_AGEING_S_MIN};
use berth_core::pipeline::model::{
    ClaimTrigger, EnvironmentDefinition, OwnerTeam, PullRequestFilter, QueueOrder, QueuePolicy,
    ReleaseAction, ReleaseCondition,
};

use berth_core::wording::quote;

use super::branch;
use super::stage::{skip, vars};
use crate::cursor::{NodeCursor, ReadNode};
use crate::report::DefinitionProblem;
use crate::tree::YamlValue;

pub(super) fn read_environment(at: &NodeCursor<'_>) -> Option<EnvironmentDefinition> {
    // `qa-1:` without a value is valid, because all fields are optional.
    if matches!(at.node.value, YamlValue::Null) {
        return Some(EnvironmentDefinition {
            triggers: Vec::new(),
            release: Vec::new(),
            on_release: ReleaseAction::default(),
            ttl: None,
            labels: Vec::new(),
            owner: None,
            queue: QueuePolicy::default(),
            vars: std::collections::BTreeMap::default(),
            skip: std::collections::BTreeSet::default(),
        });
    }
    let fields =
        at.fields(&["triggers", "release", "on_release", "ttl", "labels", "owner", "queue", "vars", "skip"])?;
    let rules =
        |name, what| fields.get(name).and_then(|at| at.items(what, LIST_ITEMS_MAX)).unwrap_or_default();
    Some(EnvironmentDefinition {
        triggers: rules("triggers", "triggers").iter().filter_map(read_trigger).collect(),
        release: rules("release", "release rules").iter().filter_map(read_release_rule).collect(),
        on_release: fields.read("on_release").unwrap_or_default(),
        ttl: fields.get("ttl").and_then(|at| at.duration(1, DURATION_S_MAX)),
        labels: fields.list("labels", "labels"),
        owner: fields.read("owner"),
        queue: fields.read("queue").unwrap_or_default(),
        vars: vars(&fields),
        skip: skip(&fields),
    })
}

impl ReadNode for ReleaseAction {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.choice(&[("none", ReleaseAction::None), ("deploy_tracked", ReleaseAction::DeployTracked)])
    }
}

impl ReadNode for QueuePolicy {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["order", "ageing"])?;
        let order = fields.get("order");
        let order =
            order.map(|at| at.choice(&[("arrival", QueueOrder::Arrival), ("class", QueueOrder::Class)]));
        let order = order.unwrap_or(Some(QueueOrder::default()))?;
        let Some(ageing) = fields.get("ageing") else { return Some(Self { order, ..Self::default() }) };
        if order != QueueOrder::Class {
            let text = "`ageing` is only allowed with `order: class`; remove it";
            ageing.add_at_key(DefinitionProblem::error("unknown_field", text.to_owned()));
            return None;
        }
        Some(Self { order, ageing: ageing.duration(QUEUE_AGEING_S_MIN, DURATION_S_MAX)? })
    }
}

impl ReadNode for OwnerTeam {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let text = at.text()?;
        let owner = OwnerTeam::try_from(text.to_owned());
        if let Err(invalid) = &owner {
            at.add(DefinitionProblem::error("unknown_value", format!("{} {invalid}", quote(text))));
        }
        owner.ok()
    }
}

#[derive(Clone, Copy)]
enum TriggerKind {
    Api,
    PullRequest,
    PrClosed,
    Timeout,
}

fn read_trigger(at: &NodeCursor<'_>) -> Option<ClaimTrigger> {
    let fields = at.fields(&["on", "target_branches", "when"])?;
    let on = fields.require("on")?;
    let kind = on.choice(&[("api", TriggerKind::Api), ("pull_request", TriggerKind::PullRequest)])?;
    let (branches, when) = (fields.get("target_branches"), fields.get("when"));
    match kind {
        TriggerKind::PullRequest => {
            let branches = branches.and_then(|at| at.items("branches", LIST_ITEMS_MAX)).unwrap_or_default();
            let when = when.as_ref().and_then(|at| at.fields(&["labels", "draft"]));
            let labels = when.as_ref().and_then(|it| it.get("labels")?.items("labels", LIST_ITEMS_MAX));
            let label = |at: &NodeCursor<'_>| at.text().map(str::to_owned);
            Some(ClaimTrigger::PullRequest {
                target_branches: branches.iter().filter_map(branch).collect(),
                when: PullRequestFilter {
                    labels: labels.unwrap_or_default().iter().filter_map(label).collect(),
                    draft: when.as_ref().and_then(|it| bool::read(&it.get("draft")?)),
                },
            })
        }
        // Claiming through the API is always possible, so this trigger is not stored.
        _ => {
            refuse_unless_kind(branches.as_ref(), "target_branches", "pull_request");
            refuse_unless_kind(when.as_ref(), "when", "pull_request");
            None
        }
    }
}

fn read_release_rule(at: &NodeCursor<'_>) -> Option<ReleaseCondition> {
    let fields = at.fields(&["on", "after_idle"])?;
    let on = fields.require("on")?;
    let kind = on.choice(&[
        ("api", TriggerKind::Api),
        ("pr_closed", TriggerKind::PrClosed),
        ("timeout", TriggerKind::Timeout),
    ])?;
    if let TriggerKind::Timeout = kind {
        let after_idle = fields.require("after_idle")?.duration(1, DURATION_S_MAX)?;
        return Some(ReleaseCondition::Timeout { after_idle });
    }
    refuse_unless_kind(fields.get("after_idle").as_ref(), "after_idle", "timeout");
    if let TriggerKind::PrClosed = kind {
        return Some(ReleaseCondition::PrClosed);
    }
    None
}

fn refuse_unless_kind(at: Option<&NodeCursor<'_>>, field: &str, kind: &str) {
    if let Some(at) = at {
        at.add_at_key(DefinitionProblem::error(
            "unknown_field",
            format!("`{field}` is only allowed with `on: {kind}`; remove it"),
        ));
    }
}
