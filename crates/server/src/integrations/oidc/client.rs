//! Requests of the authorization code flow, refresh and logout.

use std::time::Duration;

use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, Client, ClientId, ClientSecret, CsrfToken,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdToken, IdTokenClaims,
    IdTokenFields, LogoutRequest, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    PostLogoutRedirectUrl, ProviderMetadataWithLogout, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    SignatureVerificationError, StandardErrorResponse, StandardTokenResponse, SubjectIdentifier,
    TokenResponse as _, UserInfoClaims,
};

use super::ProviderError;
use super::claims::{self, ProviderClaims, TokenExpectations, VerifiedAccount};
use super::discovery::{OidcProvider, check_web_url};
use super::http_client::ProviderHttpError;

pub(super) type ProviderIdToken =
    IdToken<ProviderClaims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;
type ProviderIdTokenFields = IdTokenFields<
    ProviderClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type ProviderTokens = StandardTokenResponse<ProviderIdTokenFields, CoreTokenType>;
type ProviderErrorResponse = StandardErrorResponse<CoreErrorResponseType>;
type ProviderClient = Client<
    ProviderClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    ProviderErrorResponse,
    ProviderTokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A request that sends the browser to the provider.
pub(crate) struct AuthorizationRequest {
    pub(crate) redirect_url: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) pkce_verifier: String,
    /// Whether the person must log in again, even if the provider has a session for the browser.
    pub(crate) must_authenticate: bool,
}

/// An authorization code with which the browser came back.
pub(crate) struct CodeExchange {
    pub(crate) redirect_url: String,
    pub(crate) code: String,
    pub(crate) nonce: String,
    pub(crate) pkce_verifier: String,
    pub(crate) now: Timestamp,
}

