//! Creating an app and connecting repositories through it.

use serde_json::json;

use super::{AppWorld, ORGANIZATION, REPOSITORY_URL};
use crate::forge::GitHubAppDouble;
use crate::world::{call, post};

#[tokio::test]
async fn github_app_is_created_installed_and_connects_repositories() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let form = it.open_form(&repository).await;
    assert!(form.action.starts_with("https://git.acme.test/organizations/acme/settings/apps/new?state="));
    let manifest = &form.manifest;
    assert_eq!(manifest["redirect_url"], "https://berth.acme.test/o/acme/github-app");
    assert_eq!((&manifest["public"], &manifest["hook_attributes"]["active"]), (&json!(false), &json!(true)));
    assert_eq!(manifest["default_permissions"]["contents"], "write");
    assert!(manifest["name"].as_str().unwrap().chars().count() <= 34, "{manifest}");
    let hook_url = manifest["hook_attributes"]["url"].clone();

    let code = it.github.create_app(form.manifest);
    let made = it.finish(&it.browser, &form.state, &code).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(!made.text.contains("PRIVATE KEY") && !made.text.contains(GitHubAppDouble::HOOK_SECRET));
    let app = &made.body["data"];
    // The response of the forge named another host, which is not used.
    assert_eq!(app["installUrl"], "https://git.acme.test/github-apps/berth-acme/installations/new");
    assert_eq!((&app["repositoryId"], &app["isInstalled"]), (&json!(repository), &json!(false)));

    let asked = it.connect(&repository, &json!({})).await;
    assert_eq!(asked.body["data"]["status"], "installationRequired", "{}", asked.text);
    assert_eq!(asked.body["data"]["url"], app["installUrl"]);
    it.github.install("acme/shop");
    let connected = it.connect(&repository, &json!({})).await;
    assert_eq!(connected.body["data"]["status"], "connected", "{}", connected.text);
    let connection = it.view(&format!("repositories/{repository}/connection")).await;
    assert_eq!((&connection["hookUrl"], &connection["app"]["id"]), (&hook_url, &app["id"]));
    assert_eq!((&connection["isManaged"], &connection["instructions"]), (&json!(true), &json!([])));

    // A second repository uses the same app.
    let second = it.add_repository("https://git.acme.test/acme/docs").await;
    let asked = it.connect(&second, &json!({})).await;
    assert_eq!(asked.body["data"]["status"], "installationRequired", "{}", asked.text);
    it.github.install("acme/docs");
    let connected = it.connect(&second, &json!({})).await;
    assert_eq!(connected.body["data"]["connection"]["app"]["id"], app["id"], "{}", connected.text);
    let apps = it.view("forge-apps").await;
    assert_eq!((apps.as_array().unwrap().len(), &apps[0]["repositories"]), (1, &json!(2)));
    assert_eq!(apps[0]["isInstalled"], true);

    let path = format!("{ORGANIZATION}/forge-apps/{}", app["id"].as_str().unwrap());
    let delete = || it.world.send(it.browser.write_request("DELETE", &path));
    delete().await.assert_problem(409, "invalid_state");
    let rotated = format!("{ORGANIZATION}/repositories/{repository}/connection/rotate");
    it.world.send(it.browser.post(&rotated).json(&json!({}))).await.assert_problem(409, "invalid_state");
    for id in [&repository, &second] {
        let path = format!("{ORGANIZATION}/repositories/{id}/connection");
        assert_eq!(it.world.send(call("DELETE", &path).with_account(&it.world.ada)).await.status, 200);
    }
    assert_eq!(delete().await.status, 200);
    assert_eq!(it.view("forge-apps").await, json!([]));
    let kinds = it.world.event_kinds().await;
    let kinds: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("forge_app")).collect();
    assert_eq!(kinds, ["forge_app_created", "forge_app_installed", "forge_app_deleted"]);
}

#[tokio::test]
async fn github_app_of_a_user_is_created_in_the_users_settings() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let asked = it.connect(&repository, &json!({"isPersonal": true})).await;
    let url = asked.body["data"]["url"].as_str().unwrap().to_owned();
    let page = it.world.send(it.browser.get(url.strip_prefix("https://berth.acme.test").unwrap())).await;
    assert!(page.text.contains("action=\"https://git.acme.test/settings/apps/new?state="), "{}", page.text);
}

