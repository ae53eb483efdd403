//! Finds the people behind an event, with their rules and access.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_core::access::EffectiveAccess;
use berth_core::approval::ApprovalState;
use berth_core::deployment::{Deployment, DeploymentTarget};
use berth_core::event::{Actor, ActorType, Event};
use berth_core::id::{DeploymentId, TeamId, UserId};
use berth_core::name::Email;
use berth_core::notification::{
    EventPeople, NotificationCause, NotificationRule, NotificationSubject, RuleSubject, default_rules,
};
use berth_engine::{electorate, people_behind};
use berth_store::StoreRead;
use berth_store::tables::user::UserAccount;
use berth_store::tables::{approval, deployment, notification_rule, provider_identity, team, user};

use crate::auth::authorize::load_member_access;
use crate::error::AppError;

/// Maximum number of people and teams with rules that are read. Above it, the defaults apply to the rest.
const RULE_SETS_MAX: i64 = 10_000;

/// Returns the people behind an event for which `cause` needs them. `author` is the address of the author of a failed
/// deployment's commit.
pub(super) fn load_people(
    db: &mut impl StoreRead,
    event: &Event,
    cause: NotificationCause,
    author: Option<&str>,
) -> Result<EventPeople, AppError> {
    let mut people = EventPeople::default();
    match cause {
        NotificationCause::DeploymentFailed => {
            if let Some(found) = load_deployment(db, event)? {
                people.starters = load_starters(db, &found, author)?;
            }
        }
        NotificationCause::ApprovalRequested => people.approvers = load_approvers(db, event)?,
        NotificationCause::TakenOver
        | NotificationCause::TakeoverAnnounced
        | NotificationCause::QueueJoined
        | NotificationCause::SessionGranted
        | NotificationCause::SessionExpiring => {
            for account in EventPeople::accounts_of(event) {
                if let Some(person) = person_behind(db, account)? {
                    people.behind.insert(account, person);
                }
            }
        }
    }
    Ok(people)
}

/// The person who owns an account. `None` if the account does not exist.
fn person_behind(db: &mut impl StoreRead, account: UserId) -> Result<Option<UserId>, AppError> {
    let actor = Actor { kind: ActorType::User, id: Some(account), name: String::new(), token: None };
    Ok(people_behind(db, &actor)?.into_iter().next())
}

pub(super) fn load_deployment(
    db: &mut impl StoreRead,
    event: &Event,
) -> Result<Option<Deployment>, AppError> {
    let subject = event.subjects.iter().find(|subject| subject.kind == "deployment");
    let id: Option<DeploymentId> = subject.and_then(|subject| subject.id.parse().ok());
    id.map_or(Ok(None), |id| Ok(deployment::by_id(db, id)?))
}

/// The people who started or retried the deployment, and the author of its commit if that is an account's address.
fn load_starters(
    db: &mut impl StoreRead,
    found: &Deployment,
    author: Option<&str>,
) -> Result<BTreeSet<UserId>, AppError> {
    let mut starters = people_behind(db, &found.requested_by)?;
    if let DeploymentTarget::Stages(target) = &found.target {
        for account in &target.retried_by {
            starters.extend(person_behind(db, *account)?);
        }
    }
    if let Some(email) = author.and_then(|author| Email::parse(author).ok())
        && let Some(account) = user::by_email(db, &email)?
    {
        starters.extend(person_behind(db, account.id)?);
    }
    Ok(starters)
}

/// The people whose approval would count, except those who have voted. Empty if the approval is no longer pending.
fn load_approvers(db: &mut impl StoreRead, event: &Event) -> Result<BTreeSet<UserId>, AppError> {
    let subject = event.subjects.iter().find(|subject| subject.kind == "approval");
    let Some(id) = subject.and_then(|subject| subject.id.parse().ok()) else { return Ok(BTreeSet::new()) };
    let Some(found) = approval::by_id(db, id)? else { return Ok(BTreeSet::new()) };
    if found.status != ApprovalState::Pending {
        return Ok(BTreeSet::new());
    }
    let electorate = electorate(db, found.deployment, &found.stage)?;
    let voted: BTreeSet<UserId> = found.votes.iter().map(|vote| vote.person).collect();
    let everyone: BTreeSet<UserId> = electorate.voters.iter().map(|voter| voter.person).collect();
    // All voters as if they had approved; those whose vote would count remain.
    let counted = electorate.tally(&found.rule, &everyone).counted;
    Ok(counted.difference(&voted).copied().collect())
}

/// Completes the subject with what the event does not say: the environment of an approval, and the session that a ticket
/// waits for.
pub(super) fn complete_subject(
    db: &mut impl StoreRead,
    event: &Event,
    cause: Option<NotificationCause>,
    subject: &mut NotificationSubject,
) -> Result<(), AppError> {
    use berth_store::tables::environment;
    match cause {
        Some(NotificationCause::ApprovalRequested) => {
            if let Some(found) = load_deployment(db, event)?
                && matches!(found.target, DeploymentTarget::Environment(_))
            {
                subject.environment = subject.stage.take();
            }
        }
        Some(NotificationCause::QueueJoined | NotificationCause::TakeoverAnnounced) => {
            let found = event.subjects.iter().find(|it| it.kind == "environment");
            if let Some(id) = found.and_then(|it| it.id.parse().ok())
                && let Some(lock) = environment::by_id(db, id)?
            {
                subject.session_id = lock.session.map(|session| session.id.to_string());
            }
        }
        _ => {}
    }
    Ok(())
}

