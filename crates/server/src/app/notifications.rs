//! The inbox and the notification rules of the caller, and the rules of teams.

use berth_api::notification as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::NotificationId;
use berth_core::name::Slug;
use berth_core::notification::{
    Notification, NotificationCause, NotificationChannel, NotificationRule, RuleSubject, default_rules,
};
use berth_store::Tx;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::notification_rule::{self, NotificationRuleSet, RuleOwner};
use berth_store::tables::{chat_destination, chat_message, notification, organization};

use super::resource_access::visible_page;
use super::{ApiResponse, App, IdempotentResponse, ResponsePage, check_version, teams};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

impl App {
    /// Lists the caller's inbox, newest first. Leaves out notifications of events that the caller may no longer see.
    pub async fn list_notifications(
        &self,
        who: &AuthorizedCaller<permit::NotificationsOwn>,
        only_unread: bool,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireNotification>, AppError> {
        let (access, user) = (who.access().clone(), who.principal().user);
        let slice = self.read(who, move |db| match access.may_everywhere(Action::EventsRead) {
            true => {
                let page = notification::list(db, user, only_unread, &from, limit)?;
                let total = notification::count(db, user, only_unread)?;
                Ok(ListPage { total, ..page })
            }
            false => visible_page(
                db,
                (&from, limit),
                |db, start, rows| notification::list(db, user, only_unread, start, rows),
                |it| it.sequence.to_string(),
                |_, it| Ok(is_visible(&access, it)),
            ),
        });
        Ok(ResponsePage::from_list_page(&slice.await?, |it| it.sequence.to_string(), to_response))
    }

    /// Marks a notification as read, which also cancels the email and the direct message about it. Idempotent.
    pub async fn read_notification(
        &self,
        who: &AuthorizedCaller<permit::NotificationsOwn>,
        id: NotificationId,
    ) -> Result<IdempotentResponse<wire::WireNotification>, AppError> {
        let user = who.principal().user;
        self.change(who, None, move |tx, standing| {
            let missing = || AppError::not_found("notification");
            let found = notification::find(tx, user, id)?.filter(|it| it.in_inbox).ok_or_else(missing)?;
            if !is_visible(&standing.access, &found) {
                return Err(missing());
            }
            notification::mark_read(tx, user, id)?;
            chat_message::cancel(tx, user, id)?;
            let now = tx.now();
            Ok(ApiResponse::ok(to_response(&Notification { read_at: found.read_at.or(Some(now)), ..found })))
        })
        .await
    }

    pub async fn read_all_notifications(
        &self,
        who: &AuthorizedCaller<permit::NotificationsOwn>,
    ) -> Result<IdempotentResponse<wire::NotificationsRead>, AppError> {
        let user = who.principal().user;
        self.change(who, None, move |tx, _| {
            let read = notification::mark_all_read(tx, user)?;
            chat_message::cancel_of_target(tx, &user.to_string())?;
            Ok(ApiResponse::ok(wire::NotificationsRead { read }))
        })
        .await
    }

    pub async fn view_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::NotificationsOwn>,
    ) -> Result<ApiResponse<wire::NotificationRules>, AppError> {
        let owner = RuleOwner::Person(who.principal().user);
        self.read(who, move |db| Ok(rules_to_response(notification_rule::by_owner(db, owner)?))).await
    }

    /// Replaces the caller's rules; `None` returns to the defaults.
    pub async fn put_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::NotificationsOwn>,
        rules: Option<Vec<NotificationRule>>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::NotificationRules>, AppError> {
        let principal = who.principal();
        let subject = EventSubject::new("user", principal.user, Some(principal.name.as_str()));
        let owner = RuleOwner::Person(principal.user);
        self.change(who, None, move |tx, _| put_rules(tx, owner, rules, subject, expected)).await
    }

    pub async fn view_team_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        key: String,
    ) -> Result<ApiResponse<wire::NotificationRules>, AppError> {
        self.read(who, move |db| {
            let team = teams::find(db, &key)?;
            Ok(rules_to_response(notification_rule::by_owner(db, RuleOwner::Team(team.id))?))
        })
        .await
    }

    /// Replaces the rules of a team, which apply to its members who have no rules of their own.
    pub async fn put_team_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        key: String,
        rules: Option<Vec<NotificationRule>>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::NotificationRules>, AppError> {
        self.change(who, None, move |tx, _| {
            let team = teams::find(tx, &key)?;
            let subject = EventSubject::new("team", team.id, Some(team.slug.as_str()));
            check_destinations(tx, rules.as_deref())?;
            put_rules(tx, RuleOwner::Team(team.id), rules, subject, expected)
        })
        .await
    }

    pub async fn view_organization_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
    ) -> Result<ApiResponse<wire::NotificationRules>, AppError> {
        let owner = RuleOwner::Organization(who.org());
        self.read(who, move |db| {
            let found = notification_rule::by_owner(db, owner)?;
            Ok(to_rules_response(found, Vec::new()))
        })
        .await
    }

    /// Replaces the rules of the organization, which send only to chat destinations.
    pub async fn put_organization_notification_rules(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        rules: Option<Vec<NotificationRule>>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::NotificationRules>, AppError> {
        let org = who.org();
        self.change(who, None, move |tx, _| {
            let name = organization::by_id(tx, org)?.map(|found| found.slug.to_string());
            let subject = EventSubject::new("organization", org, name.as_deref());
            check_destinations(tx, rules.as_deref())?;
            put_rules(tx, RuleOwner::Organization(org), rules, subject, expected)
        })
        .await
    }
}

