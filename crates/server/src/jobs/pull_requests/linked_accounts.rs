//! Links accounts on forges and in Slack to members, by a code in a comment or slash command.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::forge::ForgeUser;
use berth_core::id::OrgId;
use berth_store::Tx;
use berth_store::tables::forge_account::{self, ACCOUNTS_PER_MEMBER_MAX, ForgeAccount};

use super::account::load_member;
use crate::auth::tokens::hash_token;
use crate::error::AppError;

/// Links an account to the member who created the code. Returns what it did, or why it was refused.
pub(crate) fn connect_account(
    tx: &mut Tx<'_>,
    org: OrgId,
    host: &str,
    account: ForgeUser,
    code: &str,
) -> Result<Result<String, String>, AppError> {
    let refused = || Ok(Err("the code is not valid; it can be used once, within 10 minutes".to_owned()));
    let Some(user) = forge_account::take_code(tx, &hash_token(code))? else { return refused() };
    let Some(member) = load_member(tx, org, user)? else { return refused() };
    let linked = forge_account::list_of_member(tx, user)?;
    if linked.len() >= usize::try_from(ACCOUNTS_PER_MEMBER_MAX).unwrap_or(usize::MAX) {
        return Ok(Err(format!("a member can connect at most {ACCOUNTS_PER_MEMBER_MAX} accounts")));
    }
    tx.set_actor(member.holder.actor());
    let event = NewEvent::new(
        EventKind::ForgeAccountLinked,
        EventSubject::new("user", user, Some(&member.holder.name)),
    );
    tx.record(
        event
            .with("host", host)
            .with("account", account.name.as_str())
            .with("accountId", account.id.as_str()),
    )?;
    let created_at = tx.now();
    forge_account::insert(tx, user, &ForgeAccount { host: host.to_owned(), account, created_at })?;
    Ok(Ok(format!("connected to the Berth account {}", member.holder.name)))
}
