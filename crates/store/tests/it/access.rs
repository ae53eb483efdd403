//! Cached permissions stay valid until the access generation changes.

use berth_core::access::Role;
use berth_core::client_info::ClientInfo;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{TokenId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;
use berth_store::tables::member::{self, Member};
use berth_store::tables::token::{self, Token};
use berth_store::tables::user;
use berth_store::{StoreError, Tx, TxContext};
use rusqlite::Connection;

use super::StoreFixture;

struct TokenFixture {
    fixture: StoreFixture,
    owner: UserId,
    token: TokenId,
    context: TxContext,
}

impl TokenFixture {
    /// Creates a token for the owner and checks that it is valid at the current access generation.
    fn new(expires_at: Option<Timestamp>) -> Self {
        let fixture = StoreFixture::on_sqlite();
        let (owner, token) = fixture.transact(move |tx| insert_token(tx, expires_at)).unwrap();
        let access = fixture.store.access_generation().map(|(generation, _)| generation);
        let context = TxContext { access, ..TxContext::system(Some(fixture.org)) };
        let authorized = Self { fixture, owner, token, context };
        authorized.check(true, Some(Role::Owner));
        authorized
    }

    fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.fixture.store.transact_blocking(self.context.clone(), work)
    }

    fn check(&self, is_unchanged: bool, role: Option<Role>) {
        let token = self.token;
        let found = self.transact(move |tx| Ok((tx.is_access_unchanged(), current_role(tx, token)?)));
        assert_eq!(found.unwrap(), (is_unchanged, role));
    }
}

fn insert_token(tx: &mut Tx<'_>, expires_at: Option<Timestamp>) -> Result<(UserId, TokenId), StoreError> {
    let owner = user::by_email(tx, &Email::parse("ada@acme.test").unwrap())?.unwrap().id;
    let id = TokenId::from_parts(tx.now(), tx.entropy()?);
    let name = DisplayName::parse("ci").unwrap();
    let (prefix, created_at) = ("berth_x".to_owned(), tx.now());
    let token = Token {
        id,
        user: owner,
        name,
        prefix,
        created_at,
        expires_at,
        restriction: None,
        environment: None,
        last_used_at: None,
        last_used_address: None,
        last_used_client: None,
        revoked_at: None,
    };
    token::insert(tx, &token, &[1; 32])?;
    record_event(tx)?;
    Ok((owner, id))
}

/// Records an event, because a transaction that writes must record one.
fn record_event(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))
}

fn current_role(tx: &mut Tx<'_>, token: TokenId) -> Result<Option<Role>, StoreError> {
    Ok(token::find_access(tx, token)?.map(|found| found.access.role))
}

fn lower_role(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    member::put(tx, &Member { user, role: Role::Viewer, version: 2, created_at: tx.now() })?;
    record_event(tx)
}

#[test]
fn access_generation_changes_with_the_transaction_that_revokes_a_token() {
    let authorized = TokenFixture::new(None);
    let token = authorized.token;
    let seen = authorized.transact(move |tx| {
        token::revoke(tx, token)?;
        record_event(tx)?;
        Ok((tx.is_access_unchanged(), current_role(tx, token)?))
    });
    assert_eq!(seen.unwrap(), (false, None));
    authorized.check(false, None);
}

#[test]
fn lowered_role_applies_to_later_jobs_of_the_same_commit() {
    let authorized = TokenFixture::new(None);
    let (owner, token) = (authorized.owner, authorized.token);
    let undone = authorized.transact(move |tx| -> Result<(), _> {
        lower_role(tx, owner)?;
        assert_eq!(current_role(tx, token)?, Some(Role::Viewer));
        Err(StoreError::Unavailable("no".into()))
    });
    assert!(undone.is_err());
    authorized.check(false, Some(Role::Owner));
    authorized.fixture.run_in_one_commit(9, |number| {
        let work = move |tx: &mut Tx<'_>| match number {
            0 => lower_role(tx, owner).and_then(|()| Err(StoreError::Unavailable("no".into()))),
            _ => {
                assert_eq!(current_role(tx, token)?, Some(Role::Owner));
                Ok(())
            }
        };
        assert_eq!(authorized.transact(work).is_err(), number == 0);
    });
    authorized.transact(move |tx| lower_role(tx, owner)).unwrap();
    authorized.check(false, Some(Role::Viewer));
}

#[test]
fn access_generation_ignores_unrelated_writes() {
    let authorized = TokenFixture::new(None);
    let token = authorized.token;
    let client = ClientInfo::new([127, 0, 0, 1].into(), "berth/0.1.0");
    authorized.transact(move |tx| token::touch(tx, token, &client)).unwrap();
    authorized.transact(record_event).unwrap();
    authorized.check(true, Some(Role::Owner));
}

#[test]
fn expired_token_has_no_role() {
    let authorized = TokenFixture::new(None);
    let soon = authorized.transact(|tx| Ok(tx.now().plus_seconds(1))).unwrap();
    let authorized = TokenFixture::new(Some(soon));
    while authorized.transact(|tx| Ok(tx.now())).unwrap() <= soon {
        std::thread::park_timeout(std::time::Duration::from_millis(25));
    }
    authorized.check(true, None);
}

#[test]
fn access_generation_changes_with_a_write_by_another_process() {
    let authorized = TokenFixture::new(None);
    let db = Connection::open(authorized.fixture.location.dir.path().join("berth.db")).unwrap();
    db.execute("UPDATE api_tokens SET revoked_at = 1", []).unwrap();
    authorized.check(false, None);
}
