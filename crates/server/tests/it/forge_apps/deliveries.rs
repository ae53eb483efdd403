//! Deliveries of an app.

use serde_json::json;

use super::{AppWorld, signed_delivery};
use crate::forge::GitHubAppDouble;

#[tokio::test]
async fn app_delivery_changes_only_repositories_connected_through_the_app() {
    let it = AppWorld::new().await;
    let repository = it.connect_repository().await;
    // Not connected, but registered.
    let other = it.add_repository("https://git.acme.test/acme/docs").await;
    it.world.run_sql("UPDATE repositories SET due_at = 9000000000000000");
    let hook = it.hook_path(&repository).await;
    let push = |path: &str| json!({"ref": "refs/heads/main", "repository": {"full_name": path}});
    let told = it.deliver(&hook, "push", "d1", &push("acme/shop")).await;
    assert_eq!(told.body["data"]["outcome"], "sync scheduled: main pushed", "{}", told.text);
    let again = it.deliver(&hook, "push", "d1", &push("acme/shop")).await;
    assert_eq!(again.body["data"]["isDuplicate"], true);
    for path in ["acme/docs", "globex/shop"] {
        let told = it.deliver(&hook, "push", "d2", &push(path)).await;
        let outcome = "ignored: the repository is not connected through this app";
        assert_eq!(told.body["data"]["outcome"], outcome, "{path}: {}", told.text);
    }
    let deliveries = it.view(&format!("repositories/{repository}/deliveries")).await;
    assert_eq!(deliveries.as_array().unwrap().len(), 1, "{deliveries}");
    assert_eq!(it.view(&format!("repositories/{other}/deliveries")).await, json!([]));
    assert_eq!(it.view(&format!("repositories/{repository}/connection")).await["isVerified"], true);
    let told = it.deliver(&hook, "ping", "d3", &json!({"zen": "Design for failure."})).await;
    assert_eq!(told.body["data"]["outcome"], "webhook verified");
    let told = it.deliver(&hook, "installation", "d4", &json!({"action": "suspend"})).await;
    assert_eq!(told.body["data"]["outcome"], "installation of the GitHub App suspended");
    let again = it.deliver(&hook, "installation", "d4", &json!({"action": "suspend"})).await;
    assert_eq!(again.body["data"]["isDuplicate"], true);
    assert_eq!(it.view("forge-apps").await[0]["isInstalled"], false);
    let told = it.deliver(&hook, "installation", "d5", &json!({"action": "unsuspend"})).await;
    assert_eq!(told.body["data"]["outcome"], "GitHub App installed", "{}", told.text);
    let kinds = it.world.event_kinds().await;
    let kinds: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("forge_app_")).collect();
    let expected =
        ["forge_app_created", "forge_app_installed", "forge_app_uninstalled", "forge_app_installed"];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn forged_app_delivery_is_refused_and_changes_nothing() {
    let it = AppWorld::new().await;
    let repository = it.connect_repository().await;
    let hook = it.hook_path(&repository).await;
    let body = json!({"action": "deleted"});
    let forged = signed_delivery(&hook, "installation", "d1", &body, "another secret");
    it.world.send(forged).await.assert_problem(401, "unauthenticated");
    for forge in ["gitea", "gitlab", "bitbucket"] {
        let path = hook.replace("github", forge);
        let request = signed_delivery(&path, "installation", "d1", &body, GitHubAppDouble::HOOK_SECRET);
        it.world.send(request).await.assert_problem(404, "not_found");
    }
    assert_eq!(it.view("forge-apps").await[0]["isInstalled"], true);
    assert_eq!(it.view(&format!("repositories/{repository}/deliveries")).await, json!([]));
}
