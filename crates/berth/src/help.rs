//! Help texts: the commands grouped by task, and examples.

use std::fmt::Write as _;

/// Rows of `berth --help`: commands, and what they do.
type HelpRow = (&'static [&'static str], &'static str);

const COMMAND_GROUPS: &[(&str, &[HelpRow])] = &[
    (
        "Environments and deployments",
        &[
            (&["env"], "Claim, deploy to, release and take over environments"),
            (&["deploy"], "Deploy a commit through the stages of a pipeline"),
            (&["status"], "Show or watch a deployment"),
            (&["logs"], "Print or follow the log of a step"),
            (&["approve", "reject"], "Decide about deployments that wait for approval"),
            (&["analyze"], "Explain a failed step and suggest a fix"),
            (&["deployment"], "List, cancel, retry and roll back deployments"),
            (&["pr"], "List, show and approve pull requests"),
            (&["open"], "Open a dashboard page in the browser"),
        ],
    ),
    (
        "Pipelines and settings",
        &[
            (&["pipeline"], "Manage pipelines and validate definitions"),
            (&["run"], "Run a stage locally, without a server"),
            (&["repo", "registry"], "Manage repositories and custom steps"),
            (&["secret", "webhook", "chat"], "Manage secrets, webhooks and messages to chats"),
            (&["event", "insights"], "Read the audit log and the delivery metrics"),
        ],
    ),
    (
        "Login and access",
        &[
            (&["login", "logout"], "Log in to a server, or log out"),
            (&["whoami", "inbox"], "Show the account that you use, and its notifications"),
            (&["member", "team", "grant"], "Manage people, teams and roles"),
            (&["agents", "mcp"], "Manage coding agents and serve their tools"),
            (&["org", "token"], "Manage organizations and API tokens"),
        ],
    ),
    (
        "Server and setup",
        &[
            (&["init", "serve"], "Create an organization, and run the server"),
            (&["demo"], "Work with a running demo (start it with serve --demo)"),
            (&["runner"], "Run steps on this machine, or manage runners"),
            (&["admin", "upgrade"], "Administer an installation"),
            (&["completion", "man"], "Print shell completions, and write man pages"),
        ],
    ),
];

/// Examples by command.
const EXAMPLES: &[(&[&str], &[&str])] = &[
    (
        &["env"],
        &[
            "berth env list",
            "berth env claim qa-1 --commit HEAD --why \"load test\"",
            "berth env deploy qa-1 HEAD",
            "berth env release qa-1",
        ],
    ),
    (&["env", "list"], &["berth env list", "berth env list --json envName,lockStatus"]),
    (
        &["env", "claim"],
        &[
            "berth env claim qa-1 --commit HEAD --why \"load test\"",
            "berth env claim qa-1 --commit HEAD --queue -- ./run-tests.sh",
            "berth env claim --label small --pipeline shop --queue --for grace --keep-on-failure 2h -- ./run-tests.sh",
        ],
    ),
    (&["env", "deploy"], &["berth env deploy qa-1 HEAD", "berth env deploy shop/qa-1 feature/dark --detach"]),
    (
        &["env", "take-over"],
        &[
            "berth env take-over qa-1 --why hotfix --commit HEAD",
            "berth env take-over qa-1 --why hotfix --grace 5m",
        ],
    ),
    (
        &["deploy"],
        &[
            "berth deploy shop",
            "berth deploy shop HEAD --why \"fix the checkout\"",
            "berth deploy shop --ref v1.4.0 --detach",
        ],
    ),
    (
        &["status"],
        &["berth status shop", "berth status shop#12 --watch", "berth status shop --json id,status"],
    ),
    (&["logs"], &["berth logs shop", "berth logs shop -f", "berth logs shop/qa-1#2 smoke-test --tail 50"]),
    (&["approve"], &["berth approve", "berth approve shop#12 --why \"tested in staging\""]),
    (&["reject"], &["berth reject shop#12 --why \"waits for the migration\""]),
    (&["analyze"], &["berth analyze shop", "berth analyze shop#12 --fix"]),
    (
        &["deployment"],
        &[
            "berth deployment list --pipeline shop --status failed",
            "berth deployment retry shop#12",
            "berth deployment rollback shop#12 production --why \"slow\"",
            "berth deployment list --jq '.data[] | select(.status == \"running\") | .id'",
        ],
    ),
    (&["pr"], &["berth pr list", "berth pr show 42"]),
    (&["open"], &["berth open", "berth open shop", "berth open qa-1", "berth open shop#12"]),
    (
        &["pipeline"],
        &[
            "berth pipeline validate .berth/shop/pipeline.yaml",
            "berth pipeline list",
            "berth pipeline stop shop --why \"release freeze\"",
        ],
    ),
    (&["run"], &["berth run staging", "berth run --help"]),
    (&["repo"], &["berth repo add https://git.acme.test/shop.git", "berth repo list"]),
    (&["secret"], &["berth secret set DEPLOY_KEY --from-file key.pem", "berth secret list"]),
    (
        &["secret", "set"],
        &[
            "printf %s \"$TOKEN\" | berth secret set DEPLOY_TOKEN",
            "berth secret set DEPLOY_KEY --from-file key.pem --pipeline shop",
        ],
    ),
    (
        &["webhook"],
        &[
            "berth webhook create ops https://hooks.acme.test/berth --events deployment_failed",
            "berth webhook deliveries ops",
            "berth webhook redeliver ops",
        ],
    ),
    (
        &["chat"],
        &[
            "printf %s \"$URL\" | berth chat add deploys --to slack-webhook",
            "berth chat test deploys",
            "berth chat slack --manifest",
        ],
    ),
    (
        &["event"],
        &[
            "berth event list --pipeline shop",
            "berth event follow --kind session_overridden",
            "berth event verify",
        ],
    ),
    (
        &["insights"],
        &["berth insights", "berth insights --pipeline shop --days 90", "berth insights --daily"],
    ),
    (&["registry"], &["berth registry new house --lang shell", "berth registry test house --step greet"]),
    (
        &["login"],
        &[
            "berth login https://berth.acme.test",
            "berth login --device https://berth.acme.test",
            "berth login --with-token https://berth.acme.test < token.txt",
        ],
    ),
    (
        &["member"],
        &[
            "berth member list",
            "berth member invite grace@acme.test --role tester",
            "berth member role grace approver",
        ],
    ),
    (&["team"], &["berth team create sre --name Reliability", "berth team add sre grace"]),
    (&["grant"], &["berth grant add grace tester \"shop/qa-*\"", "berth grant list team:sre"]),
    (
        &["token"],
        &[
            "berth token create ci --days 30",
            "berth token create ci --restrict-to environments:claim=shop/qa-1",
        ],
    ),
    (
        &["agents"],
        &["berth agents create coder --sessions 2", "berth agents stop --reason \"runaway claims\""],
    ),
    (&["org"], &["berth org create globex --name Globex", "berth org list"]),
    (
        &["runner"],
        &[
            "berth runner list",
            "berth runner create build-1 --labels gpu",
            "berth runner --server https://berth.acme.test --token TOKEN",
        ],
    ),
    (&["init"], &["berth init --data-dir berth-data --org acme --email ada@acme.test"]),
    (&["serve"], &["berth serve --demo", "berth serve --data-dir berth-data"]),
    (&["admin"], &["berth admin doctor", "berth admin backup --to backup"]),
    (
        &["completion"],
        &["source <(berth completion bash)", "berth completion fish > ~/.config/fish/completions/berth.fish"],
    ),
];

