//! Groups of the provider, mapped to teams and to the role in the organization.

use berth_server::integrations::oidc::ProvisionRule;
use serde_json::{Value, json};

use super::super::world::{BrowserSession, TestWorld, call, get, post};
use super::{TestProvider, check_now};

const ORG: &str = "/api/v1/organizations/acme";

fn person(groups: &[&str]) -> Value {
    json!({"claims": {"sub": "u-1", "email": "grace@acme.test", "name": "Grace", "groups": groups}})
}

async fn create_team(world: &TestWorld, slug: &str) {
    let made = post(&format!("{ORG}/teams")).with_account(&world.ada).json(&json!({"slug": slug}));
    assert_eq!(world.send(made).await.status, 201);
}

/// The members of a team, with the source of each membership.
async fn team(world: &TestWorld, slug: &str) -> Vec<(String, String)> {
    let list = world.send(get(&format!("{ORG}/teams/{slug}/members")).with_account(&world.ada)).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let members = list.body["data"].as_array().unwrap().iter();
    members.map(|it| (text(&it["email"]), text(&it["source"]))).collect()
}

async fn user_id(world: &TestWorld, browser: &BrowserSession) -> String {
    let me = world.send(browser.get("/api/v1/me")).await;
    me.body["data"]["user"]["id"].as_str().unwrap().to_owned()
}

async fn role(world: &TestWorld, user: &str) -> String {
    let member = world.send(get(&format!("{ORG}/members/{user}")).with_account(&world.ada)).await;
    member.body["data"]["role"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn group_changes_apply_at_login_and_at_refresh() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    create_team(&world, "sre").await;
    let from_provider = vec![("grace@acme.test".to_owned(), "corp".to_owned())];

    provider.set(&person(&["sre", "ops", "admins", "qa"]));
    let browser = provider.browser(&world).await;
    let user = user_id(&world, &browser).await;
    assert_eq!(
        (team(&world, "sre").await, role(&world, &user).await.as_str()),
        (from_provider.clone(), "admin")
    );
    // Ada cannot remove a membership that comes from the provider.
    let remove = call("DELETE", &format!("{ORG}/teams/sre/members/{user}")).with_account(&world.ada);
    world.send(remove).await.assert_problem(409, "invalid_state");

    provider.set(&person(&["ops"]));
    check_now(&world).await;
    assert_eq!((team(&world, "sre").await, role(&world, &user).await.as_str()), (vec![], "deployer"));
    provider.set(&person(&["sre"]));
    assert_eq!(provider.log_in(&world).await.status, 303);
    assert_eq!((team(&world, "sre").await, role(&world, &user).await.as_str()), (from_provider, "member"));
    let kinds = world.event_kinds().await;
    assert!(
        ["team_member_added", "team_member_removed", "member_updated"]
            .iter()
            .all(|it| kinds.contains(&(*it).to_owned()))
    );
}

#[tokio::test]
async fn membership_and_role_given_by_hand_stay() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    create_team(&world, "sre").await;
    provider.set(&person(&["sre", "ops"]));
    let browser = provider.browser(&world).await;
    let user = user_id(&world, &browser).await;
    let add = call("PUT", &format!("{ORG}/teams/sre/members/{user}")).with_account(&world.ada);
    assert_eq!(world.send(add).await.status, 200);
    let change = |role: &str| {
        call("PATCH", &format!("{ORG}/members/{user}")).with_account(&world.ada).json(&json!({"role": role}))
    };
    assert_eq!(world.send(change("admin")).await.status, 200);
    provider.set(&person(&[]));
    check_now(&world).await;
    assert_eq!(team(&world, "sre").await, [("grace@acme.test".to_owned(), "manual".to_owned())]);
    assert_eq!(role(&world, &user).await, "admin");
    // A group raises a lower role only while the person is in it.
    assert_eq!(world.send(change("viewer")).await.status, 200);
    provider.set(&person(&["ops"]));
    check_now(&world).await;
    assert_eq!(role(&world, &user).await, "deployer");
    provider.set(&person(&[]));
    check_now(&world).await;
    assert_eq!(role(&world, &user).await, "viewer");
}

#[tokio::test]
async fn groups_are_read_from_user_info_if_the_id_token_has_none() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|config| config.scopes.push("groups".into())).await;
    create_team(&world, "sre").await;
    provider.set(&person(&["sre"]));
    provider.set(&json!({"refresh": "without_id_token"}));
    provider.browser(&world).await;
    assert_eq!(team(&world, "sre").await.len(), 1);
    provider.set(&person(&[]));
    check_now(&world).await;
    assert_eq!(team(&world, "sre").await.len(), 0, "the refresh had no ID token");
}

#[tokio::test]
async fn loss_of_the_last_matching_group_suspends_a_provisioned_account() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|config| config.provision = ProvisionRule::MatchingGroups).await;
    provider.set(&person(&["ops"]));
    let browser = provider.browser(&world).await;
    let token = super::create_token(&world, &browser).await;
    let user = user_id(&world, &browser).await;
    provider.set(&person(&["strangers"]));
    check_now(&world).await;
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    world.send(get("/api/v1/me").token(&token)).await.assert_problem(401, "identity_unverified");
    assert_eq!(role(&world, &user).await, "member");
    provider.log_in(&world).await.assert_problem(403, "provider_login_failed");
    provider.set(&person(&["ops"]));
    assert_eq!(provider.log_in(&world).await.status, 303);
    assert_eq!(world.send(get("/api/v1/me").token(&token)).await.status, 200);
}
