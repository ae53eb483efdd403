//! `berth admin reset-password`: creates a password reset link.

use std::process::ExitCode;

use berth_core::name::Email;
use berth_server::admin::{self, AdminRequest, AdminResponse};
use berth_server::config::local_dashboard;
use berth_store::Store;

use super::InstallationArgs;
use crate::cmd::open_store;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct ResetPasswordArgs {
    /// Email address of the user
    #[arg(value_name = "EMAIL", value_parser = Email::parse)]
    email: Email,
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &ResetPasswordArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let listen = found.settings.listen.to_string();
    let base = found.settings.public_url.clone().or_else(|| local_dashboard(&listen));
    let base = base.unwrap_or_else(|| format!("http://{listen}"));
    let offline =
        |store: &Store| admin::reset_password(store, args.email.clone(), base.trim_end_matches('/'));
    let answer = match found.database.as_deref() {
        // On a shared database, running servers notice the change by themselves.
        Some(url) => offline(&Store::open_postgres(url)?),
        None => match admin::send_request(
            &found.data_dir,
            &AdminRequest::ResetPassword { email: args.email.clone() },
        )? {
            Some(answer) => answer,
            None => offline(&open_store(&found.data_dir, None)?.1),
        },
    };
    let (url, expires_at) = match answer {
        AdminResponse::ResetLink { url, expires_at } => (url, expires_at),
        AdminResponse::Failed(why) => anyhow::bail!("{why}"),
        AdminResponse::Rotated { .. }
        | AdminResponse::SecondFactorReset
        | AdminResponse::InstanceAdmins { .. } => {
            anyhow::bail!("unexpected response from the server")
        }
    };
    args.json.output().print_reply(&serde_json::json!({ "url": url, "expiresAt": expires_at }), || {
        format!(
            "{url}\n\nSend this link to {} privately. It works once and expires at {expires_at}.",
            args.email
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
