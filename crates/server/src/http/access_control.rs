//! Authentication and authorization middleware. Runs before routing, on the same path and method that the router sees.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use berth_api::problem::Code;
use berth_core::access::ActionPermit;
use berth_engine::{RemoteCall, RunnerCaller};
use http::Method;
use http::header::{self, HeaderMap};
use http::request::Parts;

use super::edge::RequestOrigin;
use super::path::decode;
use super::route_builder::{RouteAccess, RouteInfo};
use crate::app::App;
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, Principal, RouteGrant, authorize};
use crate::auth::instance_admin::{InstanceAdmin, authorize_instance_admin};
use crate::error::AppError;

/// All routes with the access they require. Paths are matched in the same way as in the router.
pub(super) struct RouteTable(matchit::Router<RouteEntry>);

struct RouteEntry {
    route: Arc<str>,
    by_method: Vec<(Method, RouteAccess)>,
}

/// The route that matches a request.
pub(super) struct MatchedRoute<'a> {
    /// The route pattern, not the path that the client sent.
    pub(super) route: Arc<str>,
    /// `None` if the method is not allowed, in which case the router responds with a 405.
    access: Option<RouteAccess>,
    org: &'a str,
}

impl RouteTable {
    /// Panics if routes conflict, as the router does.
    pub(super) fn new(table: &[RouteInfo]) -> Self {
        let mut doors = BTreeMap::<&str, Vec<(Method, RouteAccess)>>::new();
        for route in table {
            let method = Method::from_bytes(route.method.as_bytes()).expect("a method of the table");
            doors.entry(&route.path).or_default().push((method, route.access));
        }
        let mut found = matchit::Router::new();
        for (path, by_method) in doors {
            found.insert(path, RouteEntry { route: path.into(), by_method }).expect("a path of the table");
        }
        Self(found)
    }

    pub(super) fn find<'a>(&self, method: &Method, path: &'a str) -> Option<MatchedRoute<'a>> {
        let found = self.0.at(path).ok()?;
        // The router serves HEAD with the GET handler.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let access = found.value.by_method.iter().find(|(of, _)| of == method).map(|(_, access)| *access);
        let org = found.params.get("orgId").unwrap_or_default();
        Some(MatchedRoute { route: found.value.route.clone(), access, org })
    }
}

/// Authenticates and authorizes a request, and adds the proof of authorization to its extensions for the handler.
pub(super) async fn authorize_request(
    app: &App,
    matched: &MatchedRoute<'_>,
    request: &mut Parts,
) -> Result<(), AppError> {
    let action = match matched.access {
        None | Some(RouteAccess::Open) => return Ok(()),
        Some(access @ (RouteAccess::Runner | RouteAccess::NewRunner)) => {
            let caller = authenticate_runner(app, request, access).await?;
            app.rates.check_caller(&caller.runner.id.to_string()).map_err(AppError::rate_limited)?;
            request.extensions.insert(caller);
            return Ok(());
        }
        Some(RouteAccess::Caller | RouteAccess::InstanceAdmin) => None,
        Some(RouteAccess::Permission(action) | RouteAccess::TokenPermission(action)) => Some(action),
    };
    let is_token_route = matches!(matched.access, Some(RouteAccess::TokenPermission(_)));
    if is_token_route {
        // A browser would add the credentials of Basic authentication to the requests of any page.
        check_page_origin(app, &request.headers)?;
    }
    let principal = Arc::new(authenticate(app, request, is_token_route).await?);
    app.rates.check_caller(&principal.key_scope()).map_err(AppError::rate_limited)?;
    if let Some(action) = action {
        let membership = match &principal.via {
            AuthMethod::Token { membership, .. } if is_token_route => Some(membership.clone()),
            _ => app.find_membership(&principal, &decode(matched.org).unwrap_or_default()).await?,
        };
        let membership = membership.ok_or_else(|| AppError::not_found("organization"))?;
        match authorize(&principal, action, &membership) {
            Ok(grant) => request.extensions.insert(grant),
            Err(refused) => {
                if let Some(denied) = refused.denial_reason(action) {
                    app.record_denied(&principal, membership.org, denied).await;
                }
                return Err(app.name_grantors(membership.org, refused).await);
            }
        };
    }
    if matched.access == Some(RouteAccess::InstanceAdmin) {
        let who = principal.clone();
        let found = app.services.store.read(None, move |db| authorize_instance_admin(db, &who));
        request.extensions.insert(found.await?);
    }
    request.extensions.insert(principal);
    Ok(())
}

