//! The demo's two organizations and their pipelines.

use berth_core::id::PipelineId;
use berth_core::name::{Email, Slug};
use berth_core::pipeline::state::{self, CreatePipelineCommand};
use berth_engine::declare_environments;
use berth_engine::definitions::check_definition;
use berth_server::auth::passwords::PasswordCost;
use berth_server::error::AppError;
use berth_server::setup::{CreatedOrganization, create_organization};
use berth_store::tables::pipeline;
use berth_store::{Store, TxContext};

const SHOP: &str = include_str!("shop.yaml");
/// Definition of the pipeline that needs no repository.
pub(super) const PLAYGROUND: &str = include_str!("playground.yaml");

/// An organization of the demo with its pipelines.
pub(super) struct DemoOrganization {
    pub(super) created: CreatedOrganization,
    pub(super) pipelines: Vec<state::Pipeline>,
}

/// Creates the two organizations. If `shop` is `None`, the first one starts without pipelines: they are created later,
/// and the definition of the shop's pipeline is then read from its repository.
pub(super) fn create_organizations(
    store: &Store,
    shop: Option<String>,
) -> Result<Vec<DemoOrganization>, AppError> {
    let playground = || ("playground", PLAYGROUND.to_owned());
    let acme = shop.map_or_else(Vec::new, |text| vec![("shop", text), playground()]);
    Ok(vec![
        create_demo_organization(store, "acme", "ada@acme.test", acme)?,
        create_demo_organization(store, "globex", "hank@globex.test", vec![playground()])?,
    ])
}

/// Returns the shop's definition. The URLs of the demo sites, in the order of [`SITE_NAMES`](super::sites::SITE_NAMES),
/// and the path of this program are filled in.
pub(super) fn shop_definition(addresses: &[String], program: &str) -> String {
    // A path may contain any character, so it is quoted as a JSON string, which is valid YAML.
    let quoted = serde_json::Value::from(program).to_string();
    let text = SHOP.replace("\"/usr/bin/berth\"", &quoted);
    // The template uses consecutive ports, starting at 8081, as placeholders for the sites.
    (8081..).zip(addresses).fold(text, |text, (port, address)| {
        text.replace(&format!("\"http://127.0.0.1:{port}\""), &format!("\"{address}\""))
    })
}

fn create_demo_organization(
    store: &Store,
    slug: &str,
    email: &str,
    definitions: Vec<(&str, String)>,
) -> Result<DemoOrganization, AppError> {
    let created = create_organization(
        store,
        parse_or_bug(Slug::parse(slug))?,
        parse_or_bug(Email::parse(email))?,
        PasswordCost::default(),
    )?;
    let mut pipelines = Vec::new();
    for (slug, source) in definitions {
        let slug = parse_or_bug(Slug::parse(slug))?;
        let definition = check_definition(&source)?;
        let made = store.transact_blocking(TxContext::system(Some(created.org.id)), move |tx| {
            let id = PipelineId::from_parts(tx.now(), tx.entropy()?);
            let environments = definition.environments.clone();
            let decision =
                state::create(CreatePipelineCommand { id, slug, name: None, definition }, None, tx.now())?;
            pipeline::put_definition(tx, &decision.answer.definition_hash, &source)?;
            let made = tx.commit(decision)?;
            declare_environments(tx, &made, environments)?;
            Ok::<_, AppError>(made)
        });
        pipelines.push(made?);
    }
    Ok(DemoOrganization { created, pipelines })
}

pub(super) fn parse_or_bug<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, AppError> {
    result.map_err(|error| AppError::bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shop_definition_uses_the_sites_and_program_of_the_demo() {
        let addresses = [1, 2, 3, 4].map(|port| format!("http://127.0.0.1:{port}"));
        let text = shop_definition(&addresses, "/opt/a \"quoted\" place/berth");
        for address in &addresses {
            assert_eq!(text.matches(&format!("\"{address}\"")).count(), 1, "{address}");
        }
        assert!(!text.contains("808") && !text.contains("/usr/bin/berth"), "{text}");
        assert!(check_definition(&text).is_ok(), "{text}");
    }
}
