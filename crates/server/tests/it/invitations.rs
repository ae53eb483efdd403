//! Invitations: only the person who is invited can choose the password, and an existing account joins only if its owner
//! agrees.

use serde_json::{Value, json};

use super::world::{Browser, World, call, get, post, token_of_link};

const INVITATIONS: &str = "/api/v1/organizations/acme/invitations";
const MEMBERS: &str = "/api/v1/organizations/acme/members";
const PASSWORD: &str = "a quiet harbour at dawn";

fn sign_up(link: &str, password: &str) -> super::world::Call {
    post("/api/v1/auth/sign-up").json(&json!({"token": link, "password": password}))
}

fn view(link: &str) -> super::world::Call {
    post("/api/v1/auth/invitation").json(&json!({"token": link}))
}

#[tokio::test]
async fn invited_person_chooses_the_password_and_the_link_works_once() {
    let world = World::new().await;
    let body = json!({"email": "Grace@Acme.test", "role": "deployer", "name": "Grace Hopper"});
    let made = world.send(post(INVITATIONS).by(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let url = made.body["data"]["url"].as_str().unwrap();
    assert!(url.starts_with("http://berth.test/invitation#berth_invite_"), "{url}");
    let link = token_of_link(&made.body["data"]["url"]);
    let listed = world.send(get(INVITATIONS).by(&world.ada)).await;
    assert_eq!(listed.body["pagination"]["total"], 1);
    assert!(!listed.text.contains(&link), "the link is shown once");

    let offer = world.send(view(&link)).await.body["data"].clone();
    assert_eq!((&offer["hasAccount"], &offer["organization"]["slug"]), (&json!(false), &json!("acme")));
    assert_eq!((&offer["email"], &offer["role"]), (&json!("Grace@Acme.test"), &json!("deployer")));

    let weak = world.send(sign_up(&link, "short")).await;
    weak.is(400, "invalid_request");
    assert_eq!(weak.body["errors"][0]["pointer"], "/password");
    let browser = Browser::from_reply(&world.send(sign_up(&link, PASSWORD)).await);
    let me = world.send(browser.get("/api/v1/me")).await.body["data"].clone();
    assert_eq!(
        (&me["user"]["name"], &me["user"]["passwordIsGenerated"]),
        (&json!("Grace Hopper"), &json!(false))
    );
    assert_eq!(me["organizations"][0]["role"], "deployer");
    world.sign_in("grace@acme.test", PASSWORD).await;

    for used in [view(&link), sign_up(&link, PASSWORD)] {
        world.send(used).await.is(404, "not_found");
    }
    world.send(post(INVITATIONS).by(&world.ada).json(&body)).await.is(409, "already_exists");
    let kinds = world.kinds().await;
    let about_members: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("member_")).collect();
    assert_eq!(about_members, ["member_added", "member_invited", "member_added"]);
}

#[tokio::test]
async fn account_joins_only_logged_in_and_with_the_link() {
    let world = World::new().await;
    let link = world.invite(&world.hank.email, "viewer").await;
    assert_eq!(world.send(view(&link)).await.body["data"]["hasAccount"], true);
    world.send(sign_up(&link, PASSWORD)).await.is(409, "already_exists");
    let join = |link: &str| json!({"token": link});
    let path = "/api/v1/me/organizations";
    world.send(post(path).json(&join(&link))).await.is(401, "unauthenticated");
    world.send(post(path).by(&world.hank).json(&join(&link))).await.is(409, "invalid_state");
    let ada = world.sign_in(&world.ada.email, &world.ada.password).await;
    world.send(ada.post(path).json(&join(&link))).await.is(403, "forbidden");

    let hank = world.sign_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.get(MEMBERS)).await.is(404, "not_found");
    let joined = world.send(hank.post(path).json(&join(&link))).await;
    assert_eq!(
        (joined.status.as_u16(), &joined.body["data"]["slug"]),
        (201, &json!("acme")),
        "{}",
        joined.text
    );
    assert_eq!(world.send(hank.get(MEMBERS)).await.status, 200);
    // Hank's token for globex still gives access to globex only.
    world.send(get(MEMBERS).by(&world.hank)).await.is(404, "not_found");
    world.send(hank.post(path).json(&join(&link))).await.is(404, "not_found");
}

