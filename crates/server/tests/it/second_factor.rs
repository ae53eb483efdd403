//! Second factor of password accounts: set-up, login, recovery codes, rate limit and reset.

use berth_core::name::Email;
use berth_core::time::Timestamp;
use berth_server::app::{issue_reset_link, reset_second_factor};
use berth_server::auth::totp;
use berth_store::TxContext;
use data_encoding::BASE32_NOPAD;
use serde_json::{Value, json};

use super::world::{BrowserSession, MemberAccount, TestRequest, TestResponse, TestWorld, call, get, post};

const FACTOR: &str = "/api/v1/me/second-factor";
const MEMBERS: &str = "/api/v1/organizations/acme/members";

/// An authenticator app.
pub(crate) struct Authenticator {
    secret: Vec<u8>,
    pub(crate) recovery_codes: Vec<String>,
}

impl Authenticator {
    /// Sets up a second factor for the account of this browser.
    pub(crate) async fn enrol(world: &TestWorld, browser: &BrowserSession) -> Self {
        let begun = world.send(browser.post(FACTOR)).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        let secret = begun.body["data"]["secret"].as_str().unwrap();
        let uri = begun.body["data"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("otpauth://totp/Berth:") && uri.contains(secret), "{uri}");
        let mut app =
            Self { secret: BASE32_NOPAD.decode(secret.as_bytes()).unwrap(), recovery_codes: Vec::new() };
        let code = json!({"code": app.code(0).await});
        let confirmed = world.send(browser.post(&format!("{FACTOR}/confirm")).json(&code)).await;
        assert_eq!(confirmed.status, 200, "{}", confirmed.text);
        app.recovery_codes = recovery_codes(&confirmed);
        app
    }

    /// The code of the time step that is `steps` after the current one. Waits if the current step is about to end.
    pub(crate) async fn code(&self, steps: i64) -> String {
        loop {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            if now.as_secs() % 30 < 25 {
                let now = Timestamp::from_micros(i64::try_from(now.as_micros()).unwrap());
                return totp::code_of_step(&self.secret, totp::step_at(now) + steps);
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

/// Makes the codes of all time steps usable again, as if time had passed.
pub(crate) fn forget_used_codes(world: &TestWorld) {
    world.run_sql("UPDATE second_factors SET last_step = 0");
}

fn recovery_codes(reply: &TestResponse) -> Vec<String> {
    let codes = reply.body["data"]["recoveryCodes"].as_array().unwrap();
    codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn log_in(who: &MemberAccount, code: Option<&str>) -> TestRequest {
    let mut body = json!({"email": who.email, "password": who.password});
    if let Some(code) = code {
        body["code"] = json!(code);
    }
    post("/api/v1/auth/login").json(&body)
}

async fn state(world: &TestWorld, browser: &BrowserSession) -> Value {
    world.send(browser.get("/api/v1/me")).await.body["data"]["secondFactor"].clone()
}

#[tokio::test]
async fn second_factor_is_required_at_login_once_confirmed() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    assert_eq!(
        state(&world, &ada).await,
        json!({"status": "disabled", "enabledAt": null, "recoveryCodesLeft": 0})
    );
    assert_eq!(world.send(ada.post(FACTOR)).await.status, 200);
    world.log_in(&world.ada.email, &world.ada.password).await;
    let wrong = json!({"code": "000000"});
    let refused = world.send(ada.post(&format!("{FACTOR}/confirm")).json(&wrong)).await;
    refused.assert_problem(400, "invalid_request");
    world.log_in(&world.ada.email, &world.ada.password).await;

    let app = Authenticator::enrol(&world, &ada).await;
    let found = state(&world, &ada).await;
    assert_eq!((&found["status"], &found["recoveryCodesLeft"]), (&json!("enabled"), &json!(10)));
    world.send(log_in(&world.ada, None)).await.assert_problem(403, "second_factor_code_required");
    world.send(log_in(&world.ada, Some("000000"))).await.assert_problem(401, "unauthenticated");
    let wrong = MemberAccount { password: "not the password at all".to_owned(), ..world.ada.clone() };
    world.send(log_in(&wrong, None)).await.assert_problem(401, "unauthenticated");
    world.send(log_in(&wrong, Some(&app.code(1).await))).await.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(log_in(&world.ada, Some(&app.code(1).await))).await.status, 200);
    world.send(ada.post(FACTOR)).await.assert_problem(409, "invalid_state");
    let kinds = world.event_kinds().await;
    assert!(kinds.contains(&"second_factor_enabled".to_owned()), "{kinds:?}");
}

#[tokio::test]
async fn code_works_once_and_within_one_step_of_skew() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    // The code that confirmed the set-up is used up.
    world.send(log_in(&world.ada, Some(&app.code(0).await))).await.assert_problem(401, "unauthenticated");
    for (steps, is_valid) in [(-2, false), (-1, true), (0, true), (1, true), (3, false)] {
        forget_used_codes(&world);
        let code = app.code(steps).await;
        let status = if is_valid { 200 } else { 401 };
        assert_eq!(world.send(log_in(&world.ada, Some(&code))).await.status, status, "{steps} steps");
        assert_eq!(world.send(log_in(&world.ada, Some(&code))).await.status, 401, "{steps} steps, again");
    }
    forget_used_codes(&world);
    assert_eq!(world.send(log_in(&world.ada, Some(&app.code(1).await))).await.status, 200);
    let earlier = world.send(log_in(&world.ada, Some(&app.code(0).await))).await;
    earlier.assert_problem(401, "unauthenticated");
    world.run_sql("UPDATE second_factors SET last_step = 0; DELETE FROM sign_in_failures");
    let code = app.code(0).await;
    let tries = (0..6).map(|_| world.send(log_in(&world.ada, Some(&code))));
    let replies = futures_util::future::join_all(tries).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1, "concurrent use");
}

#[tokio::test]
async fn recovery_code_works_once_and_can_be_replaced() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    assert_eq!(app.recovery_codes.len(), 10);
    let first = app.recovery_codes[0].to_uppercase();
    assert_eq!(world.send(log_in(&world.ada, Some(&first))).await.status, 200);
    world.send(log_in(&world.ada, Some(&first))).await.assert_problem(401, "unauthenticated");
    assert_eq!(state(&world, &ada).await["recoveryCodesLeft"], 9);
    let kinds = world.event_kinds().await;
    assert!(kinds.contains(&"recovery_code_used".to_owned()), "{kinds:?}");

