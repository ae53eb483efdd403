//! `berth org`: the organizations of an installation, for instance admins.

use std::process::ExitCode;

use berth_api::organization::{InstanceOrganization, OrganizationNew, OrganizationRename};

use crate::client::{RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::strip_control_chars;

const PATH: &str = "/api/v1/instance/organizations";

#[derive(clap::Args)]
pub(crate) struct OrgArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: OrgCommand,
}

#[derive(clap::Subcommand)]
enum OrgCommand {
    /// Create an organization; you become its owner
    Create {
        /// Name in URLs, such as globex
        slug: String,
        /// Display name [default: the slug]
        #[arg(long)]
        name: Option<String>,
    },
    /// List all organizations
    List,
    /// Change the slug; the old one keeps working
    Rename {
        /// Slug or id of the organization
        organization: String,
        /// New slug
        slug: String,
        /// New display name
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete an organization and everything in it
    Delete {
        /// Slug of the organization
        organization: String,
        /// The slug again, as confirmation
        #[arg(long, value_name = "SLUG")]
        confirm: String,
    },
}

pub(crate) fn run(args: &OrgArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let path = |organization: &str| format!("{PATH}/{}", percent_encode(organization));
    match &args.command {
        OrgCommand::Create { slug, name } => {
            let body = OrganizationNew { slug: slug.clone(), name: name.clone() };
            let made = client.post::<InstanceOrganization>(PATH, &body)?;
            out.print_reply(&made.raw, || {
                format!("Created the organization {}. You are its owner.", made.data.slug)
            })?;
        }
        OrgCommand::List => {
            let found = client.list::<InstanceOrganization>(PATH, RECORDS_MAX)?;
            let row = |it: &InstanceOrganization| {
                vec![
                    it.slug.clone(),
                    strip_control_chars(&it.name),
                    it.member_count.to_string(),
                    it.former_slugs.join(", "),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let columns = ["slug", "name", "members", "former slugs", "id"];
            out.print_table(&found.raw, &columns, &rows, "No organizations.")?;
        }
        OrgCommand::Rename { organization, slug, name } => {
            let body = OrganizationRename { slug: Some(slug.clone()), name: name.clone() };
            let renamed = client.patch::<InstanceOrganization>(&path(organization), &body)?;
            out.print_reply(&renamed.raw, || {
                format!("Renamed {organization} to {}. The old slug keeps working.", renamed.data.slug)
            })?;
        }
        OrgCommand::Delete { organization, confirm } => {
            let path = format!("{}?confirm={}", path(organization), percent_encode(confirm));
            let gone = client.delete::<InstanceOrganization>(&path)?;
            out.print_reply(&gone.raw, || format!("Deleted the organization {}.", gone.data.slug))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
