//! `berth admin instance-admin`: who may create, rename and delete organizations.

use std::process::ExitCode;

use berth_core::name::Email;
use berth_server::admin::{self, AdminRequest, AdminResponse};
use berth_store::Store;

use super::InstallationArgs;
use crate::cmd::open_store;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct InstanceAdminArgs {
    /// Email address of the person
    #[arg(value_name = "EMAIL", value_parser = Email::parse)]
    email: Email,
    /// Take the permission away
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &InstanceAdminArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let offline = |store: &Store| admin::set_instance_admin(store, args.email.clone(), args.remove);
    let request = AdminRequest::SetInstanceAdmin { email: args.email.clone(), remove: args.remove };
    let answer = match found.database.as_deref() {
        // On a shared database, running servers notice the change by themselves.
        Some(url) => offline(&Store::open_postgres(url)?),
        None => match admin::send_request(&found.data_dir, &request)? {
            Some(answer) => answer,
            None => offline(&open_store(&found.data_dir, None)?.1),
        },
    };
    let admins = match answer {
        AdminResponse::InstanceAdmins { emails } => emails,
        AdminResponse::Failed(why) => anyhow::bail!("{why}"),
        AdminResponse::Rotated { .. }
        | AdminResponse::ResetLink { .. }
        | AdminResponse::SecondFactorReset => {
            anyhow::bail!("unexpected response from the server")
        }
    };
    args.json.output().print_reply(&serde_json::json!({ "instanceAdmins": admins }), || {
        let list = if admins.is_empty() { "none".to_owned() } else { admins.join(", ") };
        format!("Instance admins: {list}")
    })?;
    Ok(ExitCode::SUCCESS)
}
