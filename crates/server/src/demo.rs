//! Something to look at: two organizations, a few people, and pipelines to try things on.

use berth_core::id::PipelineId;
use berth_core::name::{Email, Slug};
use berth_core::pipeline::state::{self, Create};
use berth_store::records::pipeline;
use berth_store::{Context, Store};

use crate::app::{checked_definition, declare_environments};
use crate::error::AppError;
use crate::setup::{Created, create_organization};

const SHOP: &str = include_str!("demo/shop.yaml");
const PLAYGROUND: &str = include_str!("demo/playground.yaml");

/// An organization of the demo with its pipelines.
pub struct DemoOrganization {
    pub created: Created,
    pub pipelines: Vec<state::Pipeline>,
}

pub fn fill(store: &Store) -> Result<Vec<DemoOrganization>, AppError> {
    let organizations = [
        ("acme", "ada@acme.test", [("shop", SHOP), ("playground", PLAYGROUND)].as_slice()),
        ("globex", "hank@globex.test", [("playground", PLAYGROUND)].as_slice()),
    ];
    organizations
        .into_iter()
        .map(|(slug, email, pipelines)| organization(store, slug, email, pipelines))
        .collect()
}

fn organization(
    store: &Store,
    slug: &str,
    email: &str,
    definitions: &[(&str, &'static str)],
) -> Result<DemoOrganization, AppError> {
    let created = create_organization(store, parsed(Slug::parse(slug))?, parsed(Email::parse(email))?)?;
    let mut pipelines = Vec::new();
    for (slug, source) in definitions {
        let slug = parsed(Slug::parse(slug))?;
        let definition = checked_definition(source)?;
        let source = *source;
        let made = store.transact_blocking(Context::system(Some(created.org.id)), move |tx| {
            let id = PipelineId::from_parts(tx.now(), tx.entropy()?);
            let environments = definition.environments.clone();
            let decision = state::create(Create { id, slug, name: None, definition }, None, tx.now())?;
            pipeline::put_definition(tx, &decision.answer.definition_hash, source)?;
            let made = tx.commit(decision)?;
            declare_environments(tx, &made, environments)?;
            Ok::<_, AppError>(made)
        });
        pipelines.push(made?);
    }
    Ok(DemoOrganization { created, pipelines })
}

fn parsed<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, AppError> {
    result.map_err(|error| AppError::bug(error.to_string()))
}
