//! Fair batches: an organization with a lot of due work does not starve the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use berth_core::analysis::{Analysis, AnalysisPullRequest, NewAnalysis, PullRequestState};
use berth_core::chat::ChatMessage;
use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::{Deployment, DeploymentState, StagesTarget, StartTrigger, stages};
use berth_core::environment::declare::{DeclareCommand, declare};
use berth_core::environment::fence::Fence;
use berth_core::environment::{Environment, LockAgenda};
use berth_core::event::{Actor, EventKind, EventSubject, NewEvent};
use berth_core::id::{
    AnalysisId, ChatDestinationId, ChatMessageId, DeploymentId, EnvironmentId, EventId, NotificationId,
    OrgId, RegistryId, RepositoryId, StepRunId, UserId,
};
use berth_core::name::{CommitId, DisplayName, Email, EnvName};
use berth_core::notification::{Notification, NotificationSubject};
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{EnvironmentDefinition, QueuePolicy, ReleaseAction};
use berth_core::registry::{Registry, RegistryName};
use berth_core::repository::{RemoteUrl, Repository, RepositorySyncState};
use berth_core::time::Timestamp;
use berth_store::pagination::FairBatch;
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{
    analysis, chat_message, deployment, environment, fix_pull_request, notification, registry, repository,
    schedule,
};
use berth_store::{StoreError, Tx, TxContext};
use proptest::prelude::*;

use super::{StoreFixture, create_organization, create_pipeline};

fn at_second(number: i64) -> Timestamp {
    Timestamp::from_micros(number * 1_000_000)
}

/// Adds work that became due at this time, in seconds.
type AddWork<Id> = fn(&mut Tx<'_>, i64) -> Result<Id, StoreError>;
type SelectBatch<Id> = fn(&mut Tx<'_>, FairBatch) -> Result<Vec<(OrgId, Id)>, StoreError>;

fn check_shares<Id: Debug + PartialEq + Copy + Send + 'static>(add: AddWork<Id>, select: SelectBatch<Id>) {
    let fixture = StoreFixture::new();
    let other = create_organization(&fixture.store, "globex");
    let greedy = fixture.transact(move |tx| (1..=20).map(|at| add(tx, at)).collect::<Result<Vec<_>, _>>());
    let greedy: Vec<_> = greedy.unwrap().into_iter().map(|id| (fixture.org, id)).collect();
    let modest = fixture.store.transact_blocking(TxContext::system(Some(other)), move |tx| {
        (101..=102).map(|at| add(tx, at)).collect::<Result<Vec<_>, _>>()
    });
    let modest: Vec<_> = modest.unwrap().into_iter().map(|id| (other, id)).collect();
    let selected = |total, share| fixture.transact(move |tx| select(tx, FairBatch { total, share })).unwrap();
    assert_eq!(selected(100, 1), [greedy[0], modest[0]]);
    assert_eq!(selected(3, 20), [greedy[0], modest[0], greedy[1]]);
    assert_eq!(selected(100, 3), [greedy[0], modest[0], greedy[1], modest[1], greedy[2]]);
    assert_eq!(selected(100, 100).len(), greedy.len() + modest.len());
}

fn add_repository(tx: &mut Tx<'_>, at: i64) -> Result<RepositoryId, StoreError> {
    let id = RepositoryId::from_parts(at_second(at), tx.entropy()?);
    let made = Repository {
        id,
        url: RemoteUrl::parse(&format!("/srv/{id}")).unwrap(),
        credential: None,
        poll_seconds: 60,
        is_partial: false,
        seen: RepositorySyncState { due_at: Some(at_second(at)), ..RepositorySyncState::default() },
        version: 1,
        created_at: at_second(at),
        updated_at: at_second(at),
        deleted_at: None,
    };
    repository::put(tx, &made)?;
    tx.record(NewEvent::new(EventKind::RepositoryCreated, EventSubject::new("repository", made.id, None)))?;
    Ok(made.id)
}

fn add_registry(tx: &mut Tx<'_>, at: i64) -> Result<RegistryId, StoreError> {
    add_named_registry(tx, &format!("tools-{at}"), at)
}

fn add_named_registry(tx: &mut Tx<'_>, name: &str, at: i64) -> Result<RegistryId, StoreError> {
    let made = Registry {
        id: RegistryId::from_parts(at_second(at), tx.entropy()?),
        name: RegistryName::parse(name).unwrap(),
        url: RemoteUrl::parse("/srv/tools").unwrap(),
        reference: None,
        credential: None,
        seen: berth_core::registry::RegistrySyncState { due_at: Some(at_second(at)), ..Default::default() },
        version: 1,
        created_at: at_second(at),
        updated_at: at_second(at),
        deleted_at: None,
    };
    registry::put(tx, &made)?;
    tx.record(NewEvent::new(EventKind::RegistryCreated, EventSubject::new("registry", made.id, None)))?;
    Ok(made.id)
}

fn add_deployment(tx: &mut Tx<'_>, at: i64) -> Result<DeploymentId, StoreError> {
    let pipeline = create_pipeline(tx, &format!("p-{at}"), at_second(at))?;
    let decision = stages::start(Deployment {
        id: DeploymentId::from_parts(at_second(at), tx.entropy()?),
        number: deployment::next_number(tx, pipeline.id)?,
        pipeline: pipeline.id,
        definition_hash: pipeline.definition_hash.clone(),
        commit: CommitId::parse("9fceb02").unwrap(),
        resolved_commit: None,
        reason: None,
        requested_by: Actor::system(),
        status: DeploymentState::Queued,
        created_at: at_second(at),
        started_at: None,
        finished_at: None,
        target: StagesTarget { trigger: StartTrigger::Api, retried_by: BTreeSet::new(), bypass: None },
    });
    Ok(tx.commit(decision)?.id)
}

fn add_startable(tx: &mut Tx<'_>, at: i64) -> Result<DeploymentId, StoreError> {
    let pipeline = create_pipeline(tx, &format!("p-{at}"), at_second(at))?;
    let cmd = DeclareCommand {
        id: EnvironmentId::from_parts(at_second(at), tx.entropy()?),
        pipeline: pipeline.id,
        name: EnvName::parse("qa-1").unwrap(),
        configuration: EnvironmentDefinition {
            triggers: vec![],
            release: vec![],
            on_release: ReleaseAction::None,
            ttl: None,
            labels: vec![],
            owner: None,
            queue: QueuePolicy::default(),
            vars: BTreeMap::new(),
            skip: BTreeSet::new(),
        },
        definition_hash: pipeline.definition_hash,
        last_fence: Fence::default(),
    };
    let startable = DeploymentId::from_parts(at_second(at), tx.entropy()?);
    let agenda = LockAgenda { startable: Some(startable), ..LockAgenda::default() };
    let made = Environment { agenda, ..declare(cmd, at_second(at)).answer };
    put_record(tx, DomainRecord::Environment(Box::new(made)))?;
    Ok(startable)
}

fn put_record(tx: &mut Tx<'_>, record: DomainRecord) -> Result<(), StoreError> {
    tx.commit(RuleDecision {
        changes: vec![RecordChange::Put(record)],
        ..RuleDecision::without_changes(())
    })?;
    tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))
}

