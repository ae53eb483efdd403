//! Arguments of `berth runner`.

use std::path::PathBuf;

use berth_core::runner::SLOTS_MAX;

use super::fleet::RunnerCommand;
use crate::config::{KubernetesSettings, SandboxLevel};

/// Runs steps for a server on this machine. The subcommands manage the runners of an organization instead.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct RunnerArgs {
    #[command(subcommand)]
    pub(super) command: Option<RunnerCommand>,
    /// Server URL, for example https://berth.acme.test
    #[arg(long, value_name = "URL", required = true)]
    pub(super) server: Option<String>,
    /// Registration token; needed only for the first start
    #[arg(long, value_name = "TOKEN", env = "BERTH_RUNNER_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// Runner name, unless one was set on the server [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Additional labels for runs_on; operating system and architecture are always set
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) labels: Vec<String>,
    /// Work directory; each runner needs its own
    #[arg(long, value_name = "DIR", default_value = "berth-runner")]
    pub(super) work_dir: PathBuf,
    /// Number of steps to run in parallel
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(i64).range(1..=SLOTS_MAX))]
    pub(super) slots: i64,
    /// Sandbox for steps
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    pub(super) sandbox: SandboxLevel,
    /// File, socket or directory that every step can access; can be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) expose: Vec<PathBuf>,
    /// Unprivileged user to run steps as; the runner must be root
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Socket of Podman or Docker, for steps in containers
    #[arg(long, value_name = "PATH")]
    pub(super) container_socket: Option<PathBuf>,
    /// Allow steps in containers to use the network of this machine
    #[arg(long, requires = "container_socket")]
    pub(super) container_host_network: bool,
    #[command(flatten)]
    pub(super) kubernetes: KubernetesSettings,
    /// Allow plain http, for trusted networks only: secrets and the credential are sent unencrypted
    #[arg(long)]
    pub(super) allow_plain_http: bool,
}
