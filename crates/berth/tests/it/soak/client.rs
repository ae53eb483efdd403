//! A client on an unreliable network: it sends a request to several servers, and again if the response is lost.

use std::time::Duration;

use serde_json::{Value, json};

use super::proxy::ServerPorts;
use super::{SERVERS, SoakState};
use crate::client::{HttpConnection, RawRequest, RawResponse};
use crate::harness::wait_until;
use crate::linear::accounts::TestAccount;
use crate::linear::history::{CallOutcome, LockCall};
use crate::linear::real_server::{build_request, parse_response};
use crate::random::SeededRandom;

/// Read timeout. If a server is paused for longer, the client gives up on it.
const SILENCE_MAX: Duration = Duration::from_secs(2);
const TRIES_MAX: usize = 6;
const TRY_PAUSE: Duration = Duration::from_millis(100);
const CONNECT_MAX: Duration = Duration::from_secs(40);

pub(super) struct UnreliableClient<'a> {
    pub(super) shared: &'a SoakState,
    pub(super) person: TestAccount,
    pub(super) random: SeededRandom,
    pub(super) number: usize,
    requests: usize,
}

/// Outcome of sending a request once.
enum SendOutcome {
    /// The server reported success or a refusal.
    Answered(RawResponse),
    /// The request may have taken effect, or may still do so.
    Unknown,
}

/// The outcome of a request with an idempotency key, after it was sent one or more times.
pub(super) struct RequestFate {
    /// The successful response. Every send must get the same one.
    pub(super) done: Option<RawResponse>,
    refused: Vec<RawResponse>,
    is_open: bool,
}

impl<'a> UnreliableClient<'a> {
    pub(super) fn new(
        shared: &'a SoakState,
        person: TestAccount,
        random: SeededRandom,
        number: usize,
    ) -> Self {
        Self { shared, person, random, number, requests: 0 }
    }

    /// Sends one random lock operation.
    pub(super) fn send_random_call(&mut self) {
        let shared = self.shared;
        let mut random = SeededRandom::from_seed(self.random.next_u64());
        shared.recorder.record_call(&mut random, |environment, call| match call {
            LockCall::Claim | LockCall::Force { .. } => self.send_opening_call(environment, call),
            LockCall::Release { .. } | LockCall::Get => {
                let asked = self.request(|api| build_request(api, environment, call));
                let told = match self.send(&asked) {
                    SendOutcome::Answered(response) if response.status == 404 => {
                        shared.report_violation(format!("{call:?}: what was acknowledged is not there"));
                        None
                    }
                    SendOutcome::Answered(response) => Some(self.to_outcome(call, &response)),
                    SendOutcome::Unknown => None,
                };
                vec![told]
            }
        });
    }

    fn send_opening_call(&mut self, environment: usize, call: &LockCall) -> Vec<Option<CallOutcome>> {
        let key = self.next_key();
        let mut asked = self.request(|api| build_request(api, environment, call));
        asked.body = Some(json!({ "context": key }).to_string().into_bytes());
        let fate = self.send_until_answered(asked, &key);
        let mut told: Vec<_> =
            fate.refused.iter().chain(&fate.done).map(|it| Some(self.to_outcome(call, it))).collect();
        if fate.done.is_none() && fate.is_open {
            told.push(None);
        }
        told
    }

    /// Returns an idempotency key that is unique among all clients.
    pub(super) fn next_key(&mut self) -> String {
        self.requests += 1;
        format!("client-{}-{}", self.number, self.requests)
    }

    pub(super) fn request(&mut self, make: impl Fn(&crate::client::ApiHandle) -> RawRequest) -> RawRequest {
        // This address is a placeholder. The real one is chosen when the request is sent.
        make(&self.person.api_at(([127, 0, 0, 1], 1).into()))
    }

    /// Sends the request, sometimes to two servers at once, until a response arrives, and often once more after that.
    pub(super) fn send_until_answered(&mut self, asked: RawRequest, key: &str) -> RequestFate {
        let asked = asked.header("Idempotency-Key", key);
        let mut fate = RequestFate { done: None, refused: Vec::new(), is_open: false };
        for _ in 0..TRIES_MAX {
            let sent = match self.random.next_u64().is_multiple_of(6) {
                true => self.send_twice(&asked),
                false => vec![self.send(&asked)],
            };
            for sent in sent {
                self.record_outcome(&mut fate, sent, key);
            }
            if fate.done.is_some() || !fate.is_open {
                break;
            }
            std::thread::sleep(TRY_PAUSE);
        }
        if fate.done.is_some() && self.random.next_u64().is_multiple_of(4) {
            let again = self.send(&asked);
            if matches!(&again, SendOutcome::Answered(it) if it.status >= 300) {
                self.shared.report_violation(format!("{key} was done, and is refused when it is repeated"));
            }
            self.record_outcome(&mut fate, again, key);
        }
        fate
    }

    fn record_outcome(&self, fate: &mut RequestFate, sent: SendOutcome, key: &str) {
        match sent {
            SendOutcome::Unknown => fate.is_open = true,
            SendOutcome::Answered(response) if response.status < 300 => {
                let data = |it: &RawResponse| -> Value { it.json()["data"].clone() };
                let before = fate.done.get_or_insert_with(|| response.clone());
                if data(before) != data(&response) {
                    let (one, other) = (before.text(), response.text());
                    self.shared.report_violation(format!("{key} has two answers: {one} and {other}"));
                }
            }
            SendOutcome::Answered(response) => {
                if response.json()["context"] == key {
                    self.shared.report_violation(format!(
                        "{key} was refused because of itself: {}",
                        response.text()
                    ));
                }
                fate.refused.push(response);
            }
        }
    }

    fn to_outcome(&self, call: &LockCall, response: &RawResponse) -> CallOutcome {
        let answer = parse_response(&self.person.id, call, response);
        CallOutcome { returned: self.shared.recorder.now(), answer }
    }

    fn send_twice(&mut self, asked: &RawRequest) -> Vec<SendOutcome> {
        let first = self.random.next_in(0..SERVERS as u64) as usize;
        let ports = &*self.shared.ports;
        std::thread::scope(|scope| {
            let both = [0, 1].map(|more| scope.spawn(move || send(ports, first + more, asked)));
            both.into_iter().map(|it| it.join().expect("its answer")).collect()
        })
    }

    pub(super) fn send_once(&mut self, asked: &RawRequest) -> Option<RawResponse> {
        match self.send(asked) {
            SendOutcome::Answered(response) => Some(response),
            SendOutcome::Unknown => None,
        }
    }

    fn send(&mut self, asked: &RawRequest) -> SendOutcome {
        let first = self.random.next_in(0..SERVERS as u64) as usize;
        send(&self.shared.ports, first, asked)
    }
}

/// Sends to the server `first`, or to the next one that accepts a connection.
fn send(ports: &ServerPorts, first: usize, asked: &RawRequest) -> SendOutcome {
    let mut client = wait_until(CONNECT_MAX, "server that accepts", || {
        let mut there = (first..first + SERVERS).filter_map(|server| ports.address(server % SERVERS));
        there.find_map(|address| HttpConnection::try_connect(address, SILENCE_MAX).ok())
    });
    let Ok(response) = client.send_request(asked) else { return SendOutcome::Unknown };
    let code = || response.json()["code"].as_str().map(str::to_owned);
    match response.status {
        503 => SendOutcome::Unknown,
        409 if code().as_deref() == Some("idempotency_in_progress") => SendOutcome::Unknown,
        _ => SendOutcome::Answered(response),
    }
}
