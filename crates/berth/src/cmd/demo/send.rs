//! `berth demo send`: sends a page to a demo site. The sample repository's steps use it, so that they do not depend on
//! programs such as curl.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ureq::Agent;

use crate::output::print_line;

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_BYTES_MAX: u64 = 4 * 1024;

#[derive(clap::Args)]
pub(crate) struct SendArgs {
    /// Page to send
    file: PathBuf,
    /// Site URL
    #[arg(long, value_name = "URL")]
    to: String,
    /// Deployed commit
    #[arg(long)]
    commit: String,
    /// User who deployed it
    #[arg(long)]
    who: String,
    /// Fencing token of the session
    #[arg(long)]
    fence: Option<u64>,
}

pub(super) fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let page = std::fs::read_to_string(&args.file)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let config =
        Agent::config_builder().proxy(None).timeout_global(Some(SEND_TIMEOUT)).http_status_as_error(false);
    let agent = Agent::new_with_config(config.build());
    let mut request = agent.put(&args.to).header("demo-commit", &args.commit).header("demo-who", &args.who);
    if let Some(fence) = args.fence {
        request = request.header("demo-fence", fence.to_string());
    }
    let mut answer = request.send(page).with_context(|| format!("cannot reach the site at {}", args.to))?;
    let text = answer.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_string()?;
    print_line(&format!("{} returned {}: {text}", args.to, answer.status().as_u16()))?;
    Ok(if answer.status().is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