impl OidcProvider {
    /// Returns the URL at which the person logs in.
    pub(crate) fn authorization_url(&self, request: &AuthorizationRequest) -> Result<String, ProviderError> {
        let metadata = self.metadata()?;
        let client = self.client(&metadata, &request.redirect_url)?;
        let verifier = PkceCodeVerifier::new(request.pkce_verifier.clone());
        let (state, nonce) = (request.state.clone(), request.nonce.clone());
        let mut asked = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new(state),
                || Nonce::new(nonce),
            )
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        // The client adds the scope `openid` itself.
        for scope in self.config.scopes.iter().filter(|scope| *scope != "openid") {
            asked = asked.add_scope(Scope::new(scope.clone()));
        }
        if request.must_authenticate {
            asked = asked.add_prompt(CoreAuthPrompt::Login).set_max_age(Duration::ZERO);
        }
        let (url, ..) = asked.url();
        check_web_url(&url)?;
        Ok(url.into())
    }

    /// Exchanges the code for tokens and verifies the ID token.
    pub(crate) fn exchange_code(&self, exchange: CodeExchange) -> Result<VerifiedAccount, ProviderError> {
        let metadata = self.metadata()?;
        let client = self.client(&metadata, &exchange.redirect_url)?;
        let request = client.exchange_code(AuthorizationCode::new(exchange.code)).map_err(no_endpoint)?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(exchange.pkce_verifier));
        let tokens = request.request(&self.http()).map_err(describe_error)?;
        if tokens.id_token().is_none() {
            return Err(ProviderError::Invalid("it contains no ID token".to_owned()));
        }
        self.read_tokens(&metadata, &client, &tokens, Some(&exchange.nonce), None, exchange.now)
    }

    /// Asks the provider whether an account is still valid.
    pub(crate) fn refresh(
        &self,
        token: &RedactedString,
        subject: &str,
        now: Timestamp,
    ) -> Result<VerifiedAccount, ProviderError> {
        let metadata = self.metadata()?;
        let client = self.client(&metadata, &self.config.issuer)?;
        let token = RefreshToken::new(token.reveal().to_owned());
        let request = client.exchange_refresh_token(&token).map_err(no_endpoint)?;
        let tokens = request.request(&self.http()).map_err(describe_error)?;
        self.read_tokens(&metadata, &client, &tokens, None, Some(subject), now)
    }

    /// Returns the URL that logs the person out at the provider. `None` if the provider has no such endpoint.
    pub(crate) fn logout_url(
        &self,
        id_token: &RedactedString,
        return_to: String,
    ) -> Result<Option<String>, ProviderError> {
        let metadata = self.metadata()?;
        let Some(endpoint) = metadata.additional_metadata().end_session_endpoint.clone() else {
            return Ok(None);
        };
        check_web_url(endpoint.url())?;
        let invalid = |_| ProviderError::Invalid("the ID token cannot be parsed".to_owned());
        let hint: ProviderIdToken = id_token.reveal().parse().map_err(invalid)?;
        let return_to = PostLogoutRedirectUrl::new(return_to)
            .map_err(|_| ProviderError::Misconfigured("public_url is not a URL".to_owned()))?;
        let request = LogoutRequest::from(endpoint)
            .set_id_token_hint(&hint)
            .set_client_id(ClientId::new(self.config.client_id.clone()))
            .set_post_logout_redirect_uri(return_to);
        Ok(Some(request.http_get_url().into()))
    }

    fn client(
        &self,
        metadata: &ProviderMetadataWithLogout,
        redirect_url: &str,
    ) -> Result<ProviderClient, ProviderError> {
        let redirect = RedirectUrl::new(redirect_url.to_owned())
            .map_err(|_| ProviderError::Misconfigured("public_url is not a URL".to_owned()))?;
        let secret = self.config.client_secret.as_ref().map(|it| ClientSecret::new(it.reveal().to_owned()));
        let id = ClientId::new(self.config.client_id.clone());
        let methods = metadata.token_endpoint_auth_methods_supported();
        let has = |wanted| methods.is_some_and(|methods| methods.contains(&wanted));
        let posts_secret =
            has(CoreClientAuthMethod::ClientSecretPost) && !has(CoreClientAuthMethod::ClientSecretBasic);
        let auth = if posts_secret { AuthType::RequestBody } else { AuthType::BasicAuth };
        let client = ProviderClient::from_provider_metadata(metadata.clone(), id, secret);
        Ok(client.set_redirect_uri(redirect).set_auth_type(auth))
    }

    fn read_tokens(
        &self,
        metadata: &ProviderMetadataWithLogout,
        client: &ProviderClient,
        tokens: &ProviderTokens,
        nonce: Option<&str>,
        subject: Option<&str>,
        now: Timestamp,
    ) -> Result<VerifiedAccount, ProviderError> {
        let claims = match tokens.id_token() {
            Some(token) => Some(self.verify(metadata, token, nonce, now)?),
            None => None,
        };
        let found = claims.as_ref().map(|claims| claims.subject().as_str().to_owned());
        let subject = match (found, subject) {
            (Some(found), Some(wanted)) if found != wanted => {
                return Err(ProviderError::Refused("it confirmed another account".to_owned()));
            }
            (Some(found), _) => found,
            (None, Some(wanted)) => wanted.to_owned(),
            (None, None) => return Err(ProviderError::Invalid("it contains no ID token".to_owned())),
        };
        let claim = self.config.groups_claim.as_deref();
        let groups = match (claim, &claims) {
            (None, _) => None,
            (Some(claim), claims) => {
                let sent = claims.as_ref().and_then(|claims| claims.additional_claims().groups(claim));
                match sent {
                    Some(groups) => Some(groups),
                    None => self.fetch_groups(client, tokens, &subject, claim)?,
                }
            }
        };
        let text = |value: Option<&str>| value.map(str::to_owned);
        let claims = claims.as_ref();
        let name = claims.and_then(|it| it.name()?.get(None).map(|name| name.as_str()));
        let name = name.or_else(|| claims?.preferred_username().map(|name| name.as_str()));
        let authenticated_at = claims.and_then(IdTokenClaims::auth_time);
        Ok(VerifiedAccount {
            email: text(claims.and_then(|it| it.email().map(|email| email.as_str()))),
            is_email_verified: claims.and_then(IdTokenClaims::email_verified),
            name: text(name),
            groups,
            authenticated_at: authenticated_at.map(|at| Timestamp::from_micros(at.timestamp_micros())),
            id_token: tokens.id_token().map(|token| RedactedString::new(token.to_string())),
            refresh_token: tokens.refresh_token().map(|it| RedactedString::new(it.secret().clone())),
            subject,
        })
    }

    /// Verifies an ID token. If its key is unknown, fetches the provider's keys again, once.
    fn verify(
        &self,
        metadata: &ProviderMetadataWithLogout,
        token: &ProviderIdToken,
        nonce: Option<&str>,
        now: Timestamp,
    ) -> Result<IdTokenClaims<ProviderClaims, CoreGenderClaim>, ProviderError> {
        let expected = TokenExpectations {
            issuer: metadata.issuer(),
            client_id: &self.config.client_id,
            keys: metadata.jwks(),
            nonce,
            now,
        };
        let verified = match claims::verify(token, &expected) {
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                let keys = self.refetch_keys(metadata)?;
                claims::verify(token, &TokenExpectations { keys: &keys, ..expected }).cloned()
            }
            verified => verified.cloned(),
        };
        verified.map_err(|error| ProviderError::Invalid(claims::describe_error(&error)))
    }

    /// Fetches groups from the user info endpoint, for providers that leave them out of the ID token.
    fn fetch_groups(
        &self,
        client: &ProviderClient,
        tokens: &ProviderTokens,
        subject: &str,
        claim: &str,
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let expected = Some(SubjectIdentifier::new(subject.to_owned()));
        let Ok(request) = client.user_info(tokens.access_token().clone(), expected) else { return Ok(None) };
        let answered: Result<UserInfoClaims<ProviderClaims, CoreGenderClaim>, _> =
            request.request(&self.http());
        match answered {
            Ok(info) => Ok(info.additional_claims().groups(claim)),
            Err(openidconnect::UserInfoError::Request(error)) => {
                Err(ProviderError::Unreachable(error.to_string()))
            }
            Err(_) => Err(ProviderError::Invalid("the user info cannot be used".to_owned())),
        }
    }
}

fn no_endpoint(_: openidconnect::ConfigurationError) -> ProviderError {
    ProviderError::Misconfigured("the discovery document names no token endpoint".to_owned())
}

fn describe_error(error: RequestTokenError<ProviderHttpError, ProviderErrorResponse>) -> ProviderError {
    match error {
        RequestTokenError::Request(error) => ProviderError::Unreachable(error.to_string()),
        RequestTokenError::ServerResponse(said) => {
            let code = said.error().as_ref().to_owned();
            match &*code {
                "invalid_grant"
                | "access_denied"
                | "interaction_required"
                | "login_required"
                | "consent_required"
                | "account_selection_required" => ProviderError::Refused(code),
                _ => ProviderError::Misconfigured(code.chars().take(100).collect()),
            }
        }
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            ProviderError::Invalid("the token response cannot be parsed".to_owned())
        }
    }
}