/// `is_token_route` is whether only a token is accepted, also as the password of Basic authentication.
async fn authenticate(app: &App, request: &Parts, is_token_route: bool) -> Result<Principal, AppError> {
    let headers = &request.headers;
    let RequestOrigin { request_id: id, client } = request_origin(&request.extensions)?;
    let credentials = match is_token_route {
        true => read_token_or_password(headers)?,
        false => read_credentials(app, headers)?,
    };
    let found = match credentials {
        RequestCredentials::None => Err(AppError::unauthenticated("send Authorization: Bearer <token>")),
        RequestCredentials::Token(token) => {
            app.authenticate_token(&token, client, id.clone()).await?.ok_or_else(|| {
                AppError::unauthenticated(
                    "the token is invalid, expired or revoked, or its user has left the organization",
                )
            })
        }
        RequestCredentials::Cookie(cookie) => {
            let principal = app.authenticate_cookie(cookie, client, id.clone()).await?;
            principal.ok_or_else(|| AppError::unauthenticated("your login has expired; log in again"))
        }
    };
    let principal = match found {
        Ok(principal) => principal,
        Err(refused) => {
            return Err(app
                .rates
                .check_stranger(client.address())
                .err()
                .map_or(refused, AppError::rate_limited));
        }
    };
    if let AuthMethod::SignIn { id } = &principal.via
        && !matches!(request.method, Method::GET | Method::HEAD)
    {
        check_same_origin(app, headers)?;
        let sent = headers.get("x-berth-csrf").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !app.services.vault.keyed_hashes().is_csrf_token(&id.to_string(), sent) {
            let text = "a change made with a cookie needs the header X-Berth-CSRF with the csrfToken of GET /api/v1/me";
            return Err(AppError::new(Code::Forbidden, text));
        }
    }
    Ok(principal)
}

/// Authenticates a runner. Its identity comes from the token alone, never from the request body.
async fn authenticate_runner(
    app: &App,
    request: &Parts,
    access: RouteAccess,
) -> Result<RunnerCaller, AppError> {
    let found = match bearer(&request.headers)? {
        None => Err(AppError::unauthenticated("send Authorization: Bearer <token>")),
        Some(token) if access == RouteAccess::NewRunner => app.find_runner_by_token(token).await,
        Some(token) => app.find_runner_by_credential(token).await,
    };
    match found {
        Err(refused) => {
            let address = request_origin(&request.extensions)?.client.address();
            Err(app.rates.check_stranger(address).err().map_or(refused, AppError::rate_limited))
        }
        found => found,
    }
}

enum RequestCredentials<'a> {
    None,
    Token(Cow<'a, str>),
    Cookie(&'a str),
}

fn read_credentials<'a>(app: &App, headers: &'a HeaderMap) -> Result<RequestCredentials<'a>, AppError> {
    if let Some(token) = bearer(headers)? {
        return Ok(RequestCredentials::Token(token.into()));
    }
    let Some(name) = app.config.cookie_name() else { return Ok(RequestCredentials::None) };
    Ok(cookie(headers, name).map_or(RequestCredentials::None, RequestCredentials::Cookie))
}

/// Reads the credentials of a client that may not support bearer tokens.
fn read_token_or_password(headers: &HeaderMap) -> Result<RequestCredentials<'_>, AppError> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let value = sent.next().filter(|_| sent.next().is_none()).and_then(|value| value.to_str().ok());
    let basic =
        value.and_then(|text| text.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("basic"));
    let Some((_, encoded)) = basic else {
        let token = bearer(headers)?;
        return Ok(token.map_or(RequestCredentials::None, |token| RequestCredentials::Token(token.into())));
    };
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|text| text.split_once(':')) {
        Some((_, password)) => Ok(RequestCredentials::Token(password.to_owned().into())),
        None => Err(AppError::unauthenticated("the Basic credentials must be a user name and an API token")),
    }
}

pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, AppError> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let one = value.to_str().ok().filter(|_| sent.next().is_none());
    let bearer =
        one.and_then(|text| text.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    match bearer {
        Some((_, token)) => Ok(Some(token.trim())),
        None => Err(AppError::unauthenticated("the Authorization header must be: Bearer <token>")),
    }
}

