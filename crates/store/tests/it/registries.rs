//! Resolving step types to registry versions.

use std::collections::BTreeSet;

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::RegistryId;
use berth_core::registry::{
    InputMode, Registry, RegistryName, RegistryStatus, RegistrySyncState, RegistryVersion, StepMetadata,
    step_key,
};
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;
use berth_store::tables::{registry, registry_build};
use berth_store::{StoreError, Tx};

use super::StoreFixture;

const FIRST: &str = "1111111100000000000000000000000000000001";
const SECOND: &str = "2222222200000000000000000000000000000002";

fn add_registry(tx: &mut Tx<'_>, name: &str) -> Result<Registry, StoreError> {
    let made = Registry {
        id: RegistryId::from_parts(tx.now(), tx.entropy()?),
        name: RegistryName::parse(name).unwrap(),
        url: RemoteUrl::parse("/srv/tools").unwrap(),
        reference: None,
        credential: None,
        seen: RegistrySyncState { due_at: Some(tx.now()), ..RegistrySyncState::default() },
        version: 1,
        created_at: tx.now(),
        updated_at: tx.now(),
        deleted_at: None,
    };
    registry::put(tx, &made)?;
    tx.record(NewEvent::new(EventKind::RegistryCreated, EventSubject::new("registry", made.id, Some(name))))?;
    Ok(made)
}

/// Records a successful build and makes its version the current one.
fn record_build(tx: &mut Tx<'_>, of: &Registry, commit: &str, steps: &[&str]) -> Result<(), StoreError> {
    let step = |own: &&str| StepMetadata {
        key: step_key(own).unwrap(),
        step_type: (*own).to_owned(),
        name: None,
        short_description: None,
        long_description: None,
        yaml_example: None,
        schema: serde_json::json!({"type": "object"}),
    };
    let number = registry_build::next_number(tx, of.id)?;
    let version = RegistryVersion {
        registry: of.id,
        commit: commit.into(),
        number,
        digest: format!("digest-{number}"),
        start: "./start".into(),
        input: InputMode::File,
        steps: steps.iter().map(step).collect(),
        built_at: tx.now(),
    };
    registry_build::put_version(tx, &version)?;
    tx.record(NewEvent::new(EventKind::RegistryBuilt, EventSubject::new("registry", of.id, None)))?;
    let seen =
        RegistrySyncState { status: RegistryStatus::Ready, current: Some(commit.into()), ..of.seen.clone() };
    registry::put_poll_result(tx, of.id, &seen)
}

fn resolve_types(fixture: &StoreFixture, types: &'static [&'static str]) -> Vec<String> {
    let offers = fixture.transact(move |tx| registry::resolve_types(tx, types.iter().copied())).unwrap();
    let shown = |text: &&str| match &offers[*text] {
        Ok(offer) => format!("{} {}", offer.pinned.digest, offer.pinned.step_type),
        Err(why) => why.clone(),
    };
    types.iter().map(shown).collect()
}

#[test]
fn step_type_resolves_to_the_current_or_the_named_version() {
    let fixture = StoreFixture::new();
    fixture
        .transact(|tx| {
            let tools = add_registry(tx, "tools")?;
            record_build(tx, &tools, FIRST, &["CUSTOM:Deploy"])?;
            registry_build::put_tag(tx, tools.id, "v1", FIRST)?;
            registry_build::put_branch(tx, tools.id, "main", FIRST)?;
            record_build(tx, &tools, SECOND, &["CUSTOM:Deploy", "Check"])?;
            // A tag keeps its first commit even if it is moved. A branch does not.
            registry_build::put_tag(tx, tools.id, "v1", SECOND)?;
            registry_build::put_branch(tx, tools.id, "main", SECOND)?;
            add_registry(tx, "empty").map(drop)
        })
        .unwrap();
    let found = resolve_types(
        &fixture,
        &[
            "tools/deploy",
            "tools/deploy@v1",
            "tools/deploy@main",
            "tools/deploy@1111111",
            "tools/deploy@2222222200000000000000000000000000000002",
            "CUSTOM:CHECK",
            "tools/check@v1",
            "empty/x",
        ],
    );
    assert_eq!(
        found,
        [
            "digest-2 CUSTOM:Deploy",
            "digest-1 CUSTOM:Deploy",
            "digest-2 CUSTOM:Deploy",
            "digest-1 CUSTOM:Deploy",
            "digest-2 CUSTOM:Deploy",
            "digest-2 Check",
            "registry \"tools\" has no step \"check\" at 1111111100; there is deploy",
            "registry \"empty\" is not built yet; its steps can be used when its status is ready",
        ]
    );
}

#[test]
fn registry_version_is_immutable() {
    let fixture = StoreFixture::new();
    let again = fixture.transact(|tx| {
        let tools = add_registry(tx, "tools")?;
        record_build(tx, &tools, FIRST, &["deploy"])?;
        record_build(tx, &tools, FIRST, &["deploy"])
    });
    assert!(again.is_err());
}

#[test]
fn registries_are_separate_for_each_organization() {
    let fixture = StoreFixture::new();
    fixture
        .transact(|tx| {
            let tools = add_registry(tx, "tools")?;
            record_build(tx, &tools, FIRST, &["deploy"])
        })
        .unwrap();
    let other = StoreFixture { org: super::create_organization(&fixture.store, "umbrella"), ..fixture };
    let [named, anywhere] = resolve_types(&other, &["tools/deploy", "CUSTOM:DEPLOY"]).try_into().unwrap();
    assert!(named.starts_with("there is no registry \"tools\"; add it"), "{named}");
    assert!(anywhere.starts_with("no registry has a step \"deploy\"; there are no registries"), "{anywhere}");
}

#[test]
fn registry_lists_pipelines_that_use_its_steps() {
    let fixture = StoreFixture::new();
    let users = |name: &'static str| {
        let name = RegistryName::parse(name).unwrap();
        let found = fixture.transact(move |tx| registry::list_uses(tx, &name)).unwrap();
        found.into_iter().map(|it| format!("{} {} {}", it.slug, it.step, it.is_anywhere)).collect::<Vec<_>>()
    };
    fixture
        .transact(|tx| {
            let types = ["tools/deploy@v1", "tools/deploy", "CUSTOM:CHECK", "other/x"];
            super::create_pipeline_with_types(tx, "shop", Timestamp::from_micros(1), &types).map(drop)
        })
        .unwrap();
    assert_eq!(users("tools"), ["shop check true", "shop deploy false"]);
    assert_eq!(users("other"), ["shop check true", "shop x false"]);
    assert_eq!(BTreeSet::from_iter(users("none")), BTreeSet::from(["shop check true".to_owned()]));
}