/// Checks that the destinations of rules exist.
fn check_destinations(tx: &mut Tx<'_>, rules: Option<&[NotificationRule]>) -> Result<(), AppError> {
    for (index, rule) in rules.unwrap_or_default().iter().enumerate() {
        if let Some(name) = &rule.destination
            && chat_destination::by_name(tx, name)?.is_none()
        {
            let pointer = format!("/rules/{index}/destination");
            return Err(AppError::invalid_member(&pointer, missing_destination(name)));
        }
    }
    Ok(())
}

fn missing_destination(name: &Slug) -> String {
    format!("there is no chat destination {name}; create it first: berth chat add {name} --to slack-webhook")
}

fn put_rules(
    tx: &mut Tx<'_>,
    owner: RuleOwner,
    rules: Option<Vec<NotificationRule>>,
    subject: EventSubject,
    expected: Option<i64>,
) -> Result<ApiResponse<wire::NotificationRules>, AppError> {
    let defaults = || match owner {
        RuleOwner::Organization(_) => Vec::new(),
        RuleOwner::Person(_) | RuleOwner::Team(_) => default_rules(),
    };
    let found = notification_rule::by_owner(tx, owner)?;
    let version = found.as_ref().map_or(0, |it| it.version);
    check_version(version, expected)?;
    let count = rules.as_ref().map_or(0, Vec::len);
    let event = NewEvent::new(EventKind::NotificationRulesUpdated, subject);
    let set = match rules {
        None => {
            if found.is_none() {
                return Ok(to_rules_response(None, defaults()));
            }
            notification_rule::delete(tx, owner)?;
            tx.record(event.with("isDefault", true))?;
            None
        }
        Some(rules) => {
            let (owner, updated_at) = (owner.to_string(), tx.now());
            let set = NotificationRuleSet { owner, rules, version: version + 1, updated_at };
            notification_rule::put(tx, &set)?;
            tx.record(event.with("rules", i64::try_from(count).unwrap_or(i64::MAX)))?;
            Some(set)
        }
    };
    Ok(to_rules_response(set, defaults()))
}

/// Whether the caller may still see the event, as in the audit log.
fn is_visible(access: &EffectiveAccess, it: &Notification) -> bool {
    access.may_everywhere(Action::EventsRead) || access.may(Action::EventsRead, &it.subject.target())
}

fn to_response(it: &Notification) -> wire::WireNotification {
    let subject = &it.subject;
    wire::WireNotification {
        id: it.id.to_string(),
        event_id: it.event.to_string(),
        event_kind: it.event_kind.clone(),
        cause: it.cause.map(cause_to_wire),
        summary: it.summary.clone(),
        pipeline: subject.pipeline.clone(),
        environment: subject.environment.clone(),
        stage: subject.stage.clone(),
        pipeline_id: subject.pipeline_id.clone(),
        deployment_id: subject.deployment_id.clone(),
        session_id: subject.session_id.clone(),
        ticket_id: subject.ticket_id.clone(),
        approval_id: subject.approval_id.clone(),
        created_at: it.created_at.to_string(),
        read_at: it.read_at.map(|at| at.to_string()),
    }
}

fn cause_to_wire(cause: NotificationCause) -> wire::NotificationReason {
    use wire::NotificationReason as Wire;
    match cause {
        NotificationCause::TakenOver => Wire::TakenOver,
        NotificationCause::TakeoverAnnounced => Wire::TakeoverAnnounced,
        NotificationCause::QueueJoined => Wire::QueueJoined,
        NotificationCause::SessionGranted => Wire::SessionGranted,
        NotificationCause::SessionExpiring => Wire::SessionExpiring,
        NotificationCause::DeploymentFailed => Wire::DeploymentFailed,
        NotificationCause::ApprovalRequested => Wire::ApprovalRequested,
    }
}

fn rules_to_response(set: Option<NotificationRuleSet>) -> ApiResponse<wire::NotificationRules> {
    to_rules_response(set, default_rules())
}

/// `defaults` apply without a set.
fn to_rules_response(
    set: Option<NotificationRuleSet>,
    defaults: Vec<NotificationRule>,
) -> ApiResponse<wire::NotificationRules> {
    let version = set.as_ref().map_or(0, |it| it.version);
    let (is_default, rules, updated_at) = match set {
        None => (true, defaults, None),
        Some(set) => (false, set.rules, Some(set.updated_at.to_string())),
    };
    let rules = rules.iter().map(rule_to_wire).collect();
    ApiResponse::ok(wire::NotificationRules { is_default, rules, updated_at }).with_version(version)
}

fn rule_to_wire(rule: &NotificationRule) -> wire::NotificationRuleBody {
    wire::NotificationRuleBody {
        channel: match rule.channel {
            NotificationChannel::Inbox => wire::NotificationChannelName::Inbox,
            NotificationChannel::Email => wire::NotificationChannelName::Email,
            NotificationChannel::Chat => wire::NotificationChannelName::Chat,
        },
        destination: rule.destination.as_ref().map(ToString::to_string),
        about: match rule.about {
            RuleSubject::Mine => wire::NotificationAbout::Mine,
            RuleSubject::All => wire::NotificationAbout::All,
        },
        kinds: rule.kinds.as_slice().to_vec(),
        pipeline: rule.pipeline.as_ref().map(ToString::to_string),
        environment: rule.environment.as_ref().map(ToString::to_string),
        quiet_hours: rule.quiet_hours.as_ref().map(|quiet| wire::QuietHoursBody {
            hours: String::from(quiet.hours),
            time_zone: quiet.time_zone.as_str().to_owned(),
        }),
        digest_minutes: rule.digest_minutes,
    }
}
