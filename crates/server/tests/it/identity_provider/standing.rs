//! Whether providers vouch for a person is decided separately in each organization.

use berth_core::name::Slug;
use berth_server::integrations::oidc::{PasswordLogin, ProviderConfig};
use serde_json::{Value, json};

use super::super::world::{BrowserSession, TestWorld, call, get, post};
use super::{TestProvider, age_confirmation, check_now, create_token, create_token_in, world_of};

const ACME: &str = "/api/v1/organizations/acme";
const INSTANCE: &str = "/api/v1/instance/organizations";
const STALE_S: i64 = 15 * 60;

/// A server with two providers: `corp` for acme, and `partner` for the organization named here.
async fn start(partner_of: &str) -> Option<(TestProvider, TestProvider, TestWorld)> {
    let (corp, partner) = (TestProvider::start()?, TestProvider::start_named("partner")?);
    let organization = Slug::parse(partner_of).unwrap();
    let configs = vec![corp.config(), ProviderConfig { organization, ..partner.config() }];
    let world = world_of(configs, PasswordLogin::Everyone).await;
    Some((corp, partner, world))
}

/// Lets the provider refuse the account at the next check.
async fn refuse(world: &TestWorld, provider: &TestProvider) {
    provider.set(&json!({"refresh": "refused"}));
    check_now(world).await;
    provider.set(&json!({"refresh": "ok"}));
}