/// Adds the groups to the help of the program, and examples to the help of its commands.
pub(crate) fn describe_commands(program: clap::Command) -> clap::Command {
    let template = group_commands(&program);
    let styles = program.get_styles().clone();
    let header = styles.get_header();
    let described = EXAMPLES.iter().fold(program, |program, (path, lines)| {
        let text = format!("{header}Examples:{header:#}\n  {}", lines.join("\n  "));
        add_after_help(program, path, text)
    });
    described.help_template(template)
}

fn add_after_help(command: clap::Command, path: &[&str], text: String) -> clap::Command {
    match path.split_first() {
        None => command.after_help(text),
        Some((name, rest)) => command.mut_subcommand(name, |command| add_after_help(command, rest, text)),
    }
}

fn group_commands(program: &clap::Command) -> String {
    let (header, literal) = (*program.get_styles().get_header(), *program.get_styles().get_literal());
    let name_width = |(names, _): &HelpRow| names.join(", ").len();
    let width = COMMAND_GROUPS.iter().flat_map(|(_, rows)| rows.iter()).map(name_width).max().unwrap_or(0);
    let mut help = "{about}\n{usage-heading} {usage}\n".to_owned();
    for (heading, rows) in COMMAND_GROUPS {
        let _ = write!(help, "\n{header}{heading}:{header:#}\n");
        for (names, about) in *rows {
            let names = names.join(", ");
            let _ = writeln!(help, "  {literal}{names:<width$}{literal:#}  {about}");
        }
    }
    let _ = writeln!(
        help,
        "\n{header}Options:{header:#} {literal}-h{literal:#}, {literal}--help{literal:#} and {literal}-V{literal:#}, {literal}--version{literal:#}"
    );
    help
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn help_lists_every_command_once() {
        let rows = COMMAND_GROUPS.iter().flat_map(|(_, rows)| rows.iter());
        let mut listed: Vec<&str> = rows.flat_map(|(names, _)| names.iter().copied()).collect();
        let cli = Cli::command();
        let mut commands: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }

    /// Splits a line into words, as a shell does with quotes.
    fn split_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for letter in line.chars() {
            match (letter, quote) {
                ('"' | '\'', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open => quote = None,
                (' ', None) => words.push(std::mem::take(&mut word)),
                (letter, _) => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for (path, lines) in EXAMPLES {
            for line in *lines {
                let command = line.split("berth ").nth(1).expect("a command");
                let command = command.split(" < ").next().and_then(|it| it.split(" > ").next());
                let command = command.expect("the command without redirections");
                let command =
                    if line.starts_with("source") { command.trim_end_matches(')') } else { command };
                let words = split_words(&format!("berth {command}"));
                assert!(command.starts_with(&path.join(" ")), "{line} is not about {path:?}");
                let parsed = Cli::command().try_get_matches_from(&words);
                let is_help = parsed.as_ref().is_err_and(|error| !error.use_stderr());
                assert!(parsed.is_ok() || is_help, "{line}: {:?}", parsed.err());
            }
        }
    }
}
