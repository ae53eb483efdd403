//! What a token may do is remembered by the writer, and never longer than it is true.

use berth_core::access::Role;
use berth_core::event::{EventKind, NewEvent, Subject};
use berth_core::id::{TokenId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;
use berth_store::records::member::{self, Member};
use berth_store::records::token::{self, Token};
use berth_store::records::user;
use berth_store::{StoreError, Tx};
use rusqlite::Connection;

use super::Ground;

struct Known {
    ground: Ground,
    owner: UserId,
    token: TokenId,
}

impl Known {
    /// A token of the owner that the writer has been asked about.
    fn new(expires_at: Option<Timestamp>) -> Self {
        let ground = Ground::in_a_file();
        let (owner, token) = ground.transact(move |tx| insert(tx, expires_at)).unwrap();
        let known = Self { ground, owner, token };
        known.check(Some(Role::Owner));
        known
    }

    fn check(&self, wanted: Option<Role>) {
        let token = self.token;
        let found = self.ground.transact(move |tx| token::standing(tx, token)).unwrap();
        assert_eq!(found.map(|(role, _)| role), wanted);
    }
}

fn insert(tx: &mut Tx<'_>, expires_at: Option<Timestamp>) -> Result<(UserId, TokenId), StoreError> {
    let owner = user::by_email(tx, &Email::parse("ada@acme.test").unwrap())?.unwrap().id;
    let id = TokenId::from_parts(tx.now(), tx.entropy()?);
    let name = DisplayName::parse("ci").unwrap();
    let (prefix, created_at) = ("berth_x".to_owned(), tx.now());
    let token =
        Token { id, user: owner, name, prefix, created_at, expires_at, last_used_at: None, revoked_at: None };
    token::insert(tx, &token, &[1; 32])?;
    tell(tx)?;
    Ok((owner, id))
}

/// Every change is told.
fn tell(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.record(NewEvent::new(EventKind::AccessDenied, Subject::new("user", "x", None)))
}

fn lower(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    member::put(tx, &Member { user, role: Role::Viewer, version: 2, created_at: tx.now() })?;
    tell(tx)
}

#[test]
fn a_token_that_was_revoked_may_nothing_from_then_on() {
    let known = Known::new(None);
    let token = known.token;
    let seen = known.ground.transact(move |tx| {
        token::revoke(tx, token)?;
        tell(tx)?;
        token::standing(tx, token)
    });
    assert_eq!(seen.unwrap(), None, "in the same change");
    known.check(None);
}

#[test]
fn a_role_that_was_lowered_is_seen_at_once_and_one_that_was_undone_is_not() {
    let known = Known::new(None);
    let (owner, token) = (known.owner, known.token);
    let undone = known.ground.transact(move |tx| -> Result<(), _> {
        lower(tx, owner)?;
        assert_eq!(token::standing(tx, token)?, Some((Role::Viewer, None)));
        Err(StoreError::Unavailable("no".into()))
    });
    assert!(undone.is_err());
    known.check(Some(Role::Owner));
    // Beside others in one commit.
    known.ground.at_once(9, |number| {
        let work = move |tx: &mut Tx<'_>| match number {
            0 => lower(tx, owner).and_then(|()| Err(StoreError::Unavailable("no".into()))),
            _ => {
                assert_eq!(token::standing(tx, token)?, Some((Role::Owner, None)));
                Ok(())
            }
        };
        assert_eq!(known.ground.transact(work).is_err(), number == 0);
    });
    known.ground.transact(move |tx| lower(tx, owner)).unwrap();
    known.check(Some(Role::Viewer));
}

#[test]
fn a_token_that_ran_out_may_nothing() {
    let known = Known::new(None);
    let soon = known.ground.transact(|tx| Ok(tx.now().plus_seconds(1))).unwrap();
    let known = Known::new(Some(soon));
    while known.ground.transact(|tx| Ok(tx.now())).unwrap() <= soon {
        std::thread::park_timeout(std::time::Duration::from_millis(25));
    }
    known.check(None);
}

#[test]
fn what_somebody_writes_by_hand_is_seen() {
    let known = Known::new(None);
    let db = Connection::open(known.ground.place.dir.path().join("berth.db")).unwrap();
    db.execute("UPDATE api_tokens SET revoked_at = 1", []).unwrap();
    known.check(None);
}
