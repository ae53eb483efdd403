//! Invitations: only the person who is invited can choose the password, and an existing account joins only if its owner
//! agrees.

use serde_json::{Value, json};

use super::world::{BrowserSession, TestWorld, call, get, post, token_of_link};

const INVITATIONS: &str = "/api/v1/organizations/acme/invitations";
const MEMBERS: &str = "/api/v1/organizations/acme/members";
const PASSWORD: &str = "a quiet harbour at dawn";

fn sign_up(link: &str, password: &str) -> super::world::TestRequest {
    post("/api/v1/auth/sign-up").json(&json!({"token": link, "password": password}))
}

fn view_invitation(link: &str) -> super::world::TestRequest {
    post("/api/v1/auth/invitation").json(&json!({"token": link}))
}

#[tokio::test]
async fn invited_person_chooses_the_password_and_the_link_works_once() {
    let world = TestWorld::new().await;
    let body = json!({"email": "Grace@Acme.test", "role": "deployer", "name": "Grace Hopper"});
    let made = world.send(post(INVITATIONS).with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let url = made.body["data"]["url"].as_str().unwrap();
    assert!(url.starts_with("http://berth.test/invitation#berth_invite_"), "{url}");
    let link = token_of_link(&made.body["data"]["url"]);
    let listed = world.send(get(INVITATIONS).with_account(&world.ada)).await;
    assert_eq!(listed.body["pagination"]["total"], 1);
    assert!(!listed.text.contains(&link), "the link is shown once");

    let offer = world.send(view_invitation(&link)).await.body["data"].clone();
    assert_eq!((&offer["hasAccount"], &offer["organization"]["slug"]), (&json!(false), &json!("acme")));
    assert_eq!((&offer["email"], &offer["role"]), (&json!("Grace@Acme.test"), &json!("deployer")));

    let weak = world.send(sign_up(&link, "short")).await;
    weak.assert_problem(400, "invalid_request");
    assert_eq!(weak.body["errors"][0]["pointer"], "/password");
    let browser = BrowserSession::from_response(&world.send(sign_up(&link, PASSWORD)).await);
    let me = world.send(browser.get("/api/v1/me")).await.body["data"].clone();
    assert_eq!(
        (&me["user"]["name"], &me["user"]["passwordIsGenerated"]),
        (&json!("Grace Hopper"), &json!(false))
    );
    assert_eq!(me["organizations"][0]["role"], "deployer");
    world.log_in("grace@acme.test", PASSWORD).await;

    for used in [view_invitation(&link), sign_up(&link, PASSWORD)] {
        world.send(used).await.assert_problem(404, "not_found");
    }
    world
        .send(post(INVITATIONS).with_account(&world.ada).json(&body))
        .await
        .assert_problem(409, "already_exists");
    let kinds = world.event_kinds().await;
    let about_members: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("member_")).collect();
    assert_eq!(about_members, ["member_added", "member_invited", "member_added"]);
}

#[tokio::test]
async fn account_joins_only_logged_in_and_with_the_link() {
    let world = TestWorld::new().await;
    let link = world.invite(&world.hank.email, "viewer").await;
    assert_eq!(world.send(view_invitation(&link)).await.body["data"]["hasAccount"], true);
    world.send(sign_up(&link, PASSWORD)).await.assert_problem(409, "already_exists");
    let join = |link: &str| json!({"token": link});
    let path = "/api/v1/me/organizations";
    world.send(post(path).json(&join(&link))).await.assert_problem(401, "unauthenticated");
    world
        .send(post(path).with_account(&world.hank).json(&join(&link)))
        .await
        .assert_problem(409, "invalid_state");
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    world.send(ada.post(path).json(&join(&link))).await.assert_problem(403, "forbidden");

    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.get(MEMBERS)).await.assert_problem(404, "not_found");
    let joined = world.send(hank.post(path).json(&join(&link))).await;
    assert_eq!(
        (joined.status.as_u16(), &joined.body["data"]["slug"]),
        (201, &json!("acme")),
        "{}",
        joined.text
    );
    assert_eq!(world.send(hank.get(MEMBERS)).await.status, 200);
    // Hank's token for globex still gives access to globex only.
    world.send(get(MEMBERS).with_account(&world.hank)).await.assert_problem(404, "not_found");
    world.send(hank.post(path).json(&join(&link))).await.assert_problem(404, "not_found");
}