    let replace = || ada.post(&format!("{FACTOR}/recovery-codes"));
    let replaced = recovery_codes(&world.send(replace()).await);
    assert_eq!(state(&world, &ada).await["recoveryCodesLeft"], 10);
    let old = world.send(log_in(&world.ada, Some(&app.recovery_codes[1]))).await;
    old.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(log_in(&world.ada, Some(&replaced[1]))).await.status, 200);
    // A code of one account is worth nothing for another.
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    Authenticator::enrol(&world, &hank).await;
    world.send(log_in(&world.hank, Some(&replaced[2]))).await.assert_problem(401, "unauthenticated");
    world.run_sql("UPDATE sign_ins SET confirmed_at = 1");
    world.send(replace()).await.assert_problem(403, "reauthentication_required");
}

#[tokio::test]
async fn code_guesses_are_rate_limited_across_networks() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    let known = world.send(log_in(&world.ada, Some(&app.recovery_codes[0]))).await;
    let mut cookies = known.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap());
    let known = cookies.find(|it| it.starts_with("berth_local-browser=")).unwrap();
    let known = known.split(';').next().unwrap().to_owned();
    for network in 0..10 {
        let wrong = log_in(&world.ada, Some("000000"));
        world.send_from(wrong, [203, 0, network, 7].into()).await.assert_problem(401, "unauthenticated");
    }
    let right = || log_in(&world.ada, Some(&app.recovery_codes[1]));
    world.send_from(right(), [203, 0, 113, 7].into()).await.assert_problem(429, "rate_limited");
    // A browser in which the account has logged in before is not locked out.
    assert_eq!(world.send(right().header("cookie", &known)).await.status, 200);
}

#[tokio::test]
async fn correct_password_without_code_is_no_failure() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    for _ in 0..12 {
        world.send(log_in(&world.ada, None)).await.assert_problem(403, "second_factor_code_required");
    }
    assert_eq!(world.send(log_in(&world.ada, Some(&app.recovery_codes[0]))).await.status, 200);
}

