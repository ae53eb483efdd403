//! `berth admin reset-second-factor`: removes the second factor of a user who has lost it.

use std::process::ExitCode;

use berth_core::name::Email;
use berth_server::admin::{self, AdminRequest, AdminResponse};
use berth_store::Store;

use super::InstallationArgs;
use crate::cmd::open_store;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct ResetSecondFactorArgs {
    /// Email address of the user
    #[arg(value_name = "EMAIL", value_parser = Email::parse)]
    email: Email,
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &ResetSecondFactorArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let offline = |store: &Store| admin::reset_second_factor(store, args.email.clone());
    let answer = match found.database.as_deref() {
        // On a shared database, running servers notice the change by themselves.
        Some(url) => offline(&Store::open_postgres(url)?),
        None => match admin::send_request(
            &found.data_dir,
            &AdminRequest::ResetSecondFactor { email: args.email.clone() },
        )? {
            Some(answer) => answer,
            None => offline(&open_store(&found.data_dir, None)?.1),
        },
    };
    match answer {
        AdminResponse::SecondFactorReset => {}
        AdminResponse::Failed(why) => anyhow::bail!("{why}"),
        AdminResponse::Rotated { .. }
        | AdminResponse::ResetLink { .. }
        | AdminResponse::InstanceAdmins { .. } => {
            anyhow::bail!("unexpected response from the server")
        }
    }
    args.json.output().print_reply(&serde_json::json!({ "email": args.email.to_string() }), || {
        format!("Reset the second factor of {}. They can now log in with the password alone.", args.email)
    })?;
    Ok(ExitCode::SUCCESS)
}
