//! Results of commands: comparable, and short enough to read.

use std::fmt;

use berth_core::decision::Refusal;
use berth_core::deployment::Deployment;
use berth_core::deployment::report::Order;
use berth_core::environment::claim::Claimed;
use berth_core::environment::release::Released;
use berth_core::environment::{Session, Ticket};

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Claimed(Box<Claimed>),
    Released(Box<Released>),
    Session(Box<Session>),
    Ticket(Box<Ticket>),
    Deployment(Box<Deployment>),
    Order(Order),
    Done,
    Refused(Refusal),
    /// The command names a record that does not exist.
    Nothing,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Claimed(claimed) => match claimed.as_ref() {
                Claimed::Session(opened) => {
                    session(f, &opened.session)?;
                    if opened.deployment.is_some() { write!(f, ", deploys") } else { Ok(()) }
                }
                Claimed::Ticket(it) => ticket(f, it),
            },
            Answer::Released(it) => {
                session(f, &it.session)?;
                write!(f, ", released: {}", it.released)
            }
            Answer::Session(it) => session(f, it),
            Answer::Ticket(it) => ticket(f, it),
            Answer::Deployment(it) => write!(f, "deployment {} {}", it.number, it.status.as_str()),
            Answer::Order(order) => write!(f, "{order:?}"),
            Answer::Done => f.write_str("done"),
            Answer::Refused(refusal) => write!(f, "no: {refusal}"),
            Answer::Nothing => f.write_str("no such record"),
        }
    }
}

fn session(f: &mut fmt::Formatter<'_>, session: &Session) -> fmt::Result {
    let Session { number, fence, holder, .. } = session;
    write!(f, "session {number} of {} at fence {fence}, {}", holder.name, session.status().as_str())
}

fn ticket(f: &mut fmt::Formatter<'_>, ticket: &Ticket) -> fmt::Result {
    write!(f, "ticket {} of {}, {}", ticket.number, ticket.holder.name, ticket.status.as_str())
}