#[tokio::test]
async fn reauthentication_and_password_change_need_a_code() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    let password = world.ada.password.as_str();
    let confirm = |body: &Value| ada.post("/api/v1/auth/confirm").json(body);
    let refused = world.send(confirm(&json!({"password": password}))).await;
    refused.assert_problem(403, "second_factor_code_required");
    let wrong = world.send(confirm(&json!({"password": password, "code": "000000"}))).await;
    wrong.assert_problem(400, "invalid_request");
    assert_eq!(wrong.body["errors"][0]["pointer"], "/code");
    let code = app.code(1).await;
    assert_eq!(world.send(confirm(&json!({"password": password, "code": code}))).await.status, 200);

    let change = |code: Option<&str>| {
        let body =
            json!({"currentPassword": password, "newPassword": "a quiet harbour at dawn", "code": code});
        ada.post("/api/v1/me/password").json(&body)
    };
    world.send(change(None)).await.assert_problem(403, "second_factor_code_required");
    world.send(change(Some(&code))).await.assert_problem(400, "invalid_request");
    assert_eq!(world.send(change(Some(&app.recovery_codes[0]))).await.status, 200);
}

#[tokio::test]
async fn second_factor_change_needs_browser_and_recent_confirmation() {
    let world = TestWorld::new().await;
    let token = |path: &str| post(path).with_account(&world.ada);
    world.send(token(FACTOR)).await.assert_problem(409, "invalid_state");
    let codes = format!("{FACTOR}/recovery-codes");
    world.send(token(&codes)).await.assert_problem(409, "invalid_state");
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    world.send(ada.post(&codes)).await.assert_problem(409, "invalid_state");
    let confirm = || ada.post(&format!("{FACTOR}/confirm")).json(&json!({"code": "000000"}));
    world.send(confirm()).await.assert_problem(409, "invalid_state");
    world.run_sql("UPDATE sign_ins SET confirmed_at = 1");
    world.send(ada.post(FACTOR)).await.assert_problem(403, "reauthentication_required");
    world.send(confirm()).await.assert_problem(403, "reauthentication_required");
}

#[tokio::test]
async fn set_up_that_is_not_confirmed_in_time_is_over() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let begun = world.send(ada.post(FACTOR)).await;
    let secret = begun.body["data"]["secret"].as_str().unwrap();
    let app =
        Authenticator { secret: BASE32_NOPAD.decode(secret.as_bytes()).unwrap(), recovery_codes: vec![] };
    world.run_sql("UPDATE second_factors SET created_at = 1");
    let code = json!({"code": app.code(0).await});
    let late = world.send(ada.post(&format!("{FACTOR}/confirm")).json(&code)).await;
    late.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn second_factor_is_switched_off_with_password_and_code() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    let disable = |password: &str, code: &str| {
        let body = json!({"password": password, "code": code});
        ada.post(&format!("{FACTOR}/disable")).json(&body)
    };
    let code = app.code(1).await;
    world.send(disable("wrong", &code)).await.assert_problem(400, "invalid_request");
    world.send(disable(&world.ada.password, "000000")).await.assert_problem(400, "invalid_request");
    let done = world.send(disable(&world.ada.password, &code)).await;
    assert_eq!(done.body["data"]["secondFactor"]["status"], "disabled", "{}", done.text);
    world.log_in(&world.ada.email, &world.ada.password).await;
    world.send(disable(&world.ada.password, &code)).await.assert_problem(409, "invalid_state");
    let kinds = world.event_kinds().await;
    assert!(kinds.contains(&"second_factor_disabled".to_owned()), "{kinds:?}");
}

#[tokio::test]
async fn password_reset_keeps_the_second_factor() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    let email = Email::parse(&world.ada.email).unwrap();
    let issued = world.app.store().transact(TxContext::system(None), move |tx| issue_reset_link(tx, &email));
    let link = issued.await.unwrap().token.reveal().to_owned();
    let body = json!({"token": link, "newPassword": "a lighthouse on the cape"});
    assert_eq!(world.send(post("/api/v1/auth/reset-password").json(&body)).await.status, 200);
    let ada = MemberAccount { password: "a lighthouse on the cape".to_owned(), ..world.ada.clone() };
    world.send(log_in(&ada, None)).await.assert_problem(403, "second_factor_code_required");
    assert_eq!(world.send(log_in(&ada, Some(&app.code(1).await))).await.status, 200);
}