#[tokio::test]
async fn refusal_in_one_organization_is_not_undone_by_a_login_to_another() {
    let Some((corp, partner, world)) = start("globex").await else { return };
    let browser = corp.browser(&world).await;
    assert_eq!(partner.link(&world, &browser).await.status, 303);
    let browser = partner.browser(&world).await;
    let acme = ("/api/v1/organizations/acme", create_token_in(&world, &browser, "acme").await);
    let globex = ("/api/v1/organizations/globex", create_token_in(&world, &browser, "globex").await);

    for (refusing, (shut, shut_token), vouching, (open, open_token)) in
        [(&corp, &acme, &partner, &globex), (&partner, &globex, &corp, &acme)]
    {
        refuse(&world, refusing).await;
        let suspended = world.send(get(shut).token(shut_token)).await;
        suspended.assert_problem(401, "identity_unverified");
        assert_eq!(world.send(get(open).token(open_token)).await.status, 200, "{open}");

        let browser = vouching.browser(&world).await;
        assert_eq!(world.send(browser.get(open)).await.status, 200, "{open}");
        world.send(browser.get(shut)).await.assert_problem(401, "identity_unverified");
        let create = browser.post(&format!("{shut}/api-tokens")).json(&json!({"name": "x"}));
        world.send(create).await.assert_problem(401, "identity_unverified");
        world.send(get(shut).token(shut_token)).await.assert_problem(401, "identity_unverified");
        assert_eq!(world.send(get(open).token(open_token)).await.status, 200, "{open}");

        // A login through the provider that refused the account restores everything.
        let browser = refusing.browser(&world).await;
        for (path, token) in [(shut, shut_token), (open, open_token)] {
            assert_eq!(world.send(browser.get(path)).await.status, 200, "{path}");
            assert_eq!(world.send(get(path).token(token)).await.status, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn refusal_while_a_request_is_sent_stops_the_request() {
    let Some((corp, partner, world)) = start("globex").await else { return };
    let browser = corp.browser(&world).await;
    assert_eq!(partner.link(&world, &browser).await.status, 303);
    let browser = partner.browser(&world).await;
    let (ask, asked) = tokio::sync::oneshot::channel::<()>();
    let (release, held) = tokio::sync::oneshot::channel::<()>();
    let body = futures_util::stream::once(async move {
        ask.send(()).unwrap();
        held.await.unwrap();
        Ok::<_, std::io::Error>(r#"{"name": "x"}"#)
    });
    let create = browser.post(&format!("{ACME}/api-tokens")).header("content-type", "application/json");
    let create = create.raw(axum::body::Body::from_stream(body));
    let (reply, ()) = tokio::join!(world.send(create), async {
        // The request is authorized before its body is read.
        asked.await.unwrap();
        world.run_sql("UPDATE provider_identities SET status = 'refused' WHERE provider = 'corp'");
        release.send(()).unwrap();
    });
    reply.assert_problem(401, "unauthenticated");
    assert!(reply.body["detail"].as_str().unwrap().contains("while the request was sent"), "{}", reply.text);
}

#[tokio::test]
async fn waiting_ticket_of_a_suspended_person_is_skipped() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    world.create_pipeline("shop").await;
    let vera = world.create_member("vera@acme.test", "tester").await;
    let grace = provider.browser(&world).await;
    let me = world.send(grace.get("/api/v1/me")).await;
    let member = format!("{ACME}/members/{}", me.body["data"]["user"]["id"].as_str().unwrap());
    // Given by hand, so that the role stays when the provider refuses the account.
    let change = call("PATCH", &member).with_account(&world.ada).json(&json!({"role": "tester"}));
    assert_eq!(world.send(change).await.status, 200);

    let sessions = format!("{ACME}/pipelines/shop/ephemeral-environments/qa-1/sessions");
    let claim = json!({"commitId": "9fceb02", "deploy": false, "queue": true});
    let held = world.send(post(&sessions).with_account(&world.ada).json(&claim)).await;
    let held = held.body["data"]["sessionId"].as_str().unwrap().to_owned();
    let tickets = [grace.post(&sessions).json(&claim), post(&sessions).with_account(&vera).json(&claim)];
    let mut paths = Vec::new();
    for request in tickets {
        let queued = world.send(request).await;
        assert_eq!(queued.status, 202, "{}", queued.text);
        paths.push(queued.header("location").to_owned());
    }
    refuse(&world, &provider).await;
    let role = world.send(get(&member).with_account(&world.ada)).await;
    assert_eq!(role.body["data"]["role"], "tester", "{}", role.text);
    let release = call("DELETE", &format!("{sessions}/{held}")).with_account(&world.ada);
    assert_eq!(world.send(release).await.status, 200);
    let status = async |path: &str| {
        let ticket = world.send(get(path).with_account(&world.ada)).await;
        ticket.body["data"]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!([status(&paths[0]).await, status(&paths[1]).await], ["cancelled", "granted"]);
}

fn detail(reply: &Value) -> &str {
    reply["detail"].as_str().unwrap()
}

#[tokio::test]
async fn suspension_by_one_provider_outweighs_an_expired_confirmation_by_another() {
    let Some((corp, partner, world)) = start("acme").await else { return };
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    for provider in [&corp, &partner] {
        provider.set(&json!({"claims": {"sub": "u-ada", "email": "ada@acme.test", "email_verified": false}}));
        assert_eq!(provider.link(&world, &ada).await.status, 303);
    }
    // Refused by either provider, while the other one does not respond.
    for (refusing, silent) in [(&corp, &partner), (&partner, &corp)] {
        let browser = refusing.browser(&world).await;
        assert_eq!(silent.log_in(&world).await.status, 303);
        let token = create_token(&world, &browser).await;
        silent.set(&json!({"isDown": true}));
        refuse(&world, refusing).await;
        // One provider is enough while its confirmation is valid.
        assert_eq!(world.send(get(ACME).token(&token)).await.status, 200);
        age_confirmation(&world, STALE_S);
        // The server caches tokens until the confirmation expires, which was moved behind its back.
        let teams = post("/api/v1/organizations/globex/teams").with_account(&world.hank);
        assert_eq!(world.send(teams.json(&json!({"slug": silent.name}))).await.status, 201);
        // An owner with a password is exempt from an outage, not from a refusal.
        let suspended = world.send(get(ACME).with_account(&world.ada)).await;
        suspended.assert_problem(401, "identity_unverified");
        assert!(detail(&suspended.body).contains("suspended"), "{}", suspended.text);
        silent.set(&json!({"isDown": false}));
    }
}

async fn instance_status(world: &TestWorld, browser: &BrowserSession) -> u16 {
    world.send(browser.get(INSTANCE)).await.status.as_u16()
}

#[tokio::test]
async fn instance_admin_who_is_suspended_in_an_organization_has_no_instance_access() {
    let Some((corp, partner, world)) = start("globex").await else { return };
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    for provider in [&corp, &partner] {
        provider.set(&json!({"claims": {"sub": "u-ada", "email": "ada@acme.test"}}));
        assert_eq!(provider.link(&world, &ada).await.status, 303);
    }
    let browser = partner.browser(&world).await;
    let token = create_token_in(&world, &browser, "globex").await;
    assert_eq!(instance_status(&world, &browser).await, 200);
    assert_eq!(world.send(get(INSTANCE).token(&token)).await.status, 200);
    refuse(&world, &corp).await;
    let browser = partner.browser(&world).await;
    assert_eq!(instance_status(&world, &browser).await, 403);
    world.send(get(INSTANCE).token(&token)).await.assert_problem(403, "forbidden");
    corp.browser(&world).await;
    assert_eq!(instance_status(&world, &browser).await, 200);
}