/// An admin who invites an address and opens the link himself controls an account with that address. If another
/// organization later invites the same address, this account must not get access to it.
#[tokio::test]
async fn account_created_by_a_foreign_admin_gets_no_access() {
    let world = TestWorld::new().await;
    let invite = post("/api/v1/organizations/globex/invitations").with_account(&world.hank);
    let made = world.send(invite.json(&json!({"email": "cfo@acme.test", "role": "viewer"}))).await;
    let mallory = BrowserSession::from_response(
        &world.send(sign_up(&token_of_link(&made.body["data"]["url"]), PASSWORD)).await,
    );

    let link = world.invite("cfo@acme.test", "admin").await;
    let me = world.send(mallory.get("/api/v1/me")).await;
    assert!(
        !me.text.contains("acme\""),
        "the account is no member before its holder shows the link: {}",
        me.text
    );
    world.send(mallory.get(MEMBERS)).await.assert_problem(404, "not_found");
    let guess = link.replace(&link[20..24], "AAAA");
    let path = "/api/v1/me/organizations";
    world.send(mallory.post(path).json(&json!({"token": guess}))).await.assert_problem(404, "not_found");
    assert_eq!(world.send(get(MEMBERS).with_account(&world.ada)).await.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn invitation_link_is_void_when_revoked_or_replaced() {
    let world = TestWorld::new().await;
    let replaced = world.invite("grace@acme.test", "viewer").await;
    let link = world.invite("grace@acme.test", "viewer").await;
    world.send(sign_up(&replaced, PASSWORD)).await.assert_problem(404, "not_found");
    let listed = world.send(get(INVITATIONS).with_account(&world.ada)).await;
    assert_eq!(listed.body["pagination"]["total"], 1);
    let path = format!("{INVITATIONS}/{}", listed.body["data"][0]["id"].as_str().unwrap());
    assert_eq!(world.send(get(&path).with_account(&world.ada)).await.body["data"]["role"], "viewer");
    let revoked = world.send(call("DELETE", &path).with_account(&world.ada)).await;
    assert!(revoked.body["data"]["deletedAt"].is_string(), "{}", revoked.text);
    world.send(call("DELETE", &path).with_account(&world.ada)).await.assert_problem(404, "not_found");
    world.send(sign_up(&link, PASSWORD)).await.assert_problem(404, "not_found");
    assert!(world.event_kinds().await.contains(&"invitation_revoked".to_owned()));

    // An invitation becomes invalid when the member who sent it is removed.
    let otto = world.create_member("otto@acme.test", "admin").await;
    let body = json!({"email": "mallory@acme.test", "role": "admin"});
    let made = world.send(post(INVITATIONS).with_account(&otto).json(&body)).await;
    let id = world.send(get("/api/v1/me").with_account(&otto)).await.body["data"]["user"]["id"].clone();
    let otto_path = format!("{MEMBERS}/{}", id.as_str().unwrap());
    assert_eq!(world.send(call("DELETE", &otto_path).with_account(&world.ada)).await.status, 200);
    world
        .send(sign_up(&token_of_link(&made.body["data"]["url"]), PASSWORD))
        .await
        .assert_problem(404, "not_found");
}

#[tokio::test]
async fn invitation_is_limited_to_the_inviters_role_and_a_week() {
    let world = TestWorld::new().await;
    let otto = world.create_member("otto@acme.test", "admin").await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let body = |role: &str| json!({"email": "x@acme.test", "role": role});
    world
        .send(post(INVITATIONS).with_account(&otto).json(&body("owner")))
        .await
        .assert_problem(403, "forbidden");
    world
        .send(post(INVITATIONS).with_account(&vera).json(&body("viewer")))
        .await
        .assert_problem(403, "forbidden");
    world.send(get(INVITATIONS).with_account(&vera)).await.assert_problem(403, "forbidden");
    let link = world.invite("x@acme.test", "viewer").await;
    let hours = |hours: i64| hours * 60 * 60 * 1_000_000;
    let earlier = |by: i64| format!("UPDATE invitations SET expires_at = expires_at - {}", hours(by));
    world.run_sql(&earlier(7 * 24 - 1));
    assert_eq!(world.send(view_invitation(&link)).await.status, 200);
    world.run_sql(&earlier(1));
    world.send(sign_up(&link, PASSWORD)).await.assert_problem(404, "not_found");
    assert_eq!(world.send(get(INVITATIONS).with_account(&world.ada)).await.body["pagination"]["total"], 0);
    berth_server::jobs::sweep(world.app.jobs()).await.unwrap();
}

#[tokio::test]
async fn invalid_invitation_is_refused_with_every_error() {
    let world = TestWorld::new().await;
    let body = json!({"email": "not-an-address", "role": "king", "name": "a\u{0}b"});
    let reply = world.send(post(INVITATIONS).with_account(&world.ada).json(&body)).await;
    reply.assert_problem(400, "invalid_request");
    let pointers: Vec<&Value> =
        reply.body["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/email", "/role", "/name"]);
    world.send(view_invitation("berth_invite_nothing")).await.assert_problem(404, "not_found");
    let (_, ci) = world.create_service_account("ci@acme.test", "admin").await;
    let service = json!({"email": "ci@acme.test", "role": "viewer"});
    world.send(post(INVITATIONS).token(&ci).json(&service)).await.assert_problem(409, "already_exists");
}
