//! Fills a store with pipelines, using the same rules and writes as the server.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use berth_core::id::{OrgId, PipelineId};
use berth_core::name::{DisplayName, Slug};
use berth_core::pipeline::state::{self, CheckedDefinition, CreatePipelineCommand, DefinitionOutline};
use berth_core::time::Timestamp;
use berth_definition::parse;
use berth_store::tables::pipeline;
use berth_store::{Store, TxContext};

/// Search term. Exactly [`SEARCHED_ROWS`] names in a list contain it, whatever the size of the list.
pub(crate) const SEARCHED: &str = "lighthouse";
pub(crate) const SEARCHED_ROWS: usize = 5;

const DEFINITION: &str = include_str!("pipeline.yaml");
/// Placeholder for the definition's hash; the store only compares it.
const DEFINITION_HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const ROWS_PER_TRANSACTION: usize = 5_000;
/// Interval between the creation times of consecutive rows. Without it, all rows of a transaction would have the same
/// creation time, and ids with the same time have no defined order.
const APART_MICROS: i64 = 1_000;

pub(crate) fn create_pipelines(store: &Store, org: OrgId, rows: usize) -> anyhow::Result<()> {
    let definition = parse(DEFINITION).definition.context("the benchmark's definition has errors")?;
    let defined = CheckedDefinition {
        hash: DEFINITION_HASH.into(),
        outline: DefinitionOutline::from_definition(&definition),
        environments: definition.ephemeral_environments,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let first = i64::try_from(now)? - i64::try_from(rows)? * APART_MICROS;
    for start in (0..rows).step_by(ROWS_PER_TRANSACTION) {
        let numbers = start..rows.min(start + ROWS_PER_TRANSACTION);
        let defined = defined.clone();
        store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            pipeline::put_definition(tx, DEFINITION_HASH, DEFINITION)?;
            for number in numbers {
                let created_at = Timestamp::from_micros(first + i64::try_from(number)? * APART_MICROS);
                let id = PipelineId::from_parts(created_at, tx.entropy()?);
                let (slug, name) = pipeline_names(number, rows);
                let name = Some(DisplayName::parse(&name)?);
                let command = CreatePipelineCommand {
                    id,
                    slug: Slug::parse(&slug)?,
                    name,
                    definition: defined.clone(),
                };
                tx.commit(state::create(command, None, created_at)?)?;
            }
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(())
}

fn pipeline_names(number: usize, rows: usize) -> (String, String) {
    let every = rows / SEARCHED_ROWS;
    if number % every == every / 2 && number / every < SEARCHED_ROWS {
        return (format!("{SEARCHED}-{number}"), format!("Lighthouse {number}"));
    }
    (format!("service-{number:07}"), format!("Service {number}"))
}
