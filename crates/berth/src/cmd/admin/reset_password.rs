//! `berth admin reset-password`: a link with which a person sets a new password.

use std::process::ExitCode;

use berth_core::name::Email;
use berth_server::admin::{self, Answer, Request};
use berth_server::config::local_dashboard;
use berth_store::Store;
use berth_store::data_dir::DataDir;

use super::Place;
use crate::cmd::{open, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address of the account
    #[arg(value_name = "EMAIL", value_parser = Email::parse)]
    email: Email,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    let request = Request::ResetPassword { email: args.email.clone() };
    let answer = match admin::ask(&found.data_dir, &request)? {
        Some(answer) => answer,
        None => {
            let (_dir, store) = match found.database.as_deref() {
                None => open(&found.data_dir, None)?,
                Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
            };
            let listen = found.settings.listen.to_string();
            let base = found.settings.public_url.clone().or_else(|| local_dashboard(&listen));
            let base = base.unwrap_or_else(|| format!("http://{listen}"));
            admin::reset_password(&store, args.email.clone(), base.trim_end_matches('/'))
        }
    };
    let (url, expires_at) = match answer {
        Answer::ResetLink { url, expires_at } => (url, expires_at),
        Answer::Failed(why) => anyhow::bail!("{why}"),
        Answer::Rotated { .. } => anyhow::bail!("the server answered another command"),
    };
    say(&if args.json {
        serde_json::json!({ "url": url, "expiresAt": expires_at }).to_string()
    } else {
        format!("{url}\n\nSend it to {} in private. It works once, until {expires_at}.", args.email)
    })?;
    Ok(ExitCode::SUCCESS)
}
