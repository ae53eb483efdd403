//! `berth team`: teams and their members.

use std::process::ExitCode;

use berth_api::team::{TeamMember, TeamNew, TeamPatch, WireTeam};
use clap_complete::ArgValueCandidates;
use serde_json::json;

use super::member::find_member;
use crate::client::{RECORDS_MAX, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::strip_control_chars;

#[derive(clap::Args)]
pub(crate) struct TeamArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: TeamCommand,
}

#[derive(clap::Subcommand)]
enum TeamCommand {
    /// Create a team
    Create {
        /// Name in definitions and scopes, such as sre
        slug: String,
        /// Display name [default: the slug]
        #[arg(long)]
        name: Option<String>,
    },
    /// List teams
    List,
    /// Change the display name of a team
    Rename {
        /// Slug of the team
        #[arg(add = ArgValueCandidates::new(complete::teams))]
        team: String,
        /// New display name
        name: String,
    },
    /// List the members of a team
    Members {
        /// Slug of the team
        #[arg(add = ArgValueCandidates::new(complete::teams))]
        team: String,
    },
    /// Add a member to a team
    Add {
        /// Slug of the team
        #[arg(add = ArgValueCandidates::new(complete::teams))]
        team: String,
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
    },
    /// Remove a member from a team
    Remove {
        /// Slug of the team
        #[arg(add = ArgValueCandidates::new(complete::teams))]
        team: String,
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
    },
    /// Delete a team and its grants; its members stay in the organization
    Delete {
        /// Slug of the team
        #[arg(add = ArgValueCandidates::new(complete::teams))]
        team: String,
    },
}

pub(crate) fn run(args: &TeamArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let path = |team: &str| format!("/teams/{}", percent_encode(team));
    match &args.command {
        TeamCommand::Create { slug, name } => {
            let body = TeamNew { slug: slug.clone(), name: name.clone() };
            let made = client.post::<WireTeam>("/teams", &body)?;
            out.print_reply(&made.raw, || {
                let slug = &made.data.slug;
                format!("Created the team {slug}. Add members with: berth team add {slug} MEMBER")
            })?;
        }
        TeamCommand::List => {
            let found = client.list::<WireTeam>("/teams", RECORDS_MAX)?;
            let row = |it: &WireTeam| {
                vec![
                    it.slug.clone(),
                    strip_control_chars(&it.name),
                    it.member_count.to_string(),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let empty = "No teams. Create one with: berth team create SLUG";
            out.print_table(&found.raw, &["slug", "name", "members", "id"], &rows, empty)?;
        }
        TeamCommand::Rename { team, name } => {
            let body = TeamPatch { name: Some(name.clone()) };
            let renamed = client.patch::<WireTeam>(&path(team), &body)?;
            out.print_reply(&renamed.raw, || {
                format!("The team {team} is now called {}.", strip_control_chars(&renamed.data.name))
            })?;
        }
        TeamCommand::Members { team } => {
            let found = client.get::<Vec<TeamMember>>(&format!("{}/members", path(team)))?;
            let row = |it: &TeamMember| {
                vec![
                    strip_control_chars(&it.name),
                    strip_control_chars(&it.email),
                    strip_control_chars(&it.source),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let empty = format!("No members. Add one with: berth team add {team} MEMBER");
            out.print_table(&found.raw, &["name", "e-mail", "source"], &rows, &empty)?;
        }
        TeamCommand::Add { team, member } => {
            let member = find_member(&client, member)?;
            let path = format!("{}/members/{}", path(team), percent_encode(&member.id));
            let added = client.put::<TeamMember>(&path, &json!({}))?;
            out.print_reply(&added.raw, || {
                format!("Added {} to {team}.", strip_control_chars(&added.data.name))
            })?;
        }
        TeamCommand::Remove { team, member } => {
            let member = find_member(&client, member)?;
            let path = format!("{}/members/{}", path(team), percent_encode(&member.id));
            let gone = client.delete::<TeamMember>(&path)?;
            out.print_reply(&gone.raw, || {
                format!("Removed {} from {team}.", strip_control_chars(&gone.data.name))
            })?;
        }
        TeamCommand::Delete { team } => {
            let gone = client.delete::<WireTeam>(&path(team))?;
            out.print_reply(&gone.raw, || format!("Deleted the team {}.", gone.data.slug))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
