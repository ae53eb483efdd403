//! Every migration and every statement works on PostgreSQL.

use berth_store::migrations::SCHEMA;
use berth_store::sql::{self, SqlEngine, render_sql};
use berth_testkit::{ScratchDatabase, outcome};

#[test]
fn postgresql_runs_every_migration_and_prepares_every_statement() {
    let Some(scratch) = ScratchDatabase::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut client = scratch.connect();
    for migration in SCHEMA.migrations {
        client.batch_execute(&migration.render_for(SqlEngine::Postgres)).unwrap_or_else(|error| {
            panic!("migration {} on PostgreSQL: {error:?}", migration.name);
        });
    }
    let mut failures = Vec::new();
    for statement in sql::all_statements() {
        match client.prepare(&render_sql(statement.text, SqlEngine::Postgres)) {
            Err(error) => failures.push(format!("{}: {error:?}", statement.name)),
            Ok(prepared) => {
                // All parameters and columns must have types that `SqlValue` supports.
                let params = prepared.params().iter().map(::postgres::types::Type::name);
                let columns = prepared.columns().iter().map(|column| column.type_().name());
                let odd = params.chain(columns).filter(|kind| !["text", "int8", "bytea"].contains(kind));
                failures.extend(odd.map(|kind| format!("{} uses {kind}", statement.name)));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
