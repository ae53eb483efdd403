//! A client with unreliable responses: it sends a request to several servers, and again after a lost response.

use std::time::Duration;

use serde_json::{Value, json};

use super::proxy::Doors;
use super::{SERVERS, Shared};
use crate::client::{Client, Request, Response};
use crate::harness::until;
use crate::linear::accounts::Person;
use crate::linear::history::{Call, Outcome};
use crate::linear::real_server::{answer, request};
use crate::random::Random;

/// Read timeout; a server that was stopped for longer is given up.
const SILENCE_MAX: Duration = Duration::from_secs(2);
const TRIES_MAX: usize = 6;
const TRY_PAUSE: Duration = Duration::from_millis(100);
const DOOR_MAX: Duration = Duration::from_secs(40);

pub(super) struct Asker<'a> {
    pub(super) shared: &'a Shared,
    pub(super) person: Person,
    pub(super) random: Random,
    pub(super) number: usize,
    requests: usize,
}

/// Outcome of sending a request once.
enum Sent {
    /// The server reported success or a refusal.
    Answered(Response),
    /// The request may have taken effect, or may still do so.
    Unknown,
}

/// What is known about a request with an idempotency key after all sends.
pub(super) struct Fate {
    /// The successful response; identical for every send.
    pub(super) done: Option<Response>,
    refused: Vec<Response>,
    is_open: bool,
}

impl<'a> Asker<'a> {
    pub(super) fn new(shared: &'a Shared, person: Person, random: Random, number: usize) -> Self {
        Self { shared, person, random, number, requests: 0 }
    }

    /// Sends one random lock operation.
    pub(super) fn turn(&mut self) {
        let shared = self.shared;
        let mut random = Random::seeded(self.random.next());
        shared.board.turn(&mut random, |environment, call| match call {
            Call::Claim | Call::Force { .. } => self.open(environment, call),
            Call::Release { .. } | Call::Get => {
                let asked = self.request(|api| request(api, environment, call));
                let told = match self.send(&asked) {
                    Sent::Answered(response) if response.status == 404 => {
                        shared.wrong(format!("{call:?}: what was acknowledged is not there"));
                        None
                    }
                    Sent::Answered(response) => Some(self.outcome(call, &response)),
                    Sent::Unknown => None,
                };
                vec![told]
            }
        });
    }

    fn open(&mut self, environment: usize, call: &Call) -> Vec<Option<Outcome>> {
        let key = self.key();
        let mut asked = self.request(|api| request(api, environment, call));
        asked.body = Some(json!({ "context": key }).to_string().into_bytes());
        let fate = self.settle(asked, &key);
        let mut told: Vec<_> =
            fate.refused.iter().chain(&fate.done).map(|it| Some(self.outcome(call, it))).collect();
        if fate.done.is_none() && fate.is_open {
            told.push(None);
        }
        told
    }

    /// Returns an idempotency key that is unique among all clients.
    pub(super) fn key(&mut self) -> String {
        self.requests += 1;
        format!("client-{}-{}", self.number, self.requests)
    }

    pub(super) fn request(&mut self, make: impl Fn(&crate::client::Api) -> Request) -> Request {
        // The address is chosen when the request is sent.
        make(&self.person.api_at(([127, 0, 0, 1], 1).into()))
    }

    /// Sends the request, sometimes to two servers at once, until it is answered, and often once more after that.
    pub(super) fn settle(&mut self, asked: Request, key: &str) -> Fate {
        let asked = asked.header("Idempotency-Key", key);
        let mut fate = Fate { done: None, refused: Vec::new(), is_open: false };
        for _ in 0..TRIES_MAX {
            let sent = match self.random.next().is_multiple_of(6) {
                true => self.send_twice(&asked),
                false => vec![self.send(&asked)],
            };
            for sent in sent {
                self.learn(&mut fate, sent, key);
            }
            if fate.done.is_some() || !fate.is_open {
                break;
            }
            std::thread::sleep(TRY_PAUSE);
        }
        if fate.done.is_some() && self.random.next().is_multiple_of(4) {
            let again = self.send(&asked);
            if matches!(&again, Sent::Answered(it) if it.status >= 300) {
                self.shared.wrong(format!("{key} was done, and is refused when it is repeated"));
            }
            self.learn(&mut fate, again, key);
        }
        fate
    }

    fn learn(&self, fate: &mut Fate, sent: Sent, key: &str) {
        match sent {
            Sent::Unknown => fate.is_open = true,
            Sent::Answered(response) if response.status < 300 => {
                let data = |it: &Response| -> Value { it.json()["data"].clone() };
                let before = fate.done.get_or_insert_with(|| response.clone());
                if data(before) != data(&response) {
                    let (one, other) = (before.text(), response.text());
                    self.shared.wrong(format!("{key} has two answers: {one} and {other}"));
                }
            }
            Sent::Answered(response) => {
                if response.json()["context"] == key {
                    self.shared.wrong(format!("{key} was refused because of itself: {}", response.text()));
                }
                fate.refused.push(response);
            }
        }
    }

    fn outcome(&self, call: &Call, response: &Response) -> Outcome {
        let answer = answer(&self.person.id, call, response);
        Outcome { returned: self.shared.board.now(), answer }
    }

    fn send_twice(&mut self, asked: &Request) -> Vec<Sent> {
        let first = self.random.within(0..SERVERS as u64) as usize;
        let doors = &*self.shared.doors;
        std::thread::scope(|scope| {
            let both = [0, 1].map(|more| scope.spawn(move || send(doors, first + more, asked)));
            both.into_iter().map(|it| it.join().expect("its answer")).collect()
        })
    }

    pub(super) fn send_once(&mut self, asked: &Request) -> Option<Response> {
        match self.send(asked) {
            Sent::Answered(response) => Some(response),
            Sent::Unknown => None,
        }
    }

    fn send(&mut self, asked: &Request) -> Sent {
        let first = self.random.within(0..SERVERS as u64) as usize;
        send(&self.shared.doors, first, asked)
    }
}

/// Sends to this server, or to the next one that accepts a connection.
fn send(doors: &Doors, first: usize, asked: &Request) -> Sent {
    let mut client = until(DOOR_MAX, "server that accepts", || {
        let mut there = (first..first + SERVERS).filter_map(|server| doors.address(server % SERVERS));
        there.find_map(|address| Client::try_connect(address, SILENCE_MAX).ok())
    });
    let Ok(response) = client.ask(asked) else { return Sent::Unknown };
    let code = || response.json()["code"].as_str().map(str::to_owned);
    match response.status {
        503 => Sent::Unknown,
        409 if code().as_deref() == Some("idempotency_in_progress") => Sent::Unknown,
        _ => Sent::Answered(response),
    }
}