/// The notification rules of an organization.
pub(super) struct RuleBook {
    /// The rules of people and teams about messages to people.
    by_owner: BTreeMap<String, Vec<NotificationRule>>,
    /// The rules of teams and of the organization that name a chat destination.
    for_destinations: BTreeMap<String, Vec<NotificationRule>>,
    defaults: Vec<NotificationRule>,
    /// The members of teams, from [`RuleBook::load_teams`].
    members: HashMap<TeamId, BTreeSet<UserId>>,
}

impl RuleBook {
    pub(super) fn load(db: &mut impl StoreRead) -> Result<Self, AppError> {
        let sets = notification_rule::list(db, RULE_SETS_MAX)?;
        let (mut by_owner, mut for_destinations) = (BTreeMap::new(), BTreeMap::new());
        for set in sets {
            let (to_chats, to_people): (Vec<_>, Vec<_>) =
                set.rules.into_iter().partition(|rule| rule.destination.is_some());
            // Rules about destinations do not turn off what people get.
            if to_chats.is_empty() || !to_people.is_empty() {
                by_owner.insert(set.owner.clone(), to_people);
            }
            if !to_chats.is_empty() {
                for_destinations.insert(set.owner, to_chats);
            }
        }
        Ok(Self { by_owner, for_destinations, defaults: default_rules(), members: HashMap::new() })
    }

    /// Loads the members of the teams whose rules need them for these events. Done before the transaction, because there
    /// can be many.
    pub(super) fn load_teams(&mut self, db: &mut impl StoreRead, events: &[Event]) -> Result<(), AppError> {
        let needs_members = |rule: &NotificationRule| {
            (rule.destination.is_some() || rule.about == RuleSubject::All)
                && events.iter().any(|event| rule.kinds.contains(&event.kind))
        };
        for (owner, rules) in self.by_owner.iter().chain(&self.for_destinations) {
            let Ok(team) = owner.parse::<TeamId>() else { continue };
            if rules.iter().any(needs_members) && !self.members.contains_key(&team) {
                self.members.insert(team, team::list_member_ids(db, team)?.into_iter().collect());
            }
        }
        Ok(())
    }

    fn members_of(&self, team: TeamId) -> impl Iterator<Item = &UserId> {
        self.members.get(&team).into_iter().flatten()
    }

    /// The rules that send an event of this kind to chat destinations, with whether the event concerns their owner: a
    /// member of the team, or any person for rules of the organization.
    pub(super) fn list_destination_rules(
        &self,
        kind: &str,
        concerned: &BTreeSet<UserId>,
    ) -> Vec<(&[NotificationRule], bool)> {
        let mut found = Vec::new();
        for (owner, rules) in &self.for_destinations {
            if !rules.iter().any(|rule| rule.kinds.contains(kind)) {
                continue;
            }
            let is_own = match owner.parse::<TeamId>() {
                Ok(team) => self.members_of(team).any(|member| concerned.contains(member)),
                Err(_) => !concerned.is_empty(),
            };
            found.push((rules.as_slice(), is_own));
        }
        found
    }

    /// Whether any rule subscribes to all events of this kind.
    pub(super) fn has_subscribers(&self, kind: &str) -> bool {
        let all = self.by_owner.values().chain(self.for_destinations.values());
        all.flatten().any(|rule| is_subscription(rule, kind))
    }

    /// People who subscribe to all events of this kind, by their own rules or those of their teams.
    pub(super) fn list_subscribers(&self, kind: &str) -> BTreeSet<UserId> {
        let mut people = BTreeSet::new();
        for (owner, rules) in &self.by_owner {
            if !rules.iter().any(|rule| is_subscription(rule, kind)) {
                continue;
            }
            if let Ok(user) = owner.parse::<UserId>() {
                people.insert(user);
            } else if let Ok(team) = owner.parse::<TeamId>() {
                people.extend(self.members_of(team));
            }
        }
        people
    }

    /// The rules that apply to a person: their own; without any, those of their teams; without any, the defaults.
    pub(super) fn load_rules(
        &self,
        db: &mut impl StoreRead,
        user: UserId,
    ) -> Result<Vec<NotificationRule>, AppError> {
        if self.by_owner.is_empty() {
            return Ok(self.defaults.clone());
        }
        if let Some(own) = self.by_owner.get(&user.to_string()) {
            return Ok(own.clone());
        }
        let teams = team::list_of_user(db, user)?;
        let sets: Vec<_> = teams.iter().filter_map(|team| self.by_owner.get(&team.id.to_string())).collect();
        Ok(match sets.is_empty() {
            true => self.defaults.clone(),
            false => sets.into_iter().flatten().cloned().collect(),
        })
    }
}

fn is_subscription(rule: &NotificationRule, kind: &str) -> bool {
    rule.about == RuleSubject::All && rule.kinds.contains(kind)
}

/// What a person may do who is notified. `None` for service accounts, people who are not members, and suspended people.
pub(super) fn load_recipient_access(
    db: &mut impl StoreRead,
    person: UserId,
) -> Result<Option<EffectiveAccess>, AppError> {
    let Some(found) = user::by_id(db, person)? else { return Ok(None) };
    if !matches!(found.account, UserAccount::Person { .. }) || provider_identity::is_suspended(db, person)? {
        return Ok(None);
    }
    load_member_access(db, person)
}
