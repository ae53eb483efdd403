//! Logging out at the provider that a login came from.

use berth_core::id::SignInId;
use berth_engine::vault::ProviderTokenKind;
use berth_store::tables::provider_login;

use super::{App, ask_provider};
use crate::error::AppError;

impl App {
    /// Returns the URL that logs the browser out at the provider. `None` if the login came from none, or the provider
    /// cannot do that or does not respond: logging out here must work in any case.
    pub(in crate::app) async fn provider_logout_url(&self, id: SignInId) -> Option<String> {
        match self.find_logout_url(id).await {
            Ok(url) => url,
            Err(error) => {
                tracing::warn!(?error, "no URL to log out at the identity provider");
                None
            }
        }
    }

    async fn find_logout_url(&self, id: SignInId) -> Result<Option<String>, AppError> {
        let read =
            self.services.store.read(None, move |db| Ok::<_, AppError>(provider_login::by_sign_in(db, id)?));
        let Some(login) = read.await? else { return Ok(None) };
        let provider = self.find_provider(&login.provider)?;
        let vault = self.services.vault.clone();
        let token = self.services.store.read(Some(login.org), move |db| {
            let token =
                vault.open_provider_token(db, login.org, ProviderTokenKind::Id, id, &login.id_token)?;
            Ok::<_, AppError>(token)
        });
        let token = token.await?;
        let return_to = format!("{}/sign-in", self.config.base_url());
        ask_provider(&provider, move |it| it.logout_url(&token, return_to)).await
    }
}
