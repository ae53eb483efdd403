//! `berth init`: creates an organization, its owner and an API token.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::name::{Email, Slug};
use berth_engine::credential::RedactedString;
use berth_engine::vault::WhenMissing;
use berth_server::setup::{CreatedOrganization, create_organization};
use berth_store::data_dir::DataDir;
use serde_json::json;

use super::{open_store, open_vault, to_cli_error};
use crate::config::ServerSettings;
use crate::logging;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct InitArgs {
    /// Data directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Slug of the new organization, for example acme
    #[arg(long, value_parser = Slug::parse)]
    org: Slug,
    /// Email address of the owner
    #[arg(long, value_parser = Email::parse)]
    email: Email,
    /// PostgreSQL URL [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Root key file; created if it does not exist [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let settings = ServerSettings::load(args.config.as_deref())?;
    logging::start(&settings.log, true);
    let database = args.database.as_deref().or(settings.database.as_deref());
    let (dir, store) = open_store(args.data_dir.as_deref().unwrap_or(&settings.data_dir), database)?;
    let key = args.root_key_file.as_deref().or(settings.root_key_file.as_deref());
    open_vault(&store, &dir, key, WhenMissing::Create)?;
    let cost = settings.passwords.cost()?;
    let created =
        create_organization(&store, args.org.clone(), args.email.clone(), cost).map_err(to_cli_error)?;
    args.json.output().print_reply(&to_json(&created), || to_text(&created, &dir, database))?;
    Ok(ExitCode::SUCCESS)
}

fn to_json(created: &CreatedOrganization) -> serde_json::Value {
    json!({
        "organization": { "id": created.org.id.to_string(), "slug": created.org.slug.as_str() },
        "user": { "id": created.user.id.to_string(), "email": created.user.email.as_str() },
        "password": created.password.as_ref().map(RedactedString::reveal),
        "apiToken": created.token.reveal(),
    })
}

fn to_text(created: &CreatedOrganization, dir: &DataDir, database: Option<&str>) -> String {
    // The database URL may contain a password, so it is not printed.
    let database = if database.is_some() { " --database postgres://…" } else { "" };
    format!(
        "Organization  {}  {}\n\
         Owner         {}\n\
         Password      {}\n\
         API token     {}\n\n\
         Save the password and the token; they are not shown again. Next:\n  berth serve --data-dir {}{database}",
        created.org.slug,
        created.org.id,
        created.user.email,
        created.password.as_ref().map_or("(unchanged)", RedactedString::reveal),
        created.token.reveal(),
        dir.path().display(),
    )
}