fn add_analysis(tx: &mut Tx<'_>, at: i64) -> Result<AnalysisId, StoreError> {
    let deployment = add_deployment(tx, at)?;
    let new = NewAnalysis {
        id: AnalysisId::from_parts(at_second(at), tx.entropy()?),
        deployment,
        pipeline: deployment::stages_by_id(tx, deployment)?.unwrap().pipeline,
        stage: "staging".into(),
        step: StepRunId::from_parts(at_second(at), tx.entropy()?),
        step_name: StepId::parse("deploy").unwrap(),
        attempt: 1,
        repository: None,
        commit: None,
        asked_by: Actor::system(),
    };
    Ok(tx.commit(Analysis::request(new, at_second(at)))?.id)
}

fn add_fix(tx: &mut Tx<'_>, at: i64) -> Result<AnalysisId, StoreError> {
    let (analysis, repository) = (add_analysis(tx, at)?, add_repository(tx, at)?);
    let asked = AnalysisPullRequest {
        analysis,
        repository,
        fingerprint: format!("f-{at}"),
        state: PullRequestState::Opening,
        branch: format!("berth/fix-{at}"),
        commit: None,
        number: None,
        url: None,
        error: None,
        ended_at: None,
        asked_by: Actor::system(),
        created_at: at_second(at),
        updated_at: at_second(at),
        version: 1,
    };
    put_record(tx, DomainRecord::FixPullRequest(Box::new(asked)))?;
    Ok(analysis)
}

#[test]
fn due_registries_are_shared_among_organizations() {
    check_shares(add_registry, |tx, batch| registry::list_due(tx, at_second(1_000), batch));
}

#[test]
fn deployments_to_plan_are_shared_among_organizations() {
    check_shares(add_deployment, |tx, batch| schedule::list_to_plan(tx, batch));
}

#[test]
fn startable_deployments_are_shared_among_organizations() {
    check_shares(add_startable, |tx, batch| {
        Ok(environment::list_startable(tx, batch)?.into_iter().map(|(org, _, id)| (org, id)).collect())
    });
}

#[test]
fn queued_analyses_are_shared_among_organizations() {
    check_shares(add_analysis, |tx, batch| analysis::list_queued(tx, batch));
}

