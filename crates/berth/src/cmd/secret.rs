//! `berth secret`: manages secrets. Their values can be written but not read back.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_api::secret::{ScopeKind, ScopeNew, SecretNew, SecretPut, WireSecret};
use clap_complete::ArgValueCandidates;

use crate::client::{ApiClient, ClientError, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::format_ago;
use crate::output::{CommandOutput, or_dash, print_note, strip_control_chars};

/// Maximum length of a value in the API.
const VALUE_BYTES_MAX: u64 = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct SecretArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: SecretCommand,
}

#[derive(clap::Subcommand)]
enum SecretCommand {
    /// Create or update a secret; the value is read from standard input or a file
    Set {
        /// Secret name
        name: String,
        /// Refused: other users of the machine can read command lines
        #[arg(hide = true)]
        value: Option<String>,
        /// File with the value [default: standard input]
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        /// Only for this pipeline
        #[arg(long, short, add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: Option<String>,
        /// Only for this stage or environment of the pipeline
        #[arg(long, requires = "pipeline")]
        stage: Option<String>,
        /// Description
        #[arg(long)]
        description: Option<String>,
    },
    /// List secrets, their versions and the pipelines that use them
    List,
    /// Remove a secret
    Rm {
        /// Secret name or id
        secret: String,
        /// Remove it even if pipelines use it
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &SecretArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        SecretCommand::Set { name, value: Some(_), .. } => {
            let name = strip_control_chars(name);
            let text = format!(
                "the value is not an argument, because other users of this machine can read command lines. \
                 Use standard input or a file:\n  printf %s \"$VALUE\" | berth secret set {name}\n  \
                 berth secret set {name} --from-file FILE"
            );
            Err(ClientError::Usage(text).into())
        }
        SecretCommand::Set { name, value: None, from_file, pipeline, stage, description } => {
            let scope = pipeline.as_ref().map(|pipeline| ScopeNew {
                kind: if stage.is_some() { ScopeKind::Stage } else { ScopeKind::Pipeline },
                pipeline_id: Some(pipeline.clone()),
                stage: stage.clone(),
            });
            let value = read_value(from_file.as_ref())?;
            set_secret(&client, &out, name, value, scope, description.clone())
        }
        SecretCommand::List => list_secrets(&client, &out),
        SecretCommand::Rm { secret, force } => {
            let gone =
                client.delete::<WireSecret>(&format!("/secrets/{}?force={force}", percent_encode(secret)))?;
            out.print_reply(&gone.raw, || format!("Removed {}.", gone.data.name))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads the secret's value. If it is a single line, its trailing newline is removed; multi-line values such as keys
/// keep theirs.
fn read_value(file: Option<&PathBuf>) -> anyhow::Result<String> {
    let mut value = String::new();
    match file {
        Some(file) => {
            let opened =
                std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            opened.take(VALUE_BYTES_MAX + 2).read_to_string(&mut value)?;
        }
        None => {
            if std::io::stdin().is_terminal() {
                print_note("Enter the value, then press Enter and Ctrl-D:");
            }
            std::io::stdin().lock().take(VALUE_BYTES_MAX + 2).read_to_string(&mut value)?;
        }
    }
    Ok(strip_line_end(&value).to_owned())
}

fn strip_line_end(value: &str) -> &str {
    match value.strip_suffix('\n') {
        Some(line) if !line.contains('\n') => line.strip_suffix('\r').unwrap_or(line),
        _ => value,
    }
}

/// Creates the secret, or updates it if one with this name and scope exists.
fn set_secret(
    client: &ApiClient,
    out: &CommandOutput,
    name: &str,
    value: String,
    scope: Option<ScopeNew>,
    description: Option<String>,
) -> anyhow::Result<ExitCode> {
    let all: Vec<WireSecret> = client.list("/secrets", RECORDS_MAX)?.data;
    let same = |it: &&WireSecret| it.name == name && has_scope(client, it, scope.as_ref());
    let saved = match all.iter().find(same) {
        Some(known) => {
            let description = description.or_else(|| known.description.clone());
            client.put::<WireSecret>(
                &format!("/secrets/{}", percent_encode(&known.id)),
                &SecretPut { value, description },
            )?
        }
        None => client.post("/secrets", &SecretNew { name: name.to_owned(), value, description, scope })?,
    };
    out.print_reply(&saved.raw, || format!("Saved {} (version {}).", saved.data.name, saved.data.version))?;
    for warning in &saved.data.warnings {
        print_note(&format!("warning: {}", warning.detail));
    }
    Ok(ExitCode::SUCCESS)
}

fn has_scope(client: &ApiClient, it: &WireSecret, wanted: Option<&ScopeNew>) -> bool {
    let Some(wanted) = wanted else { return it.scope.kind == ScopeKind::Organization };
    if it.scope.kind != wanted.kind || it.scope.stage != wanted.stage {
        return false;
    }
    let (Some(has), Some(asked)) = (&it.scope.pipeline_id, &wanted.pipeline_id) else { return false };
    if has == asked {
        return true;
    }
    let found =
        client.get::<berth_api::pipeline::WirePipeline>(&format!("/pipelines/{}", percent_encode(asked)));
    found.is_ok_and(|found| found.data.id == *has)
}

fn list_secrets(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let found = client.list::<WireSecret>("/secrets", RECORDS_MAX)?;
    let row = |it: &WireSecret| {
        let scope = match (&it.scope.pipeline_id, &it.scope.stage) {
            (Some(pipeline), Some(stage)) => format!("{pipeline}/{stage}"),
            (Some(pipeline), None) => pipeline.clone(),
            _ => "organization".to_owned(),
        };
        let users: Vec<_> = it.used_by.iter().map(|user| user.slug.as_str()).collect();
        vec![
            it.name.clone(),
            scope,
            it.version.to_string(),
            format_ago(&it.updated_at),
            or_dash(Some(&users.join(", "))),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["name", "scope", "version", "updated", "used by", "id"];
    out.print_table(&found.raw, &heading, &rows, "No secrets. Create one with `berth secret set NAME`.")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::strip_line_end;

    #[test]
    fn single_line_secret_is_read_without_newline() {
        for (given, kept) in
            [("token\n", "token"), ("token\r\n", "token"), ("token", "token"), ("a\nb\n", "a\nb\n")]
        {
            assert_eq!(strip_line_end(given), kept);
        }
    }
}
