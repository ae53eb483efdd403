//! Links between accounts here and at the provider.

use berth_core::name::Email;
use berth_server::app::issue_reset_link;
use berth_server::integrations::oidc::{PasswordLogin, ProvisionRule};
use berth_store::TxContext;
use serde_json::{Value, json};

use super::super::world::{BrowserSession, TestWorld, call, post};
use super::{LINK, TestProvider, check_now, start_login};

fn person(subject: &str, email: &str) -> Value {
    json!({"claims": {"sub": subject, "email": email, "email_verified": true}})
}

/// The path of the first linked account of the person in the browser.
async fn identity_path(world: &TestWorld, browser: &BrowserSession) -> String {
    let listed = world.send(browser.get("/api/v1/me/identities")).await;
    format!("/api/v1/me/identities/{}", listed.body["data"][0]["id"].as_str().unwrap())
}

#[tokio::test]
async fn account_with_the_same_address_is_linked_only_by_its_user() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let refused = provider.log_in(&world).await;
    refused.assert_problem(403, "provider_login_failed");
    assert!(refused.body["detail"].as_str().unwrap().contains("already is an account"), "{}", refused.text);

    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let linked = provider.link(&world, &ada).await;
    assert_eq!((linked.status.as_u16(), linked.header("location")), (303, "/profile"), "{}", linked.text);
    assert!(world.event_kinds().await.contains(&"identity_linked".to_owned()));
    let browser = provider.browser(&world).await;
    let me = world.send(browser.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["user"]["email"], "ada@acme.test");
    // The link is to the account, not to the address.
    provider.set(&person("u-ada", "changed@acme.test"));
    let browser = provider.browser(&world).await;
    let me = world.send(browser.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["user"]["email"], "ada@acme.test");
    provider.set(&person("u-eve", "ada@acme.test"));
    provider.log_in(&world).await.assert_problem(403, "provider_login_failed");
}

#[tokio::test]
async fn link_needs_recent_confirmation_and_the_same_browser() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let started = start_login(&world, ada.post(LINK)).await;
    provider.finish_in(&world, &started, &hank).await.assert_problem(401, "unauthenticated");
    assert_eq!(provider.link(&world, &ada).await.status, 303);
    // One account at the provider belongs to one account here.
    provider.link(&world, &hank).await.assert_problem(403, "provider_login_failed");

    world.run_sql("UPDATE sign_ins SET confirmed_at = 0");
    world.send(ada.post(LINK)).await.assert_problem(403, "reauthentication_required");
    let token = post(LINK).with_account(&world.ada);
    world.send(token).await.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn unlinking_ends_the_logins_from_the_provider() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    assert_eq!(provider.link(&world, &ada).await.status, 303);
    let browser = provider.browser(&world).await;
    let path = identity_path(&world, &ada).await;
    world.send(call("DELETE", &path).with_account(&world.ada)).await.assert_problem(409, "invalid_state");
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.write_request("DELETE", &path)).await.assert_problem(404, "not_found");
    let unlinked = world.send(ada.write_request("DELETE", &path)).await;
    assert_eq!((unlinked.status.as_u16(), &unlinked.body["data"]["provider"]), (200, &json!("corp")));
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(ada.get("/api/v1/me")).await.status, 200);

    // An account without a password keeps its only way to log in.
    provider.set(&person("u-1", "grace@acme.test"));
    let grace = provider.browser(&world).await;
    let path = identity_path(&world, &grace).await;
    world.send(grace.write_request("DELETE", &path)).await.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn unlinking_needs_a_recently_confirmed_browser() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    assert_eq!(provider.link(&world, &ada).await.status, 303);
    let path = identity_path(&world, &ada).await;
    let token = world.send(call("DELETE", &path).with_account(&world.ada)).await;
    token.assert_problem(409, "invalid_state");
    let unlink = || ada.write_request("DELETE", &path);
    world.run_sql("UPDATE sign_ins SET confirmed_at = confirmed_at - 3601000000");
    world.send(unlink()).await.assert_problem(403, "reauthentication_required");
    assert_eq!(identity_path(&world, &ada).await, path, "the account is still linked");
    let confirm = ada.post("/api/v1/auth/confirm").json(&json!({"password": world.ada.password}));
    assert_eq!(world.send(confirm).await.status, 200);
    assert_eq!(world.send(unlink()).await.status, 200);
}

#[tokio::test]
async fn unlinking_is_refused_if_only_owners_have_passwords() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world_with(|_| (), PasswordLogin::Owners).await;
    let link = world.invite("bob@acme.test", "owner").await;
    let body = json!({"token": link, "password": "a quiet harbour at dawn"});
    let reply = world.send(post("/api/v1/auth/sign-up").json(&body)).await;
    let bob = BrowserSession::from_response(&reply);
    provider.set(&person("u-bob", "bob@acme.test"));
    assert_eq!(provider.link(&world, &bob).await.status, 303);
    let path = identity_path(&world, &bob).await;
    let change = |role: &str| {
        let user = "(SELECT id FROM users WHERE email = 'bob@acme.test')";
        world.run_sql(&format!("UPDATE memberships SET role = '{role}' WHERE user_id = {user}"));
    };
    change("admin");
    let refused = world.send(bob.write_request("DELETE", &path)).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.body["detail"].as_str().unwrap().contains("only owners"), "{}", refused.text);
    change("owner");
    assert_eq!(world.send(bob.write_request("DELETE", &path)).await.status, 200);
}

#[tokio::test]
async fn linking_needs_one_of_the_required_groups() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|config| config.provision = ProvisionRule::MatchingGroups).await;
    let member =
        |groups: &[&str]| json!({"claims": {"sub": "u-ada", "email": "ada@acme.test", "groups": groups}});
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    provider.set(&member(&["strangers"]));
    let refused = provider.link(&world, &ada).await;
    refused.assert_problem(403, "provider_login_failed");
    assert!(refused.body["detail"].as_str().unwrap().contains("none of the groups"), "{}", refused.text);
    let listed = world.send(ada.get("/api/v1/me/identities")).await;
    assert_eq!(listed.body["data"], json!([]));
    provider.set(&member(&["ops"]));
    assert_eq!(provider.link(&world, &ada).await.status, 303);
}

#[tokio::test]
async fn account_that_lost_its_groups_is_not_restored_by_linking_it_again() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|config| config.provision = ProvisionRule::MatchingGroups).await;
    let grace =
        |groups: &[&str]| json!({"claims": {"sub": "u-1", "email": "grace@acme.test", "groups": groups}});
    provider.set(&grace(&["ops"]));
    provider.browser(&world).await;
    // Grace sets a password with a link from the operator.
    let email = Email::parse("grace@acme.test").unwrap();
    let issued = world.app.store().transact(TxContext::system(None), move |tx| issue_reset_link(tx, &email));
    let link = issued.await.unwrap().token.reveal().to_owned();
    let password = "a lighthouse on the cape";
    let body = json!({"token": link, "newPassword": password});
    assert_eq!(world.send(post("/api/v1/auth/reset-password").json(&body)).await.status, 200);

    provider.set(&grace(&["strangers"]));
    check_now(&world).await;
    let browser = world.log_in("grace@acme.test", password).await;
    provider.link(&world, &browser).await.assert_problem(403, "provider_login_failed");
    let listed = world.send(browser.get("/api/v1/me/identities")).await;
    assert_eq!(listed.body["data"][0]["status"], "dormant", "{}", listed.text);
    provider.set(&grace(&["ops"]));
    assert_eq!(provider.link(&world, &browser).await.status, 303);
}