#[test]
fn requested_fixes_are_shared_among_organizations() {
    check_shares(add_fix, |tx, batch| fix_pull_request::list_opening(tx, batch));
}

fn add_mail(tx: &mut Tx<'_>, at: i64) -> Result<UserId, StoreError> {
    let user = UserId::from_parts(at_second(at), tx.entropy()?);
    let email = Email::parse(&format!("{user}@acme.test")).unwrap();
    let account = UserAccount::Person { password_hash: None, password_is_generated: false };
    user::put(
        tx,
        &User { id: user, email, name: DisplayName::parse("a").unwrap(), account, created_at: at_second(at) },
    )?;
    let waiting = Notification {
        id: NotificationId::from_parts(at_second(at), tx.entropy()?),
        user,
        event: EventId::from_parts(at_second(at), tx.entropy()?),
        sequence: at,
        event_kind: "deployment_failed".into(),
        cause: None,
        summary: String::new(),
        subject: NotificationSubject::default(),
        in_inbox: true,
        created_at: at_second(at),
        read_at: None,
        mail_due_at: Some(at_second(at)),
        mail_failures: 0,
        mailed_at: None,
    };
    notification::insert(tx, &waiting)?;
    tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", user, None)))?;
    Ok(user)
}

fn add_chat_message(tx: &mut Tx<'_>, at: i64) -> Result<ChatDestinationId, StoreError> {
    let target = ChatDestinationId::from_parts(at_second(at), tx.entropy()?);
    let waiting = ChatMessage {
        id: ChatMessageId::from_parts(at_second(at), tx.entropy()?),
        target: target.to_string(),
        sequence: Some(at),
        cause: None,
        summary: String::new(),
        subject: NotificationSubject::default(),
        created_at: at_second(at),
        due_at: Some(at_second(at)),
        failures: 0,
        sent_at: None,
    };
    chat_message::insert(tx, &waiting)?;
    Ok(target)
}

#[test]
fn due_mails_are_shared_among_organizations() {
    check_shares(add_mail, |tx, batch| notification::list_due(tx, batch));
}

#[test]
fn due_chat_messages_are_shared_among_organizations() {
    check_shares(add_chat_message, |tx, batch| {
        let due = chat_message::list_due(tx, batch)?;
        Ok(due.into_iter().map(|(org, target)| (org, target.parse().unwrap())).collect())
    });
}

type AddedIds = (i64, RepositoryId, RegistryId);

fn add_both(tx: &mut Tx<'_>, (number, at): (usize, i64)) -> Result<AddedIds, StoreError> {
    let name = format!("tools-{number}");
    Ok((at, add_repository(tx, at)?, add_named_registry(tx, &name, at)?))
}

/// The expected batch: the first row of every organization comes before the second row of any.
fn expected_batch<Id: Ord + Copy>(all: &[(OrgId, i64, Id)], now: i64, batch: FairBatch) -> Vec<(OrgId, Id)> {
    let mut by_org: BTreeMap<OrgId, Vec<(i64, Id)>> = BTreeMap::new();
    for (org, at, id) in all.iter().filter(|(_, at, _)| *at <= now) {
        by_org.entry(*org).or_default().push((*at, *id));
    }
    let mut ranked = Vec::new();
    for (org, mut own) in by_org {
        own.sort();
        ranked.extend((1..=batch.share).zip(own).map(|(place, (at, id))| (place, at, id, org)));
    }
    ranked.sort();
    ranked.into_iter().map(|(_, _, id, org)| (org, id)).take(usize::try_from(batch.total).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn batch_has_the_oldest_rows_of_each_organization(
        times in prop::collection::vec(prop::collection::vec(0i64..50, 0..12), 1..4),
        total in 0i64..30, share in 0i64..14, now in 0i64..60,
    ) {
        let fixture = StoreFixture::new();
        let (mut repositories, mut registries) = (Vec::new(), Vec::new());
        for (number, times) in times.into_iter().enumerate() {
            let org = create_organization(&fixture.store, &format!("org-{number}"));
            let added = fixture.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
                times.into_iter().enumerate().map(|it| add_both(tx, it)).collect::<Result<Vec<_>, _>>()
            });
            for (at, repository, registry) in added.unwrap() {
                repositories.push((org, at, repository));
                registries.push((org, at, registry));
            }
        }
        let batch = FairBatch { total, share };
        let found = fixture.transact(move |tx| registry::list_due(tx, at_second(now), batch)).unwrap();
        prop_assert_eq!(found, expected_batch(&registries, now, batch));
        let found = fixture.transact(move |tx| repository::list_due(tx, at_second(now), total)).unwrap();
        prop_assert_eq!(found, expected_batch(&repositories, now, FairBatch { total, share: 1 }));
    }
}
