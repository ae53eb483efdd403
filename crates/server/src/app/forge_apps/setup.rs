//! Creation of a GitHub App in the browser of an admin.
//!
//! The browser posts a manifest to the forge, which redirects it back with a code and the state. The state works once,
//! for a limited time, and only in the browser login that started the setup. So the code of another person is never
//! exchanged, and a page of another site cannot connect the organization with its app.

use berth_api::forge_app as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::forge::{ForgeApp, ForgeAppSetup};
use berth_core::id::{ForgeAppId, HookId, SignInId};
use berth_core::repository::Repository;
use berth_engine::credential::random_base62;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::forge_app::SealedAppSecrets;
use berth_store::tables::{forge_app, forge_app_setup};
use serde_json::Value;

use super::super::forge_connections::check_unconnected;
use super::{ApiResponse, App, IdempotentResponse, app_event, repository_page, to_wire};
use crate::auth::authorize::{self, AuthMethod, AuthorizedCaller, Principal};
use crate::auth::tokens::hash_token;
use crate::error::AppError;
use crate::integrations::forges::{AppForge, ConvertedApp, app_manifest, convert_manifest, run_on_thread};
use crate::limits::APP_SETUP_S_MAX;

/// 256 bits.
const STATE_CHARS: usize = 43;
/// Maximum length of the code that the forge returns. GitHub's have 40 characters.
const CODE_BYTES_MAX: usize = 200;

/// The form that sends a manifest to the forge.
pub(crate) struct ManifestForm {
    /// URL to post the form to, with the state.
    pub(crate) action: String,
    /// Scheme, host and port of the forge.
    pub(crate) origin: String,
    pub(crate) manifest: Value,
}

