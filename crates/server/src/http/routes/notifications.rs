//! Endpoints for the inbox and for notification rules.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::notification::{
    NotificationAbout, NotificationChannelName, NotificationRuleBody, NotificationRules,
    NotificationRulesPut, NotificationsRead, WireNotification,
};
use berth_api::page::List;
use berth_core::access::{NamePattern, permit};
use berth_core::id::NotificationId;
use berth_core::name::Slug;
use berth_core::notification::{
    DIGEST_MINUTES_MAX, NotificationChannel, NotificationRule, QuietHours, RULES_PER_OWNER_MAX, RuleSubject,
};
use berth_core::pipeline::window::{WindowHours, ZoneName};
use berth_core::webhook::EventKindFilter;

use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::JsonBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// List your notifications, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/notifications", tag = "notifications",
    params(("unread" = Option<bool>, Query, description = "Only notifications that you have not read")),
    responses((status = 200, body = List<WireNotification>)))]
pub(crate) async fn list_notifications(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::NotificationsOwn>,
    paging: PageQuery,
) -> Result<ListResponse<WireNotification>, AppError> {
    let only_unread = paging.params.parse::<bool>("unread")?.unwrap_or(false);
    let page = app.list_notifications(&who, only_unread, paging.start::<i64>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Mark a notification as read. It is not sent by email any more.
#[utoipa::path(post, operation_id = "readNotification", path = "/api/v1/organizations/{orgId}/notifications/{notificationId}/read", tag = "notifications",
    responses((status = 200, body = Data<WireNotification>)))]
pub(crate) async fn read_notification(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::NotificationsOwn>,
    Path((_, id)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireNotification>, AppError> {
    let id: NotificationId = id.parse().map_err(|_| AppError::not_found("notification"))?;
    app.read_notification(&who, id).await
}

/// Mark all your notifications as read.
#[utoipa::path(post, operation_id = "readAllNotifications", path = "/api/v1/organizations/{orgId}/notifications/read-all", tag = "notifications",
    responses((status = 200, body = Data<NotificationsRead>)))]
pub(crate) async fn read_all_notifications(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::NotificationsOwn>,
) -> Result<IdempotentResponse<NotificationsRead>, AppError> {
    app.read_all_notifications(&who).await
}

/// Get your notification rules.
#[utoipa::path(get, operation_id = "getNotificationRules", path = "/api/v1/organizations/{orgId}/notification-rules", tag = "notifications",
    responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn view_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::NotificationsOwn>,
) -> Result<ApiResponse<NotificationRules>, AppError> {
    app.view_notification_rules(&who).await
}

/// Replace your notification rules.
#[utoipa::path(put, operation_id = "putNotificationRules", path = "/api/v1/organizations/{orgId}/notification-rules", tag = "notifications",
    request_body = NotificationRulesPut, responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn put_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::NotificationsOwn>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<NotificationRulesPut>,
) -> Result<IdempotentResponse<NotificationRules>, AppError> {
    app.put_notification_rules(&who, parse_rules(body, RuleOwnerKind::Person)?, expected).await
}

/// Get the notification rules of a team.
#[utoipa::path(get, operation_id = "getTeamNotificationRules", path = "/api/v1/organizations/{orgId}/teams/{teamId}/notification-rules", tag = "notifications",
    responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn view_team_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, team)): Path<(String, String)>,
) -> Result<ApiResponse<NotificationRules>, AppError> {
    app.view_team_notification_rules(&who, team).await
}

/// Replace the notification rules of a team. They apply to members of the team who have no rules of their own.
#[utoipa::path(put, operation_id = "putTeamNotificationRules", path = "/api/v1/organizations/{orgId}/teams/{teamId}/notification-rules", tag = "notifications",
    request_body = NotificationRulesPut, responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn put_team_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, team)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<NotificationRulesPut>,
) -> Result<IdempotentResponse<NotificationRules>, AppError> {
    app.put_team_notification_rules(&who, team, parse_rules(body, RuleOwnerKind::Team)?, expected).await
}

/// Get the notification rules of the organization.
#[utoipa::path(get, operation_id = "getOrganizationNotificationRules", path = "/api/v1/organizations/{orgId}/organization-notification-rules", tag = "notifications",
    responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn view_organization_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
) -> Result<ApiResponse<NotificationRules>, AppError> {
    app.view_organization_notification_rules(&who).await
}

