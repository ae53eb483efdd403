//! Logins with a password by people who also log in through the provider.

use serde_json::json;

use super::super::world::{get, post};
use super::{TestProvider, age_confirmation, check_now};

const ORG: &str = "/api/v1/organizations/acme";
const STALE_S: i64 = 15 * 60;

#[tokio::test]
async fn roles_and_teams_from_groups_end_with_a_password_login() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    let team = post(&format!("{ORG}/teams")).with_account(&world.ada).json(&json!({"slug": "sre"}));
    assert_eq!(world.send(team).await.status, 201);
    let grace = world.create_member("grace@acme.test", "viewer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    let groups = ["sre", "admins"];
    provider.set(&json!({"claims": {"sub": "u-1", "email": grace.email, "groups": groups}}));
    assert_eq!(provider.link(&world, &browser).await.status, 303);
    let access = async |browser: &super::BrowserSession| {
        let me = world.send(browser.get("/api/v1/me")).await;
        let org = &me.body["data"]["organizations"][0];
        (org["role"].as_str().unwrap().to_owned(), org["teams"].clone())
    };
    let from_groups = ("admin".to_owned(), json!(["sre"]));
    assert_eq!(access(&browser).await, from_groups);
    // As long as the provider confirms the account, a password login changes nothing.
    let browser = world.log_in(&grace.email, &grace.password).await;
    assert_eq!(access(&browser).await, from_groups);

    provider.set(&json!({"isDown": true}));
    age_confirmation(&world, STALE_S);
    check_now(&world).await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    assert_eq!(access(&browser).await, ("viewer".to_owned(), json!([])));
    let team = json!({"slug": "qa"});
    let refused = world.send(browser.post(&format!("{ORG}/teams")).json(&team)).await;
    refused.assert_problem(403, "forbidden");
    let refused = world.send(post(&format!("{ORG}/teams")).with_account(&grace).json(&team)).await;
    refused.assert_problem(403, "forbidden");
    let members = world.send(get(&format!("{ORG}/teams/sre/members")).with_account(&world.ada)).await;
    assert_eq!(members.body["data"], json!([]), "{}", members.text);

    provider.set(&json!({"isDown": false}));
    assert_eq!(access(&provider.browser(&world).await).await, from_groups);
}