/// Applies the rate limit per IP address on open routes that check a secret, whether or not the secret is correct.
pub(super) fn check_stranger(app: &App, request: &axum::extract::Request) -> Result<(), AppError> {
    app.rates
        .check_stranger(request_origin(request.extensions())?.client.address())
        .map_err(AppError::rate_limited)
}

/// CSRF protection: the cookie is accepted only in requests from the dashboard's own pages, according to
/// `Sec-Fetch-Site` and `Origin`.
pub(super) fn check_same_origin(app: &App, headers: &HeaderMap) -> Result<(), AppError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let site_is_ours = matches!(text("sec-fetch-site"), None | Some("same-origin" | "none"));
    let host = |url: &str| url.split_once("://").map(|(_, host)| host.trim_end_matches('/').to_owned());
    let ours = app.config.public_url.as_deref().and_then(host).or_else(|| text("host").map(str::to_owned));
    let origin_is_ours = text("origin").is_none_or(|origin| host(origin) == ours);
    if site_is_ours && origin_is_ours {
        return Ok(());
    }
    Err(AppError::new(Code::Forbidden, "this request was sent by a page of another site"))
}

/// Protects an endpoint for programs against web pages. Programs send no `Origin`; a page may only be one of this
/// server. Without a public URL, a page at a host name is refused as well, because the name may belong to an attacker
/// who has pointed it at this server (DNS rebinding).
pub(super) fn check_page_origin(app: &App, headers: &HeaderMap) -> Result<(), AppError> {
    check_same_origin(app, headers)?;
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| url::Url::parse(origin).ok());
    let is_rebindable = !matches!(
        origin.as_ref().and_then(url::Url::host),
        Some(url::Host::Domain("localhost") | url::Host::Ipv4(_) | url::Host::Ipv6(_))
    );
    if app.config.public_url.is_none() && is_rebindable {
        let text = "a page of this host name may not call this endpoint; set the server's public URL if it is its own";
        return Err(AppError::new(Code::Forbidden, text));
    }
    Ok(())
}

/// Returns the URL of the dashboard if the request was sent to a loopback address instead of the dashboard's host name.
pub(super) fn dashboard_elsewhere(app: &App, headers: &HeaderMap) -> Option<String> {
    app.config.dashboard_instead_of(headers.get(header::HOST)?.to_str().ok()?)
}

pub(super) fn request_origin(extensions: &http::Extensions) -> Result<&RequestOrigin, AppError> {
    extensions.get::<RequestOrigin>().ok_or_else(|| AppError::bug("a request from nowhere"))
}

/// Extractor for the proof of authorization that a use case requires.
pub(super) struct RequirePermit<P>(pub(super) AuthorizedCaller<P>);

impl<P: ActionPermit, S: Send + Sync> FromRequestParts<S> for RequirePermit<P> {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AppError> {
        let grant = parts.extensions.get::<RouteGrant>().cloned();
        grant.ok_or_else(|| AppError::bug("a route without a guard"))?.into_authorized().map(Self)
    }
}

/// Extractor for the caller, on routes that require no permission.
pub(super) struct RequireCaller(pub(super) Arc<Principal>);

impl<S: Send + Sync> FromRequestParts<S> for RequireCaller {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AppError> {
        let principal = parts.extensions.get::<Arc<Principal>>().cloned();
        principal.map(Self).ok_or_else(|| AppError::bug("a route without a guard"))
    }
}

/// Extractor for the proof that the caller is an instance admin.
pub(super) struct RequireInstanceAdmin(pub(super) InstanceAdmin);

impl<S: Send + Sync> FromRequestParts<S> for RequireInstanceAdmin {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AppError> {
        let admin = parts.extensions.get::<InstanceAdmin>().cloned();
        admin.map(Self).ok_or_else(|| AppError::bug("a route without a guard"))
    }
}

/// Extractor for an authenticated runner.
pub(super) struct RunnerRequest(pub(super) RemoteCall);

impl FromRequestParts<Arc<App>> for RunnerRequest {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, AppError> {
        let who = parts.extensions.get::<RunnerCaller>().cloned();
        let who = who.ok_or_else(|| AppError::bug("a route of runners without a guard"))?;
        Ok(Self(RemoteCall { services: app.services.clone(), caller: who }))
    }
}
