//! `berth env claim --keep-on-failure`: keeps the session after a failure, so that the environment can be examined.

use berth_api::session::{ExtendRequest, WireSession};
use berth_core::environment::limits::{TTL_S_MAX, TTL_S_MIN};

use super::target::EnvironmentRef;
use crate::client::ApiClient;
use crate::output::time::{format_clock, format_duration, format_time_left, parse_seconds, seconds_between};
use crate::output::{print_note, strip_control_chars};

/// Parses the time to keep a session. Checked before the command runs, because the server refuses other lengths.
pub(super) fn parse_keep_seconds(text: &str) -> Result<i64, String> {
    let seconds = parse_seconds(text)?;
    if (TTL_S_MIN..=TTL_S_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("must be from {} to {}", format_duration(TTL_S_MIN), format_duration(TTL_S_MAX)))
}

/// Makes the session end `seconds` from now. The command has kept its TTL below that. Returns whether it is kept.
pub(super) fn keep_session(
    client: &ApiClient,
    place: &EnvironmentRef,
    session: &WireSession,
    failure: &str,
    seconds: i64,
) -> bool {
    let path = format!("{}/extend", place.session_path(&session.session_id));
    match client.post::<WireSession>(&path, &ExtendRequest { ttl_seconds: Some(seconds) }) {
        Ok(kept) => {
            let has_own_token = session.session_token.is_some();
            print_note(&describe_kept(place, &kept.data, failure, seconds, has_own_token));
            true
        }
        Err(error) => {
            print_note(&format!("berth: cannot keep {}: {error:#}. Releasing it.", place.name));
            false
        }
    }
}

fn describe_kept(
    place: &EnvironmentRef,
    kept: &WireSession,
    failure: &str,
    seconds: i64,
    has_own_token: bool,
) -> String {
    let name = &place.name;
    let mut lines = vec![match &kept.expires_at {
        Some(at) => {
            format!("berth: {failure}; keeping {name} until {} ({}).", format_clock(at), format_time_left(at))
        }
        None => format!("berth: {failure}; keeping {name} until it is released."),
    }];
    let length = seconds_between(kept.extended_at.as_deref(), kept.expires_at.as_deref());
    if length.is_some_and(|length| length < seconds) {
        lines.push(format!(
            "That is less than the requested {}: {name} releases sessions that are idle.",
            format_duration(seconds)
        ));
    }
    if let Some(takeover) = &kept.takeover {
        let when = takeover.at.as_deref().map_or_else(String::new, |at| format!(" at {}", format_clock(at)));
        lines.push(format!("{} will take it over{when}.", strip_control_chars(&takeover.by.name)));
    }
    let contact = match &kept.contact {
        Some(contact) => format!("Contact: {}", strip_control_chars(contact)),
        None => format!("Holder: {}", strip_control_chars(&kept.holder.name)),
    };
    let who = if has_own_token { " (as a member who may release other members' sessions)" } else { "" };
    lines.push(format!("{contact}. Release it{who} with: berth env release {}/{name}", place.pipeline));
    lines.join("\n")
}
