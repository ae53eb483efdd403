//! GitHub's examples of all kinds of payloads, from the package `@octokit/webhooks-examples`.

use std::collections::BTreeMap;

use berth_core::forge::ForgeKind;
use berth_server::integrations::forges::hooks::{DeliveryEffect, parse_delivery};
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::npm::package_file;

const VERSIONS: &[&str] = &["api.github.com", "ghes-31", "ghes-32", "ghes-33", "ghes-34", "ghes-35"];

#[test]
fn github_example_payloads_are_all_read_or_ignored() {
    let mut found = BTreeMap::new();
    for version in VERSIONS {
        let file = format!("@octokit/webhooks-examples/{version}/index.json");
        let Some(file) = package_file(&file) else { return };
        let kinds: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for kind in kinds {
            let name = kind["name"].as_str().unwrap();
            for example in kind["examples"].as_array().unwrap() {
                let mut headers = HeaderMap::new();
                headers.insert("x-github-event", HeaderValue::from_str(name).unwrap());
                let body = example.to_string();
                let delivery = parse_delivery(ForgeKind::GitHub, &headers, body.as_bytes()).unwrap();
                assert!(delivery.kind.starts_with(name), "{} is {name}", delivery.kind);
                let effect = match delivery.effect {
                    DeliveryEffect::Push { .. } => "push",
                    DeliveryEffect::PullRequest { .. } => "pull request",
                    DeliveryEffect::Command { .. } => "command",
                    DeliveryEffect::Ping => "ping",
                    DeliveryEffect::Installation(_) => "installation",
                    DeliveryEffect::Ignored("Berth does not use events of this kind") => "unused",
                    DeliveryEffect::Ignored(why) => {
                        assert!(["push", "issue_comment"].contains(&name), "{name}: {why}");
                        "ignored"
                    }
                };
                let is_used = [
                    "push",
                    "pull_request",
                    "issue_comment",
                    "ping",
                    "installation",
                    "installation_repositories",
                ]
                .contains(&name);
                assert_eq!(effect == "unused", !is_used, "{name}");
                *found.entry(effect).or_insert(0) += 1;
            }
        }
    }
    let count = |effect: &str| found.get(effect).copied().unwrap_or(0);
    assert!(count("pull request") >= 40 && count("push") >= 2 && count("ping") >= 10, "{found:?}");
    assert!(count("installation") >= 10, "{found:?}");
    assert!(count("unused") >= 600, "{found:?}");
}