#[tokio::test]
async fn lost_second_factor_is_reset_by_an_admin_or_the_operator() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    Authenticator::enrol(&world, &browser).await;
    let me = world.send(browser.get("/api/v1/me")).await;
    let grace_path = format!("{MEMBERS}/{}", me.body["data"]["user"]["id"].as_str().unwrap());
    let reset =
        |who: &MemberAccount| call("DELETE", &format!("{grace_path}/second-factor")).with_account(who);
    let member = world.send(get(&grace_path).with_account(&world.ada)).await;
    assert_eq!(member.body["data"]["hasSecondFactor"], true, "{}", member.text);
    world.send(reset(&vera)).await.assert_problem(403, "forbidden");
    world.send(reset(&grace)).await.assert_problem(403, "forbidden");
    world.send(reset(&world.hank)).await.assert_problem(404, "not_found");
    let done = world.send(reset(&world.ada)).await;
    assert_eq!(done.body["data"]["hasSecondFactor"], false, "{}", done.text);
    assert_ne!(done.header("etag"), member.header("etag"));
    world.send(reset(&world.ada)).await.assert_problem(409, "invalid_state");
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("second_factor_reset"));
    world.log_in(&grace.email, &grace.password).await;

    Authenticator::enrol(&world, &browser).await;
    let email = Email::parse(&grace.email).unwrap();
    let operator = || {
        let email = email.clone();
        world.app.store().transact(TxContext::system(None), move |tx| reset_second_factor(tx, &email))
    };
    operator().await.unwrap();
    assert!(operator().await.is_err(), "there is none any more");
    world.log_in(&grace.email, &grace.password).await;
}

#[tokio::test]
async fn second_factor_is_reset_only_in_the_organization_that_created_the_account() {
    let world = TestWorld::new().await;
    let link = world.invite(&world.hank.email, "viewer").await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.post("/api/v1/me/organizations").json(&json!({"token": link}))).await;
    Authenticator::enrol(&world, &hank).await;
    let me = world.send(hank.get("/api/v1/me")).await;
    let path = format!("{MEMBERS}/{}/second-factor", me.body["data"]["user"]["id"].as_str().unwrap());
    world.send(call("DELETE", &path).with_account(&world.ada)).await.assert_problem(409, "invalid_state");
    assert_eq!(state(&world, &hank).await["status"], "enabled");
}

#[tokio::test]
async fn wrong_codes_are_limited_per_day_across_logins() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let app = Authenticator::enrol(&world, &ada).await;
    let guess = async |count: u8| {
        for number in 0..count {
            // The limits per minute and per network expire between the attempts.
            world.run_sql("DELETE FROM sign_in_failures WHERE subject NOT LIKE 'day:%'");
            let wrong = log_in(&world.ada, Some("000000"));
            let reply = world.send_from(wrong, [203, 0, number, 7].into()).await;
            reply.assert_problem(401, "unauthenticated");
        }
    };
    let move_back = |seconds: i64| {
        let micros = seconds * 1_000_000;
        world.run_sql(&format!(
            "UPDATE sign_in_failures SET window_started_at = window_started_at - {micros}"
        ));
    };
    guess(30).await;
    // A successful login, the removal of old counters and a password without a code reset nothing.
    assert_eq!(world.send(log_in(&world.ada, Some(&app.recovery_codes[0]))).await.status, 200);
    world.send(log_in(&world.ada, None)).await.assert_problem(403, "second_factor_code_required");
    move_back(2 * 60 * 60);
    berth_server::jobs::sweep(world.app.jobs()).await.unwrap();
    guess(20).await;
    world.run_sql("DELETE FROM sign_in_failures WHERE subject NOT LIKE 'day:%'");
    let right = || log_in(&world.ada, Some(&app.recovery_codes[1]));
    let refused = world.send(right()).await;
    refused.assert_problem(429, "rate_limited");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("too many wrong codes within a day"), "{detail}");
    // Other accounts are not affected, and the limit ends after a day.
    world.log_in(&world.hank.email, &world.hank.password).await;
    move_back(22 * 60 * 60);
    assert_eq!(world.send(right()).await.status, 200);
}
