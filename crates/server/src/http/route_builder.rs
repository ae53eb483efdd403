//! The parts of the route table: what access routes require, and the handlers of a path.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use berth_core::access::Action;
use utoipa::openapi::HttpMethod;

use super::openapi::DescribeRoute;
use crate::app::App;

/// Routes that need no authentication. The only other open paths are the files of the dashboard and the documentation,
/// which contain no data of this installation.
pub const OPEN_ROUTES: &[(&str, &str)] = &[
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/.well-known/openid-configuration"),
    ("GET", "/.well-known/jwks.json"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/openapi-runner.json"),
    ("POST", "/api/v1/auth/login"),
    ("POST", "/api/v1/auth/invitation"),
    ("POST", "/api/v1/auth/sign-up"),
    ("POST", "/api/v1/auth/reset-password"),
    ("POST", "/api/v1/auth/cli-logins"),
    ("POST", "/api/v1/auth/cli-logins/token"),
    ("GET", "/api/v1/auth/providers"),
    ("POST", "/api/v1/auth/providers/{provider}/login"),
    ("GET", "/api/v1/auth/providers/{provider}/callback"),
    ("POST", "/hooks/{forge}/{hookId}"),
    ("POST", "/hooks/slack/{orgId}"),
    ("GET", "/actions"),
    ("POST", "/actions"),
    ("GET", "/"),
    ("GET", "/docs/errors"),
    ("GET", "/docs/errors/{code}"),
];

/// What access a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    Open,
    /// Any valid API token or browser session.
    Caller,
    /// An instance admin, who need not be a member of the organization in the path.
    InstanceAdmin,
    /// The credential of a runner.
    Runner,
    /// The registration token of a runner.
    NewRunner,
    /// Membership in the organization named in the path, with a role that allows the action.
    Permission(Action),
    /// An API token, also as the password of HTTP Basic authentication, whose account may perform the action in the
    /// token's organization.
    TokenPermission(Action),
}

#[derive(Debug, Clone)]
pub struct RouteInfo {
    pub method: String,
    pub path: String,
    pub access: RouteAccess,
}

/// The handlers of one path.
pub(super) struct PathHandlers {
    pub(super) path: String,
    pub(super) methods: Vec<HttpMethod>,
    pub(super) router: MethodRouter<Arc<App>>,
    /// Called only for the OpenAPI documents, because it would double the time of a start.
    pub(super) describe: DescribeRoute,
}

/// Collects the handlers of one path, which have the attribute `utoipa::path`, into [`PathHandlers`].
macro_rules! routes {
    ($($module:ident::$handler:ident),+) => {
        utoipa_axum::paste! {{
            use utoipa::Path as _;
            use utoipa_axum::PathItemExt as _;
            let handlers = $crate::http::route_builder::PathHandlers::new(
                || utoipa_axum::routes!($($module::$handler),+),
            );
            $(let handlers = handlers.add(
                $module::[<__path_ $handler>]::path(),
                $module::[<__path_ $handler>]::methods(),
                |router, method| router.on(method.to_method_filter(), $module::$handler),
            );)+
            handlers
        }}
    };
}
pub(super) use routes;

impl PathHandlers {
    pub(super) fn new(describe: DescribeRoute) -> Self {
        Self { path: String::new(), methods: Vec::new(), router: MethodRouter::new(), describe }
    }

    pub(super) fn add(
        mut self,
        path: String,
        methods: Vec<HttpMethod>,
        add_method: impl Fn(MethodRouter<Arc<App>>, &HttpMethod) -> MethodRouter<Arc<App>>,
    ) -> Self {
        // Adding two paths at once would also register each path with the other's methods, which then have no access
        // check.
        assert!(self.path.is_empty() || self.path == path, "one path at a time: {} and {path}", self.path);
        self.router = methods.iter().fold(self.router, add_method);
        self.methods.extend(methods);
        Self { path, ..self }
    }
}

/// The name of a method. `None` for methods that access control does not know.
fn method_name(method: &HttpMethod) -> Option<&'static str> {
    match method {
        HttpMethod::Get => Some("GET"),
        HttpMethod::Put => Some("PUT"),
        HttpMethod::Post => Some("POST"),
        HttpMethod::Patch => Some("PATCH"),
        HttpMethod::Delete => Some("DELETE"),
        HttpMethod::Head | HttpMethod::Options | HttpMethod::Trace => None,
    }
}

#[derive(Default)]
pub(super) struct RouteBuilder {
    pub(super) router: Router<Arc<App>>,
    pub(super) table: Vec<RouteInfo>,
    pub(super) descriptions: Vec<DescribeRoute>,
}

impl RouteBuilder {
    /// Adds a route of an organization that requires permission for `action`.
    pub(super) fn route(self, action: Action, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::Permission(action), routes)
    }

    /// Adds a route that is open to any authenticated caller.
    pub(super) fn for_callers(self, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::Caller, routes)
    }

    /// Adds a route for instance admins.
    pub(super) fn for_instance_admins(self, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::InstanceAdmin, routes)
    }

    /// Adds a route for remote runners.
    pub(super) fn for_runners(self, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::Runner, routes)
    }

    /// Adds a route of another protocol, whose paths name no organization.
    pub(super) fn for_tokens(self, action: Action, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::TokenPermission(action), routes)
    }

    /// Adds a route without authentication; it must be listed in [`OPEN_ROUTES`].
    pub(super) fn open(self, routes: PathHandlers) -> Self {
        self.add_route(RouteAccess::Open, routes)
    }

    pub(super) fn add_route(mut self, access: RouteAccess, routes: PathHandlers) -> Self {
        let PathHandlers { path, methods, router, describe } = routes;
        for method in &methods {
            let name = method_name(method);
            let method = name.unwrap_or_else(|| panic!("{path} has a method the table does not know"));
            let is_open = OPEN_ROUTES.contains(&(method, path.as_str()));
            assert_eq!(is_open, access == RouteAccess::Open, "{method} {path} and OPEN_ROUTES disagree");
            self.table.push(RouteInfo { method: method.to_owned(), path: path.clone(), access });
        }
        self.descriptions.push(describe);
        Self { router: self.router.route(&path, router), ..self }
    }
}