#[tokio::test]
async fn app_setup_works_once_and_only_in_the_login_that_started_it() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let form = it.open_form(&repository).await;
    let code = it.github.create_app(form.manifest.clone());
    let exchanges = || {
        let lines = it.github.forge.request_lines();
        lines.iter().filter(|line| line.ends_with("/conversions")).count()
    };

    let other_browser = it.world.log_in(&it.world.ada.email, &it.world.ada.password).await;
    let grace = it.world.create_member("grace@acme.test", "admin").await;
    let grace = it.world.log_in(&grace.email, &grace.password).await;
    for browser in [&other_browser, &grace] {
        it.finish(browser, &form.state, &code).await.assert_problem(409, "invalid_state");
        let page = format!("{ORGANIZATION}/forge-apps/form?state={}", form.state);
        it.world.send(browser.get(&page)).await.assert_problem(409, "invalid_state");
    }
    it.finish(&it.browser, "another-state", &code).await.assert_problem(409, "invalid_state");
    let by_token = post(&format!("{ORGANIZATION}/forge-apps")).with_account(&it.world.ada);
    let by_token = it.world.send(by_token.json(&json!({"state": form.state, "code": code}))).await;
    by_token.assert_problem(409, "invalid_state");
    for bad in ["", "a b", "a\u{e9}", &"x".repeat(201)] {
        assert_eq!(it.finish(&it.browser, &form.state, bad).await.status, 400, "{bad}");
    }
    assert_eq!(exchanges(), 0, "a code was exchanged");

    assert_eq!(it.finish(&it.browser, &form.state, &code).await.status, 201);
    let again = it.github.create_app(form.manifest);
    it.finish(&it.browser, &form.state, &again).await.assert_problem(409, "invalid_state");
    assert_eq!(exchanges(), 1, "the state was used twice");
}

#[tokio::test]
async fn expired_or_replaced_app_setup_is_refused() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let first = it.open_form(&repository).await;
    let second = it.open_form(&repository).await;
    let code = it.github.create_app(first.manifest);
    it.finish(&it.browser, &first.state, &code).await.assert_problem(409, "invalid_state");
    it.world.run_sql("UPDATE forge_app_setups SET expires_at = 1");
    it.finish(&it.browser, &second.state, &code).await.assert_problem(409, "invalid_state");
    assert_eq!(it.github.forge.request_lines().len(), 0);
    assert_eq!(it.view("forge-apps").await, json!([]));
}

#[tokio::test]
async fn failed_or_odd_conversion_creates_no_app() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let good = json!({"id": 1, "slug": "berth", "name": "Berth", "pem": "no key", "webhook_secret": "x"});
    for (status, body) in [
        (404, json!({"message": "Not Found"})),
        (500, json!({})),
        (302, json!({})),
        (201, json!([])),
        (201, good.clone()),
        (
            201,
            json!({"id": 1, "slug": "../evil", "name": "Berth", "pem": good["pem"], "webhook_secret": "x"}),
        ),
    ] {
        let form = it.open_form(&repository).await;
        let code = it.github.create_app(form.manifest);
        it.github.model().conversion = Some((status, body.clone()));
        let refused = it.finish(&it.browser, &form.state, &code).await;
        refused.assert_problem(409, "invalid_state");
        assert!(refused.text.contains("start again"), "{status} {body}: {}", refused.text);
        it.github.model().conversion = None;
        // The state is used up.
        it.finish(&it.browser, &form.state, &code).await.assert_problem(409, "invalid_state");
    }
    assert_eq!(it.view("forge-apps").await, json!([]));
}

#[tokio::test]
async fn app_setup_needs_a_recent_confirmation_and_the_permission() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let form = it.open_form(&repository).await;
    let code = it.github.create_app(form.manifest);
    it.world.run_sql("UPDATE sign_ins SET confirmed_at = 1");
    it.finish(&it.browser, &form.state, &code).await.assert_problem(403, "reauthentication_required");
    it.connect(&repository, &json!({})).await.assert_problem(403, "reauthentication_required");
    // The state was not used up: the setup continues after the confirmation.
    it.world.run_sql(&format!("UPDATE sign_ins SET confirmed_at = {}", super::now().as_micros()));
    assert_eq!(it.finish(&it.browser, &form.state, &code).await.status, 201);

    let viewer = it.world.create_member("viewer@acme.test", "viewer").await;
    let path = format!("{ORGANIZATION}/repositories/{repository}/connection/app");
    it.world.send(post(&path).with_account(&viewer).json(&json!({}))).await.assert_problem(403, "forbidden");
}

#[tokio::test]
async fn app_connection_with_a_token_leads_to_the_dashboard() {
    let it = AppWorld::new().await;
    let repository = it.add_repository(REPOSITORY_URL).await;
    let path = format!("{ORGANIZATION}/repositories/{repository}/connection/app");
    let asked = it.world.send(post(&path).with_account(&it.world.ada).json(&json!({}))).await;
    let page = format!("https://berth.acme.test/o/acme/settings/repositories/{repository}?connect=app");
    assert_eq!(asked.body["data"]["url"], page, "{}", asked.text);
}

#[tokio::test]
async fn app_connection_is_refused_for_other_forges_and_ssh() {
    let it = AppWorld::new().await;
    for url in
        ["git@git.acme.test:acme/shop.git", "https://gitlab.com/acme/shop.git", "https://unknown.test/a/b"]
    {
        let repository = it.add_repository(url).await;
        it.connect(&repository, &json!({})).await.assert_problem(409, "invalid_state");
    }
    let repository = it.connect_repository().await;
    it.connect(&repository, &json!({})).await.assert_problem(409, "already_exists");
}
