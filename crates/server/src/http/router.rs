//! The route table. Every route must declare what access it requires.

use std::sync::Arc;

use axum::{Extension, Router};
use berth_core::access::Action;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use super::{dashboard, openapi, pages, routes};
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

struct RouteBuilder {
    router: OpenApiRouter<Arc<App>>,
    table: Vec<RouteInfo>,
}

impl RouteBuilder {
    /// Adds a route of an organization that requires permission for `action`.
    fn route(self, action: Action, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::Permission(action), routes)
    }

    /// Adds a route that is open to any authenticated caller.
    fn for_callers(self, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::Caller, routes)
    }

    /// Adds a route for instance admins.
    fn for_instance_admins(self, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::InstanceAdmin, routes)
    }

    /// Adds a route for remote runners.
    fn for_runners(self, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::Runner, routes)
    }

    /// Adds a route of another protocol, whose paths name no organization.
    fn for_tokens(self, action: Action, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::TokenPermission(action), routes)
    }

    /// Adds a route without authentication; it must be listed in [`OPEN_ROUTES`].
    fn open(self, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.add_route(RouteAccess::Open, routes)
    }

    fn add_route(mut self, access: RouteAccess, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.record_routes(access, &routes);
        Self { router: self.router.routes(routes), ..self }
    }

    fn record_routes(&mut self, access: RouteAccess, routes: &UtoipaMethodRouter<Arc<App>>) {
        // Adding two paths at once would also register each path with the other's methods, which then have no access
        // check.
        assert_eq!(routes.1.paths.len(), 1, "one path at a time: {:?}", routes.1.paths.keys());
        for (path, item) in &routes.1.paths {
            let others = [&item.head, &item.options, &item.trace];
            assert!(
                others.iter().all(|method| method.is_none()),
                "{path} has a method the table does not know"
            );
            for method in openapi::methods(item) {
                let is_open = OPEN_ROUTES.contains(&(method, path.as_str()));
                assert_eq!(is_open, access == RouteAccess::Open, "{method} {path} and OPEN_ROUTES disagree");
                self.table.push(RouteInfo { method: method.to_owned(), path: path.clone(), access });
            }
        }
    }
}

