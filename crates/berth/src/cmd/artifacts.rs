//! `berth deployment artifacts` and `berth deployment download`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use berth_api::artifact::{DeploymentArtifact, DeploymentArtifacts};
use clap_complete::ArgValueCandidates;

use super::reference::resolve_exact_deployment;
use super::watch;
use crate::client::{ApiClient, ClientError, percent_encode};
use crate::complete;
use crate::output::{CommandOutput, print_note, strip_control_chars};

/// Name for the standard output.
const STDOUT: &str = "-";

#[derive(clap::Args)]
pub(super) struct DownloadArgs {
    /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
    #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
    id: String,
    /// Name of the artifact
    name: String,
    /// File to write, or - for standard output [default: NAME.tar.zst]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Digest, if several steps have stored an artifact of this name [default: the last one]
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
}

pub(super) fn list_artifacts(client: &ApiClient, out: &CommandOutput, id: &str) -> anyhow::Result<()> {
    let found = client.get::<DeploymentArtifacts>(&format!("{}/artifacts", watch::deployment_path(id)))?;
    let row = |it: &DeploymentArtifact| {
        let size = it.bytes.map_or_else(|| "removed".to_owned(), |bytes| bytes.to_string());
        vec![strip_control_chars(&it.name), size, it.digest.clone(), it.step_id.clone()]
    };
    let rows: Vec<_> = found.data.artifacts.iter().map(row).collect();
    let heading = ["artifact", "bytes", "digest", "step"];
    out.print_table(&found.raw, &heading, &rows, "No artifacts.")
}

/// Downloads an artifact. The file appears only after it is complete.
pub(super) fn download(client: &ApiClient, args: &DownloadArgs) -> anyhow::Result<()> {
    let digest =
        args.digest.as_deref().map_or_else(String::new, |it| format!("?digest={}", percent_encode(it)));
    let id = resolve_exact_deployment(client, &args.id)?;
    let (deployment, name) = (watch::deployment_path(&id), percent_encode(&args.name));
    let mut archive = client.get_reader(&format!("{deployment}/artifacts/{name}{digest}"))?;
    let to = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tar.zst", args.name)));
    let interrupted = "the download was interrupted";
    if to == Path::new(STDOUT) {
        let mut stdout = io::stdout().lock();
        io::copy(&mut archive, &mut stdout).context(interrupted)?;
        return stdout.flush().context("cannot print");
    }
    let shown = to.display();
    if to.exists() {
        return Err(ClientError::Usage(format!("{shown} exists; choose another file with --output")).into());
    }
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file =
        tempfile::NamedTempFile::new_in(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    let bytes = io::copy(&mut archive, file.as_file_mut()).context(interrupted)?;
    file.persist_noclobber(&to)
        .map_err(|error| error.error)
        .with_context(|| format!("cannot write {shown}"))?;
    print_note(&format!("Downloaded {shown} ({bytes} bytes). Unpack it with: tar --zstd -xf {shown}"));
    Ok(())
}