impl App {
    /// Returns the page where the caller creates an app. Callers with a token get the page of the dashboard from which
    /// the setup is started.
    pub(super) async fn start_app_setup(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        repository: Repository,
        at: AppForge,
        is_personal: bool,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::AppConnection>, AppError> {
        let (base, org) = (self.config.base_url(), who.org());
        let login = match who.principal().via {
            AuthMethod::SignIn { id } => Ok(id),
            AuthMethod::Token { .. } => Err(repository_page(&base, who.org_slug().as_str(), &repository)),
        };
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_unconnected(tx, &repository)?;
            let url = match login {
                Err(page) => page,
                Ok(login) => {
                    let state = random_base62(STATE_CHARS);
                    let setup = ForgeAppSetup {
                        repository: repository.id,
                        hook: HookId::from_parts(tx.now(), tx.entropy()?),
                        form_url: at.form_url(is_personal),
                        origin: at.origin,
                        api: at.api,
                        expires_at: tx.now().plus_seconds(APP_SETUP_S_MAX),
                    };
                    forge_app_setup::put(tx, login, &hash_token(&state), &setup)?;
                    format!("{base}/api/v1/organizations/{org}/forge-apps/form?state={state}")
                }
            };
            Ok(ApiResponse::ok(wire::AppConnection {
                status: wire::AppConnectionStatus::AppRequired,
                url: Some(url),
                connection: None,
            }))
        })
        .await
    }

    /// Returns the form that sends the manifest of a setup to the forge.
    pub(crate) async fn view_manifest_form(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        state: String,
    ) -> Result<ManifestForm, AppError> {
        let login = browser_login(who.principal())?;
        let hash = hash_token(&state);
        let found = self.read(who, move |db| Ok(forge_app_setup::by_state(db, login, &hash)?));
        let setup = found.await?.ok_or_else(unknown_state_error)?;
        let manifest = app_manifest(&self.config.base_url(), who.org_slug().as_str(), setup.hook);
        // The state consists of letters and digits, because its hash was found.
        let action = format!("{}?state={state}", setup.form_url);
        Ok(ManifestForm { action, origin: setup.origin, manifest })
    }

    /// Exchanges the code with which the forge redirected the browser for the app that it created.
    pub async fn create_forge_app(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        new: wire::ForgeAppNew,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::CreatedForgeApp>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let login = browser_login(who.principal())?;
        let wire::ForgeAppNew { state, code } = new;
        let is_code =
            (1..=CODE_BYTES_MAX).contains(&code.len()) && code.bytes().all(|c| c.is_ascii_graphic());
        if !is_code {
            return Err(AppError::invalid_member("/code", "must be the code from the URL of the redirect"));
        }
        let setup = self.take_setup(who, login, hash_token(&state)).await?;
        let converted = self.convert(who, &setup, code).await?;
        let (vault, org) = (self.services.vault.clone(), who.org());
        self.change(who, once, move |tx, _| {
            if let Some(other) = forge_app::by_origin(tx, &setup.origin)? {
                let text = format!(
                    "the organization already has the GitHub App {} on this forge; delete {} there",
                    other.name, converted.name
                );
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            let now = tx.now();
            let app = ForgeApp {
                id: ForgeAppId::from_parts(now, tx.entropy()?),
                origin: setup.origin,
                api: setup.api,
                hook: setup.hook,
                forge_app: converted.forge_app,
                slug: converted.slug,
                name: converted.name,
                installed_at: None,
                installation_changed_at: now,
                created_at: now,
            };
            let private_key = vault.seal_app_key(tx, app.id, &converted.private_key)?;
            let hook_secret = vault.seal_hook_secret(tx, app.hook, &converted.hook_secret)?;
            let secrets = SealedAppSecrets {
                key: private_key.key,
                private_key: private_key.bytes,
                hook_secret: hook_secret.bytes,
            };
            forge_app::insert(tx, &app, &secrets)?;
            tx.record(app_event(EventKind::ForgeAppCreated, &app))?;
            let location = format!("/api/v1/organizations/{org}/forge-apps/{}", app.id);
            let body = wire::CreatedForgeApp {
                app: to_wire(tx, &app)?,
                repository_id: setup.repository.to_string(),
            };
            Ok(ApiResponse::created(location, body))
        })
        .await
    }

    /// Uses up a setup, before its code is exchanged: whatever the forge responds, the state does not work again.
    async fn take_setup(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        login: SignInId,
        hash: Vec<u8>,
    ) -> Result<ForgeAppSetup, AppError> {
        let principal = who.principal().clone();
        let taken = self.services.store.transact(who.context(), move |tx| {
            // Checked first, so that the caller can confirm the password and try again.
            authorize::load_current_access(tx, &principal)?.check_confirmed(tx.now())?;
            Ok::<_, AppError>(forge_app_setup::take(tx, login, &hash)?)
        });
        taken.await?.ok_or_else(unknown_state_error)
    }

    async fn convert(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        setup: &ForgeAppSetup,
        code: String,
    ) -> Result<ConvertedApp, AppError> {
        let (egress, api) = (self.services.egress.clone(), setup.api.clone());
        let pass = self.enter_forge_call(who.org())?;
        let converted = run_on_thread(move || {
            let converted = convert_manifest(&egress, &api, &code);
            drop(pass);
            converted
        });
        converted.await?.map_err(|why| {
            let text =
                format!("the GitHub App could not be taken over: {why}; delete it there and start again");
            AppError::new(Code::InvalidState, text)
        })
    }
}

fn browser_login(who: &Principal) -> Result<SignInId, AppError> {
    match who.via {
        AuthMethod::SignIn { id } => Ok(id),
        AuthMethod::Token { .. } => {
            let text = "a GitHub App is created in a browser; log in to the dashboard";
            Err(AppError::new(Code::InvalidState, text))
        }
    }
}

fn unknown_state_error() -> AppError {
    let text = "this setup was started in another browser or by another person, was used, or began more than 30 minutes \
                ago; start again from the page of the repository";
    AppError::new(Code::InvalidState, text)
}