pub(super) fn build(app: &Arc<App>) -> (Router, Vec<RouteInfo>, openapi::LazyDocuments) {
    use Action::*;
    use routes::{
        action_links, agents, analyses, approvals, artifacts, auth, chat, cli_logins, connections, deployed,
        deployments, environments, events, fixes, forge_accounts, forge_apps, grants, health, hooks,
        instance, invitations, logins, logs, mcp, members, notifications, organizations, pipelines,
        providers, pull_requests, queue, registries, remote_locks, repositories, runner, runners,
        second_factor, secrets, sessions, slack, teams, tokens, webhooks, well_known,
    };

    let served = openapi::LazyDocuments::default();
    let documents = |(schemas, paths, methods): UtoipaMethodRouter<Arc<App>>| {
        (schemas, paths, methods.layer(Extension(served.clone())))
    };
    let routes = RouteBuilder { router: OpenApiRouter::new(), table: Vec::new() }
        .open(routes!(health::healthz))
        .open(routes!(health::readyz))
        .open(routes!(well_known::openid_configuration))
        .open(routes!(well_known::jwks))
        .open(documents(routes!(openapi::openapi_json)))
        .open(documents(routes!(openapi::openapi_runner_json)))
        .open(routes!(pages::index))
        .open(routes!(pages::error_list))
        .open(routes!(pages::error_page))
        .open(routes!(hooks::receive_hook))
        .open(routes!(slack::receive_slack_request))
        .open(routes!(action_links::view_action_link, action_links::use_action_link))
        .for_callers(routes!(mcp::call_mcp))
        .open(routes!(auth::log_in))
        .open(routes!(auth::reset_password))
        .open(routes!(providers::view_login_options))
        .open(routes!(providers::start_login))
        .open(routes!(providers::finish_login))
        .open(routes!(invitations::view_offer))
        .open(routes!(invitations::sign_up))
        .for_callers(routes!(auth::log_out))
        .open(routes!(cli_logins::start_cli_login))
        .open(routes!(cli_logins::exchange_cli_login))
        .for_callers(routes!(cli_logins::find_cli_login))
        .for_callers(routes!(cli_logins::deny_cli_login))
        .for_callers(routes!(logins::list_logins))
        .for_callers(routes!(logins::end_login))
        .for_callers(routes!(logins::log_out_everywhere))
        .for_callers(routes!(auth::me))
        .for_callers(routes!(auth::change_password))
        .for_callers(routes!(auth::confirm_password))
        .for_callers(routes!(second_factor::begin_second_factor))
        .for_callers(routes!(second_factor::confirm_second_factor))
        .for_callers(routes!(second_factor::replace_recovery_codes))
        .for_callers(routes!(second_factor::disable_second_factor))
        .for_callers(routes!(providers::start_link))
        .for_callers(routes!(providers::start_confirmation))
        .for_callers(routes!(providers::list_identities))
        .for_callers(routes!(providers::unlink_identity))
        .for_callers(routes!(invitations::join_organization))
        .for_callers(routes!(organizations::list_organizations))
        .for_instance_admins(routes!(instance::list_instance_organizations))
        .for_instance_admins(routes!(instance::create_organization))
        .for_instance_admins(routes!(instance::view_instance_organization))
        .for_instance_admins(routes!(instance::rename_organization))
        .for_instance_admins(routes!(instance::delete_organization))
        .route(OrganizationRead, routes!(organizations::view_organization))
        .route(OrganizationWrite, routes!(organizations::update_organization))
        .route(MembersRead, routes!(members::list_members))
        .route(MembersWrite, routes!(members::add_member))
        .route(MembersRead, routes!(agents::view_agents))
        .route(MembersWrite, routes!(agents::stop_agents))
        .route(MembersWrite, routes!(agents::resume_agents))
        .route(MembersRead, routes!(members::view_member))
        .route(MembersWrite, routes!(members::update_member))
        .route(MembersWrite, routes!(members::remove_member))
        .route(MembersWrite, routes!(second_factor::reset_second_factor))
        .route(MembersWrite, routes!(logins::log_out_member))
        .route(MembersWrite, routes!(invitations::list_invitations))
        .route(MembersWrite, routes!(invitations::create_invitation))
        .route(MembersWrite, routes!(invitations::view_invitation))
        .route(MembersWrite, routes!(invitations::revoke_invitation))
        .route(MembersRead, routes!(grants::view_member_access))
        .route(MembersRead, routes!(grants::list_grants))
        .route(MembersWrite, routes!(grants::create_grant))
        .route(MembersRead, routes!(grants::view_grant))
        .route(MembersWrite, routes!(grants::delete_grant))
        .route(MembersRead, routes!(teams::list_teams))
        .route(MembersWrite, routes!(teams::create_team))
        .route(MembersRead, routes!(teams::view_team))
        .route(MembersWrite, routes!(teams::update_team))
        .route(MembersWrite, routes!(teams::delete_team))
        .route(MembersRead, routes!(teams::list_team_members))
        .route(MembersWrite, routes!(teams::add_team_member))
        .route(MembersWrite, routes!(teams::remove_team_member))
        .route(TokensOwn, routes!(cli_logins::approve_cli_login))
        .route(TokensOwn, routes!(forge_accounts::list_forge_accounts))
        .route(TokensOwn, routes!(forge_accounts::create_forge_link_code))
        .route(TokensOwn, routes!(forge_accounts::unlink_forge_account))
        .route(NotificationsOwn, routes!(notifications::list_notifications))
        .route(NotificationsOwn, routes!(notifications::read_all_notifications))
        .route(NotificationsOwn, routes!(notifications::read_notification))
        .route(NotificationsOwn, routes!(notifications::view_notification_rules))
        .route(NotificationsOwn, routes!(notifications::put_notification_rules))
        .route(MembersRead, routes!(notifications::view_team_notification_rules))
        .route(MembersWrite, routes!(notifications::put_team_notification_rules))
        .route(MembersRead, routes!(notifications::view_organization_notification_rules))
        .route(MembersWrite, routes!(notifications::put_organization_notification_rules))
        .route(WebhooksRead, routes!(chat::list_chat_destinations))
        .route(WebhooksWrite, routes!(chat::create_chat_destination))
        .route(WebhooksRead, routes!(chat::view_chat_destination))
        .route(WebhooksWrite, routes!(chat::delete_chat_destination))
        .route(WebhooksWrite, routes!(chat::test_chat_destination))
        .route(WebhooksRead, routes!(slack::view_slack))
        .route(WebhooksWrite, routes!(slack::connect_slack))
        .route(WebhooksWrite, routes!(slack::disconnect_slack))
        .route(TokensOwn, routes!(tokens::list_api_tokens))
        .route(TokensOwn, routes!(tokens::create_api_token))
        .route(TokensOwn, routes!(tokens::view_api_token))
        .route(TokensOwn, routes!(tokens::revoke_api_token))
        .route(PipelinesRead, routes!(pipelines::list_pipelines))
        .route(PipelinesWrite, routes!(pipelines::create_pipeline))
        .route(PipelinesRead, routes!(pipelines::validate_pipeline))
        .route(PipelinesRead, routes!(pipelines::plan_pipeline))
        .route(PipelinesRead, routes!(pipelines::view_pipeline))
        .route(PipelinesWrite, routes!(pipelines::delete_pipeline))
        .route(PipelinesRead, routes!(pipelines::view_definition))
        .route(PipelinesWrite, routes!(pipelines::put_definition))
        .route(PipelinesOperate, routes!(pipelines::stop_pipeline))
        .route(PipelinesOperate, routes!(pipelines::resume_pipeline))
        .route(RepositoriesRead, routes!(repositories::list_repositories))
        .route(RepositoriesWrite, routes!(repositories::create_repository))
        .route(RepositoriesRead, routes!(repositories::view_repository))
        .route(RepositoriesWrite, routes!(repositories::update_repository))
        .route(RepositoriesWrite, routes!(repositories::delete_repository))
        .route(RepositoriesWrite, routes!(repositories::sync_repository))
        .route(EnvironmentsClaim, routes!(forge_accounts::approve_pull_request))
        .route(PipelinesRead, routes!(pull_requests::list_pull_requests))
        .route(PipelinesRead, routes!(pull_requests::view_pull_request))
        .route(RepositoriesRead, routes!(connections::view_connection))
        .route(RepositoriesWrite, routes!(connections::connect_repository))
        .route(RepositoriesWrite, routes!(connections::disconnect_repository))
        .route(RepositoriesWrite, routes!(connections::test_connection))
        .route(RepositoriesWrite, routes!(connections::rotate_connection))
        .route(RepositoriesRead, routes!(connections::list_hook_deliveries))
        .route(RepositoriesWrite, routes!(forge_apps::connect_repository_with_app))
        .route(RepositoriesRead, routes!(forge_apps::list_forge_apps))
        .route(RepositoriesWrite, routes!(forge_apps::view_manifest_form))
        .route(RepositoriesWrite, routes!(forge_apps::create_forge_app))
        .route(RepositoriesWrite, routes!(forge_apps::delete_forge_app))
        .route(AnalysisRead, routes!(fixes::view_fix_pull_request))
        .route(AnalysisRun, routes!(fixes::create_fix_pull_request))
        .route(RegistriesRead, routes!(registries::list_registries))
        .route(RegistriesWrite, routes!(registries::create_registry))
        .route(RegistriesRead, routes!(registries::view_registry))
        .route(RegistriesWrite, routes!(registries::update_registry))
        .route(RegistriesWrite, routes!(registries::delete_registry))
        .route(RegistriesWrite, routes!(registries::sync_registry))
        .route(RegistriesRead, routes!(registries::list_registry_steps))
        .route(RegistriesRead, routes!(registries::list_registry_builds))
        .route(RegistriesRead, routes!(registries::view_registry_build_log))
        .add_route(RouteAccess::NewRunner, routes!(runner::register_runner))
        .for_runners(routes!(runner::runner_hello))
        .for_runners(routes!(runner::runner_acquire))
        .for_runners(routes!(runner::runner_heartbeat))
        .for_runners(routes!(runner::runner_log))
        .for_runners(routes!(runner::runner_report))
        .for_runners(routes!(runner::runner_pin_image))
        .for_runners(routes!(runner::runner_source))
        .for_runners(routes!(runner::runner_artifact, runner::runner_keep_artifact))
        .for_runners(routes!(runner::runner_registry))
        .for_runners(routes!(runner::runner_goodbye))
        .route(RunnersRead, routes!(runners::list_runners))
        .route(RunnersWrite, routes!(runners::create_runner))
        .route(RunnersRead, routes!(runners::view_runner))
        .route(RunnersWrite, routes!(runners::delete_runner))
        .route(EnvironmentsClaim, routes!(sessions::claim_any))
        .route(EnvironmentsRead, routes!(environments::list_environments))
        .route(EnvironmentsRead, routes!(environments::view_environment))
        .route(EnvironmentsRead, routes!(environments::view_history))
        .route(EnvironmentsRead, routes!(environments::view_insights))
        .route(EnvironmentsClaim, routes!(sessions::claim_session))
        .route(EnvironmentsForceClaim, routes!(sessions::force_claim))
        .route(EnvironmentsRead, routes!(sessions::view_session))
        .route(EnvironmentsClaim, routes!(sessions::release_session))
        .route(EnvironmentsClaim, routes!(sessions::deploy_commit))
        .route(EnvironmentsClaim, routes!(sessions::extend_session))
        .route(EnvironmentsClaim, routes!(sessions::renew_session_lease))
        .route(EnvironmentsClaim, routes!(sessions::hand_over_session))
        .route(EnvironmentsRead, routes!(queue::view_queue))
        .route(EnvironmentsRead, routes!(queue::view_ticket))
        .route(EnvironmentsClaim, routes!(queue::leave_queue))
        .for_tokens(EnvironmentsClaim, routes!(remote_locks::acquire_lock))
        .for_tokens(EnvironmentsClaim, routes!(remote_locks::view_lock))
        .for_tokens(EnvironmentsClaim, routes!(remote_locks::renew_lock))
        .for_tokens(EnvironmentsClaim, routes!(remote_locks::release_lock))
        .for_tokens(EnvironmentsClaim, routes!(remote_locks::list_resources))
        .route(DeploymentsRead, routes!(deployments::view_deployment))
        .route(DeploymentsOperate, routes!(deployments::cancel_deployment))
        .route(DeploymentsRead, routes!(logs::view_log))
        .route(DeploymentsRead, routes!(artifacts::list_artifacts))
        .route(DeploymentsRead, routes!(artifacts::download_artifact))
        .route(DeploymentsOperate, routes!(deployments::cancel_stage))
        .route(DeploymentsOperate, routes!(deployments::retry_stage))
        .route(StagesDeploy, routes!(deployments::rollback_stage))
        .route(DeploymentsOperate, routes!(deployments::resolve_step))
        .route(DeploymentsRead, routes!(deployments::list_deployments))
        .route(DeploymentsRead, routes!(deployments::list_pipeline_deployments))
        .route(StagesDeploy, routes!(deployments::start_deployment))
        .route(DeploymentsOperate, routes!(deployments::end_soak))
        .route(DeploymentsOperate, routes!(deployments::reject_soak))
        .route(ApprovalsRead, routes!(approvals::list_approvals))
        .route(ApprovalsRead, routes!(approvals::view_approval))
        .route(ApprovalsRead, routes!(approvals::view_approval_changes))
        .route(ApprovalsDecide, routes!(approvals::approve))
        .route(ApprovalsDecide, routes!(approvals::reject))
        .route(DeploymentsRead, routes!(deployed::list_deployed))
        .route(DeploymentsRead, routes!(deployed::view_delivery))
        .route(AnalysisRun, routes!(analyses::request_analysis))
        .route(AnalysisRead, routes!(analyses::list_analyses))
        .route(AnalysisRead, routes!(analyses::view_analysis))
        .route(AnalysisRead, routes!(analyses::view_analysis_settings))
        .route(AnalysisSettings, routes!(analyses::put_analysis_settings))
        .route(SecretsRead, routes!(secrets::list_secrets))
        .route(SecretsWrite, routes!(secrets::create_secret))
        .route(SecretsRead, routes!(secrets::view_secret))
        .route(SecretsWrite, routes!(secrets::put_secret))
        .route(SecretsWrite, routes!(secrets::update_secret))
        .route(SecretsWrite, routes!(secrets::delete_secret))
        .route(WebhooksRead, routes!(webhooks::list_webhooks))
        .route(WebhooksWrite, routes!(webhooks::create_webhook))
        .route(WebhooksRead, routes!(webhooks::view_webhook))
        .route(WebhooksWrite, routes!(webhooks::update_webhook))
        .route(WebhooksWrite, routes!(webhooks::delete_webhook))
        .route(WebhooksWrite, routes!(webhooks::rotate_webhook))
        .route(WebhooksWrite, routes!(webhooks::ping_webhook))
        .route(WebhooksRead, routes!(webhooks::list_deliveries))
        .route(WebhooksWrite, routes!(webhooks::redeliver))
        .route(EventsRead, routes!(events::list_events))
        .route(EventsRead, routes!(events::export_events))
        .route(EventsRead, routes!(events::verify_events))
        .route(EventsRead, routes!(events::view_event));

    let (router, document) = routes.router.split_for_parts();
    served.set(document, routes.table.clone());
    let router = router.fallback(dashboard::fallback).with_state(app.clone());
    (router, routes.table, served)
}