/// An admin who invites an address and opens the link himself controls an account with that address. If another
/// organization later invites the same address, this account must not get access to it.
#[tokio::test]
async fn account_created_by_a_foreign_admin_gets_no_access() {
    let world = World::new().await;
    let invite = post("/api/v1/organizations/globex/invitations").by(&world.hank);
    let made = world.send(invite.json(&json!({"email": "cfo@acme.test", "role": "viewer"}))).await;
    let mallory =
        Browser::from_reply(&world.send(sign_up(&token_of_link(&made.body["data"]["url"]), PASSWORD)).await);

    let link = world.invite("cfo@acme.test", "admin").await;
    let me = world.send(mallory.get("/api/v1/me")).await;
    assert!(
        !me.text.contains("acme\""),
        "the account is no member before its holder shows the link: {}",
        me.text
    );
    world.send(mallory.get(MEMBERS)).await.is(404, "not_found");
    let guess = link.replace(&link[20..24], "AAAA");
    let path = "/api/v1/me/organizations";
    world.send(mallory.post(path).json(&json!({"token": guess}))).await.is(404, "not_found");
    assert_eq!(world.send(get(MEMBERS).by(&world.ada)).await.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn invitation_link_is_void_when_revoked_or_replaced() {
    let world = World::new().await;
    let replaced = world.invite("grace@acme.test", "viewer").await;
    let link = world.invite("grace@acme.test", "viewer").await;
    world.send(sign_up(&replaced, PASSWORD)).await.is(404, "not_found");
    let listed = world.send(get(INVITATIONS).by(&world.ada)).await;
    assert_eq!(listed.body["pagination"]["total"], 1);
    let path = format!("{INVITATIONS}/{}", listed.body["data"][0]["id"].as_str().unwrap());
    assert_eq!(world.send(get(&path).by(&world.ada)).await.body["data"]["role"], "viewer");
    let revoked = world.send(call("DELETE", &path).by(&world.ada)).await;
    assert!(revoked.body["data"]["deletedAt"].is_string(), "{}", revoked.text);
    world.send(call("DELETE", &path).by(&world.ada)).await.is(404, "not_found");
    world.send(sign_up(&link, PASSWORD)).await.is(404, "not_found");
    assert!(world.kinds().await.contains(&"invitation_revoked".to_owned()));

    // An invitation becomes invalid when the member who sent it is removed.
    let otto = world.member("otto@acme.test", "admin").await;
    let body = json!({"email": "mallory@acme.test", "role": "admin"});
    let made = world.send(post(INVITATIONS).by(&otto).json(&body)).await;
    let id = world.send(get("/api/v1/me").by(&otto)).await.body["data"]["user"]["id"].clone();
    let otto_path = format!("{MEMBERS}/{}", id.as_str().unwrap());
    assert_eq!(world.send(call("DELETE", &otto_path).by(&world.ada)).await.status, 200);
    world.send(sign_up(&token_of_link(&made.body["data"]["url"]), PASSWORD)).await.is(404, "not_found");
}

#[tokio::test]
async fn invitation_is_limited_to_the_inviters_role_and_a_week() {
    let world = World::new().await;
    let otto = world.member("otto@acme.test", "admin").await;
    let vera = world.member("vera@acme.test", "viewer").await;
    let body = |role: &str| json!({"email": "x@acme.test", "role": role});
    world.send(post(INVITATIONS).by(&otto).json(&body("owner"))).await.is(403, "forbidden");
    world.send(post(INVITATIONS).by(&vera).json(&body("viewer"))).await.is(403, "forbidden");
    world.send(get(INVITATIONS).by(&vera)).await.is(403, "forbidden");
    let link = world.invite("x@acme.test", "viewer").await;
    let hours = |hours: i64| hours * 60 * 60 * 1_000_000;
    let earlier = |by: i64| format!("UPDATE invitations SET expires_at = expires_at - {}", hours(by));
    world.sql(&earlier(7 * 24 - 1));
    assert_eq!(world.send(view(&link)).await.status, 200);
    world.sql(&earlier(1));
    world.send(sign_up(&link, PASSWORD)).await.is(404, "not_found");
    assert_eq!(world.send(get(INVITATIONS).by(&world.ada)).await.body["pagination"]["total"], 0);
    berth_server::jobs::sweep(world.app.jobs()).await.unwrap();
}

#[tokio::test]
async fn invalid_invitation_is_refused_with_every_error() {
    let world = World::new().await;
    let body = json!({"email": "nobody", "role": "king", "name": "a\u{0}b"});
    let reply = world.send(post(INVITATIONS).by(&world.ada).json(&body)).await;
    reply.is(400, "invalid_request");
    let pointers: Vec<&Value> =
        reply.body["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/email", "/role", "/name"]);
    world.send(view("berth_invite_nothing")).await.is(404, "not_found");
    let (_, ci) = world.service("ci@acme.test", "admin").await;
    let service = json!({"email": "ci@acme.test", "role": "viewer"});
    world.send(post(INVITATIONS).token(&ci).json(&service)).await.is(409, "already_exists");
}