/// Replace the notification rules of the organization, which send to chat destinations.
#[utoipa::path(put, operation_id = "putOrganizationNotificationRules", path = "/api/v1/organizations/{orgId}/organization-notification-rules", tag = "notifications",
    request_body = NotificationRulesPut, responses((status = 200, body = Data<NotificationRules>)))]
pub(crate) async fn put_organization_notification_rules(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<NotificationRulesPut>,
) -> Result<IdempotentResponse<NotificationRules>, AppError> {
    let rules = parse_rules(body, RuleOwnerKind::Organization)?;
    app.put_organization_notification_rules(&who, rules, expected).await
}

fn parse_rules(
    body: NotificationRulesPut,
    owner: RuleOwnerKind,
) -> Result<Option<Vec<NotificationRule>>, AppError> {
    let Some(sent) = body.rules else { return Ok(None) };
    let mut check = InputChecker::default();
    if sent.len() > RULES_PER_OWNER_MAX {
        let range = format!("must have at most {RULES_PER_OWNER_MAX} entries");
        check.require("/rules", Err::<(), _>(range));
        return check.finish(None::<Option<Vec<NotificationRule>>>);
    }
    let rules: Vec<_> =
        sent.iter().enumerate().map(|(index, rule)| parse_rule(&mut check, owner, index, rule)).collect();
    check.finish(rules.into_iter().collect::<Option<Vec<_>>>().map(Some))
}

/// Whose rules are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleOwnerKind {
    Person,
    Team,
    Organization,
}

fn parse_rule(
    check: &mut InputChecker,
    owner: RuleOwnerKind,
    index: usize,
    sent: &NotificationRuleBody,
) -> Option<NotificationRule> {
    let at = |member: &str| format!("/rules/{index}/{member}");
    let kinds = EventKindFilter::parse(&sent.kinds).map_err(|error| {
        (error.index.map_or_else(|| at("kinds"), |kind| at(&format!("kinds/{kind}"))), error.why)
    });
    let kinds = match kinds {
        Ok(kinds) => Some(kinds),
        Err((pointer, why)) => check.require(&pointer, Err(why)),
    };
    let pattern = |text: &str| {
        NamePattern::parse(text)
            .map_err(|_| "must be a name, or the beginning of a name followed by *".to_owned())
    };
    let pipeline = check.optional(&at("pipeline"), sent.pipeline.as_deref(), pattern);
    let environment = check.optional(&at("environment"), sent.environment.as_deref(), pattern);
    let quiet_hours = match &sent.quiet_hours {
        None => Some(None),
        Some(quiet) => {
            let hours = check.require(&at("quietHours/hours"), WindowHours::parse(&quiet.hours));
            let zone = check.require(&at("quietHours/timeZone"), ZoneName::parse(&quiet.time_zone));
            hours.zip(zone).map(|(hours, time_zone)| Some(QuietHours { hours, time_zone }))
        }
    };
    if !(0..=DIGEST_MINUTES_MAX).contains(&sent.digest_minutes) {
        let range = format!("must be a whole number from 0 to {DIGEST_MINUTES_MAX}");
        check.require::<(), _>(&at("digestMinutes"), Err(range));
    }
    let destination = match sent.destination.as_deref() {
        None if owner == RuleOwnerKind::Organization => {
            let text = "is required in rules of the organization, which send only to chat destinations";
            check.require::<Option<Slug>, _>(&at("destination"), Err(text))
        }
        None => Some(None),
        Some(_) if owner == RuleOwnerKind::Person => {
            let text = "is possible only in rules of a team or of the organization";
            check.require(&at("destination"), Err(text))
        }
        Some(_) if sent.channel != NotificationChannelName::Chat => {
            check.require(&at("destination"), Err("is possible only with the channel chat"))
        }
        Some(name) => check.require(&at("destination"), Slug::parse(name)).map(Some),
    };
    Some(NotificationRule {
        channel: match sent.channel {
            NotificationChannelName::Inbox => NotificationChannel::Inbox,
            NotificationChannelName::Email => NotificationChannel::Email,
            NotificationChannelName::Chat => NotificationChannel::Chat,
        },
        destination: destination?,
        about: match sent.about {
            NotificationAbout::Mine => RuleSubject::Mine,
            NotificationAbout::All => RuleSubject::All,
        },
        kinds: kinds?,
        pipeline,
        environment,
        quiet_hours: quiet_hours?,
        digest_minutes: sent.digest_minutes,
    })
}
