//! A double of the part of GitHub that concerns GitHub Apps: creation from a manifest, installations, and access tokens.
//! It verifies the tokens that the app signs. The formats follow GitHub's API documentation.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use berth_core::time::Timestamp;
use serde_json::{Value, json};

use super::super::fake_forge::{FakeForge, FakeResponse};
use super::{Call, ok};

const APP_ID: i64 = 4_711;
const INSTALLATION_ID: i64 = 99;
/// Length of the header of an RSA key of 2,048 bits in the format PKCS #8; the key in the format PKCS #1 follows.
const PKCS8_HEADER_BYTES: usize = 26;

/// What the double knows.
pub(crate) struct AppModel {
    /// Manifests of apps that were created, by the code that was not exchanged yet.
    pub(crate) manifests: HashMap<String, Value>,
    /// Paths of the repositories for which the app is installed.
    pub(crate) installed: HashSet<String>,
    pub(crate) is_suspended: bool,
    /// Whether the app was deleted, so that its key is not accepted any more.
    pub(crate) is_deleted: bool,
    /// Seconds until new tokens expire.
    pub(crate) token_s: i64,
    pub(crate) now: fn() -> Timestamp,
    /// The response to the exchange of a code, if it is not the usual one.
    pub(crate) conversion: Option<(u16, Value)>,
    tokens: Vec<String>,
    key: KeyPair,
}

pub(crate) struct GitHubAppDouble {
    pub(crate) forge: FakeForge,
    model: Arc<Mutex<AppModel>>,
}

impl GitHubAppDouble {
    pub(crate) const HOOK_SECRET: &'static str = "hook-secret-of-the-app";
    pub(crate) const SLUG: &'static str = "berth-acme";

    pub(crate) fn start(now: fn() -> Timestamp) -> Self {
        let model = Arc::new(Mutex::new(AppModel {
            manifests: HashMap::new(),
            installed: HashSet::new(),
            is_suspended: false,
            is_deleted: false,
            token_s: 60 * 60,
            now,
            conversion: None,
            tokens: Vec::new(),
            key: KeyPair::generate(KeySize::Rsa2048).unwrap(),
        }));
        let shared = model.clone();
        let forge = FakeForge::start_with_headers(move |request| {
            let responded = shared.lock().unwrap().respond(&Call::new(request));
            responded.unwrap_or_else(|| (404, json!({"message": "Not Found"}).to_string()).into())
        });
        Self { forge, model }
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, AppModel> {
        self.model.lock().unwrap()
    }

    /// Creates an app, as after the user has confirmed the form. Returns the code of the redirect.
    pub(crate) fn create_app(&self, manifest: Value) -> String {
        let mut model = self.model();
        let code = format!("code{}", model.manifests.len());
        model.manifests.insert(code.clone(), manifest);
        code
    }

    pub(crate) fn install(&self, path: &str) {
        self.model().installed.insert(path.to_owned());
    }

    pub(crate) fn tokens_made(&self) -> usize {
        self.model().tokens.len()
    }
}

impl AppModel {
    fn respond(&mut self, call: &Call<'_>) -> Option<FakeResponse> {
        let path: Vec<_> = call.path.iter().map(String::as_str).collect();
        match (call.method, path.as_slice()) {
            ("POST", ["app-manifests", code, "conversions"]) => self.convert(code),
            ("GET", ["repos", owner, name, "installation"]) => {
                if let Some(refused) = self.check_app(call) {
                    return Some(refused);
                }
                let path = format!("{owner}/{name}");
                self.installed.get(&path)?;
                let suspended_at = self.is_suspended.then_some("2026-11-18T10:00:00Z");
                ok(
                    200,
                    &json!({"id": INSTALLATION_ID, "app_id": APP_ID, "account": {"login": owner},
                    "repository_selection": "selected", "suspended_at": suspended_at}),
                )
            }
            ("POST", ["app", "installations", "99", "access_tokens"]) => {
                if let Some(refused) = self.check_app(call) {
                    return Some(refused);
                }
                self.mint(call)
            }
            (_, ["repos", ..]) if !self.is_token(call) => ok(401, &json!({"message": "Bad credentials"})),
            ("GET", ["repos", _, _, "pulls"]) => ok(200, &json!([])),
            _ => None,
        }
    }

    fn convert(&mut self, code: &str) -> Option<FakeResponse> {
        let manifest = self.manifests.remove(code)?;
        if let Some((status, body)) = &self.conversion {
            return ok(*status, body);
        }
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&self.key).unwrap();
        let key = STANDARD.encode(&der.as_ref()[PKCS8_HEADER_BYTES..]);
        let lines: Vec<_> =
            key.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let pem =
            format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", lines.join("\n"));
        ok(
            201,
            &json!({"id": APP_ID, "slug": GitHubAppDouble::SLUG, "name": manifest["name"], "pem": pem,
                "webhook_secret": GitHubAppDouble::HOOK_SECRET, "client_id": "Iv1.8a61f9b3a7aba766",
                "client_secret": "unused", "html_url": "https://evil.test/apps/other", "owner": {"login": "acme"}}),
        )
    }

    /// Verifies the token that the app signed.
    fn check_app(&self, call: &Call<'_>) -> Option<FakeResponse> {
        let refused = || ok(401, &json!({"message": "A JSON web token could not be decoded"}));
        let Some(token) = call.authorization.strip_prefix("Bearer ") else { return refused() };
        let Some((signed, signature)) = token.rsplit_once('.') else { return refused() };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return refused() };
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.key.public_key().as_ref());
        let is_signed = public.verify(signed.as_bytes(), &signature).is_ok();
        let parts: Vec<Value> = signed
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        let now = (self.now)().as_micros() / 1_000_000;
        let [issued, expires] = ["iat", "exp"].map(|name| parts[1][name].as_i64().unwrap());
        let is_current = issued <= now && now < expires && expires - issued <= 10 * 60;
        let is_its = parts[0]["alg"] == "RS256" && parts[1]["iss"] == *APP_ID.to_string();
        if is_signed && is_current && is_its && !self.is_deleted { None } else { refused() }
    }

    fn mint(&mut self, call: &Call<'_>) -> Option<FakeResponse> {
        if self.is_suspended {
            return ok(403, &json!({"message": "This installation has been suspended"}));
        }
        let wanted = call.body["repositories"].as_array()?;
        assert_eq!(wanted.len(), 1, "a token is for one repository");
        let token = format!("ghs_{}", self.tokens.len() + 1);
        self.tokens.push(token.clone());
        let expires_at = (self.now)().plus_seconds(self.token_s).to_string();
        ok(201, &json!({"token": token, "expires_at": expires_at, "repository_selection": "selected"}))
    }

    fn is_token(&self, call: &Call<'_>) -> bool {
        let token = call.authorization.strip_prefix("Bearer ").unwrap_or_default();
        self.tokens.iter().any(|made| made == token)
    }
}
