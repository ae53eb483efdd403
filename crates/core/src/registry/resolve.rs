//! Finds the step version that a custom step type in a definition refers to.

use super::state::{Registry, RegistryStatus, RegistryVersion, short_hash};
use super::{AvailableStep, PinnedStep, TypeRef};
use crate::wording::{hint, join_words};

/// A shorter version is treated as a branch or tag, never as an abbreviated hash.
pub const COMMIT_PREFIX_CHARS_MIN: usize = 7;

/// Which version of a registry to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionQuery<'a> {
    Commit(&'a str),
    /// An abbreviated commit hash.
    Prefix(&'a str),
    /// The branch or tag that a version was built from.
    Named(&'a str),
}

/// Resolves a custom step type. `find` looks up versions of a registry and returns at most two. `Ok(Err(…))` is a
/// message for users; `Err` is an error from `find`.
pub fn resolve<E>(
    text: &str,
    registries: &[Registry],
    mut find: impl FnMut(&Registry, VersionQuery<'_>) -> Result<Vec<RegistryVersion>, E>,
) -> Result<Result<AvailableStep, String>, E> {
    match TypeRef::parse(text) {
        None => Ok(Err("is not the type of a step, as `tools/deploy` or `CUSTOM:DEPLOY` are".into())),
        Some(TypeRef::Anywhere { step }) => resolve_anywhere(&step, registries, find),
        Some(TypeRef::InRegistry { registry, step, version }) => {
            let Some(found) = registries.iter().find(|it| it.name == registry) else {
                let (near, _) = hint(registry.as_str(), registries.iter().map(|it| it.name.as_str()));
                let joint = if near.is_empty() { "; add" } else { " Else add" };
                let joint = if near.ends_with('?') || near.is_empty() { joint } else { ". Add" };
                return Ok(Err(format!(
                    "there is no registry \"{registry}\"{near}{joint} it with POST /step-registries or berth registry add"
                )));
            };
            let versions = match (&version, &found.seen.current) {
                (None, None) => return Ok(Err(nothing_built(found))),
                (None, Some(commit)) => find(found, VersionQuery::Commit(commit))?,
                (Some(version), _) => find_version(found, version, &mut find)?,
            };
            Ok(match (versions.as_slice(), version) {
                ([one], _) => find_in_version(found, one, &step),
                ([], None) => Err(nothing_built(found)),
                ([], Some(version)) => Err(not_built(found, &version)),
                ([first, second, ..], version) => Err(format!(
                    "registry \"{}\" has more than one version {}: {} and {}; write more of the hash",
                    found.name,
                    version.unwrap_or_default(),
                    first.commit,
                    second.commit
                )),
            })
        }
    }
}

/// A hash takes precedence over a name, so that a tag cannot pass for a hash.
fn find_version<E>(
    registry: &Registry,
    version: &str,
    find: &mut impl FnMut(&Registry, VersionQuery<'_>) -> Result<Vec<RegistryVersion>, E>,
) -> Result<Vec<RegistryVersion>, E> {
    let is_hash = version.len() >= COMMIT_PREFIX_CHARS_MIN && version.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hash {
        let found = find(registry, VersionQuery::Prefix(&version.to_ascii_lowercase()))?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    find(registry, VersionQuery::Named(version))
}

fn resolve_anywhere<E>(
    step: &str,
    registries: &[Registry],
    mut find: impl FnMut(&Registry, VersionQuery<'_>) -> Result<Vec<RegistryVersion>, E>,
) -> Result<Result<AvailableStep, String>, E> {
    let (mut offering, mut known) = (Vec::new(), Vec::new());
    for registry in registries {
        let Some(current) = &registry.seen.current else { continue };
        for version in find(registry, VersionQuery::Commit(current))? {
            known.extend(version.steps.iter().map(|it| it.key.clone()));
            if version.steps.iter().any(|it| it.key == step) {
                offering.push((registry, version));
            }
        }
    }
    Ok(match offering.as_slice() {
        [(registry, version)] => find_in_version(registry, version, step),
        [] => {
            known.sort();
            known.dedup();
            let (near, _) = hint(step, known.iter().map(String::as_str));
            let near = match (registries.is_empty(), near.is_empty()) {
                (true, _) => {
                    "; there are no registries, add one with POST /step-registries or berth registry add"
                }
                (false, false) => &near,
                (false, true) => "; GET /step-registries lists what there is",
            };
            Err(format!("no registry has a step \"{step}\"{near}"))
        }
        several => {
            let names: Vec<String> = several.iter().map(|(it, _)| format!("{}/{step}", it.name)).collect();
            Err(format!(
                "more than one registry has a step \"{step}\": write {}",
                join_words(names.iter().map(String::as_str), "or")
            ))
        }
    })
}

fn find_in_version(
    registry: &Registry,
    version: &RegistryVersion,
    step: &str,
) -> Result<AvailableStep, String> {
    let Some(found) = version.steps.iter().find(|it| it.key == step) else {
        let (near, _) = hint(step, version.steps.iter().map(|it| it.key.as_str()));
        return Err(format!(
            "registry \"{}\" has no step \"{step}\" at {}{near}",
            registry.name,
            short_hash(&version.commit)
        ));
    };
    Ok(AvailableStep {
        pinned: PinnedStep {
            registry: registry.id,
            name: registry.name.clone(),
            commit: version.commit.clone(),
            digest: version.digest.clone(),
            step_type: found.step_type.clone(),
            start: version.start.clone(),
            input: version.input,
        },
        schema: found.schema.clone(),
    })
}

fn nothing_built(registry: &Registry) -> String {
    let name = &registry.name;
    match (registry.seen.status, &registry.seen.error) {
        (RegistryStatus::Failed, Some(error)) => {
            format!("registry \"{name}\" was never built successfully, so its steps cannot be used: {error}")
        }
        _ => format!("registry \"{name}\" is not built yet; its steps can be used when its status is ready"),
    }
}

fn not_built(registry: &Registry, version: &str) -> String {
    let newest = match &registry.seen.current {
        Some(commit) => format!("the newest one is {}", short_hash(commit)),
        None => "there is none yet".into(),
    };
    format!(
        "registry \"{}\" has no version \"{version}\": {newest}. A version is a commit that was built (at least \
         {COMMIT_PREFIX_CHARS_MIN} characters of its hash), or a branch or tag it was built from",
        registry.name
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::super::state::RegistrySyncState;
    use super::super::{InputMode, RegistryName, StepMetadata};
    use super::*;
    use crate::id::RegistryId;
    use crate::repository::RemoteUrl;
    use crate::time::Timestamp;

    const NOON: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);
    const OLD: &str = "aaaaaaaa00000000000000000000000000000001";
    const NEW: &str = "aaaaaaaa00000000000000000000000000000002";

    fn registry(name: &str, number: u8, current: Option<&str>) -> Registry {
        Registry {
            id: RegistryId::from_parts(NOON, [number; 10]),
            name: RegistryName::parse(name).expect("a name"),
            url: RemoteUrl::parse("/srv/x").expect("a url"),
            reference: None,
            credential: None,
            seen: RegistrySyncState { current: current.map(str::to_owned), ..RegistrySyncState::default() },
            version: 1,
            created_at: NOON,
            updated_at: NOON,
            deleted_at: None,
        }
    }

    fn version(registry: &Registry, commit: &str, steps: &[&str]) -> RegistryVersion {
        let step = |own: &&str| StepMetadata {
            key: crate::registry::step_key(own).expect("a key"),
            step_type: (*own).to_owned(),
            name: None,
            short_description: None,
            long_description: None,
            yaml_example: None,
            schema: json!({"type": "object"}),
        };
        RegistryVersion {
            registry: registry.id,
            commit: commit.into(),
            number: 1,
            digest: format!("digest of {commit}"),
            start: "./start".into(),
            input: InputMode::Argument,
            steps: steps.iter().map(step).collect(),
            built_at: NOON,
        }
    }

    /// Registry `tools` has the versions `v1` and `v2`; `more` has one version, with a step of the same name; `new` has
    /// no version.
    fn resolve_to_text(text: &str) -> String {
        let (tools, more) = (registry("tools", 1, Some(NEW)), registry("more", 2, Some(OLD)));
        let mut failed = registry("broken", 4, None);
        failed.seen.status = RegistryStatus::Failed;
        failed.seen.error = Some("build exited with 1".into());
        let versions = [
            (version(&tools, OLD, &["CUSTOM:Deploy"]), Some("v1")),
            (version(&tools, NEW, &["CUSTOM:Deploy", "CUSTOM:Announce"]), Some("v2")),
            (version(&more, OLD, &["deploy", "Check"]), None),
        ];
        let registries = [tools, more, registry("new", 3, None), failed];
        let find = |registry: &Registry, wanted: VersionQuery<'_>| {
            let found = versions.iter().filter(|(version, _)| version.registry == registry.id);
            let found = found.filter(|(version, tag)| match wanted {
                VersionQuery::Commit(commit) => version.commit == commit,
                VersionQuery::Prefix(prefix) => version.commit.starts_with(prefix),
                VersionQuery::Named(name) => *tag == Some(name),
            });
            Ok::<_, Infallible>(found.map(|(version, _)| version.clone()).collect())
        };
        let Ok(offered) = resolve(text, &registries, find);
        match offered {
            Ok(offer) => format!("{} {} {}", offer.pinned.name, offer.pinned.step_type, offer.pinned.digest),
            Err(why) => why,
        }
    }

    #[test]
    fn resolve_finds_one_version_of_one_step() {
        for (text, expected) in [
            ("tools/deploy", format!("tools CUSTOM:Deploy digest of {NEW}")),
            ("tools/Deploy@v1", format!("tools CUSTOM:Deploy digest of {OLD}")),
            (&format!("tools/deploy@{OLD}"), format!("tools CUSTOM:Deploy digest of {OLD}")),
            ("CUSTOM:ANNOUNCE", format!("tools CUSTOM:Announce digest of {NEW}")),
            ("custom:check", format!("more Check digest of {OLD}")),
        ] {
            assert_eq!(resolve_to_text(text), expected, "{text}");
        }
    }

    #[test]
    fn resolve_of_unusable_type_says_why_and_what_to_do() {
        for (text, expected) in [
            (
                "tool/deploy",
                "there is no registry \"tool\"; did you mean `tools`? Else add it with POST /step-registries or \
                 berth registry add",
            ),
            (
                "tools/deplyo",
                "registry \"tools\" has no step \"deplyo\" at aaaaaaaa00; did you mean `deploy`?",
            ),
            ("new/x", "registry \"new\" is not built yet; its steps can be used when its status is ready"),
            (
                "broken/x",
                "registry \"broken\" was never built successfully, so its steps cannot be used: build exited with 1",
            ),
            (
                "CUSTOM:DEPLOY",
                "more than one registry has a step \"deploy\": write tools/deploy or more/deploy",
            ),
            ("CUSTOM:CHEK", "no registry has a step \"chek\"; did you mean `check`?"),
            ("tools/deploy@v3", "registry \"tools\" has no version \"v3\": the newest one is aaaaaaaa00."),
            (
                "tools/announce@v1",
                "registry \"tools\" has no step \"announce\" at aaaaaaaa00; there is deploy",
            ),
            ("tools/deploy@aaaaaaaa", "registry \"tools\" has more than one version aaaaaaaa: "),
            ("tools/deploy@aaaaaa", "registry \"tools\" has no version \"aaaaaa\""),
        ] {
            assert!(resolve_to_text(text).starts_with(expected), "{text}: {}", resolve_to_text(text));
        }
    }
}
