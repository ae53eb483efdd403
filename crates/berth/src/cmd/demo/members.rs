//! Members of the demo organization, with tokens so that the scenario can act as each of them.

use berth_core::access::Role;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_engine::credential::RedactedString;
use berth_server::app::issue_token;
use berth_server::auth::passwords::{self, PasswordCost};
use berth_server::error::AppError;
use berth_store::tables::member::{self, Member};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::{Store, TxContext};

use super::organizations::parse_or_bug;

/// Adds Grace, Linus and the service account `ci` as deployers of this organization, and returns their tokens.
pub(super) fn add_members(store: &Store, org: OrgId, owner: UserId) -> Result<[RedactedString; 3], AppError> {
    Ok([
        add_member(store, org, owner, "Grace", false)?,
        add_member(store, org, owner, "Linus", false)?,
        add_member(store, org, owner, "ci", true)?,
    ])
}

fn add_member(
    store: &Store,
    org: OrgId,
    owner: UserId,
    name: &'static str,
    is_service: bool,
) -> Result<RedactedString, AppError> {
    let email = parse_or_bug(Email::parse(&format!("{}@acme.test", name.to_lowercase())))?;
    let (shown, token_name) =
        (parse_or_bug(DisplayName::parse(name))?, parse_or_bug(DisplayName::parse("demo"))?);
    let hash = (!is_service).then(|| passwords::hash(&passwords::generate(), PasswordCost::default()));
    store.transact_blocking(TxContext::system(Some(org)), move |tx| {
        let account = match hash {
            Some(password_hash) => {
                UserAccount::Person { password_hash: Some(password_hash), password_is_generated: true }
            }
            None => UserAccount::Service { owner, is_agent: false },
        };
        let (id, created_at) = (UserId::from_parts(tx.now(), tx.entropy()?), tx.now());
        user::put(tx, &User { id, name: shown, email, account, created_at })?;
        member::put(tx, &Member { user: id, role: Role::Deployer, version: 1, created_at })?;
        let subject = EventSubject::new("user", id, Some(name));
        tx.record(NewEvent::new(EventKind::MemberAdded, subject).with("role", Role::Deployer.as_str()))?;
        Ok(issue_token(tx, id, token_name, None, None)?.1)
    })
}
