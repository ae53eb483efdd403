//! A simulated client: it reads, is delayed, writes, and retries if another client was faster.

use super::site::{DrillSite, PendingDecision, WriteResult};
use crate::locks::generate;
use crate::locks::{EnvironmentIndex, LockRequest, LockViolation};
use crate::random::SeededRandom;

const TRIES_MAX: u8 = 3;

pub(super) struct DrillClient {
    person: u8,
    current: Option<ClientRequest>,
}

struct ClientRequest {
    place: EnvironmentIndex,
    request: LockRequest,
    tries: u8,
    /// A decision that has not been written yet.
    pending: Option<PendingDecision>,
}

impl DrillClient {
    pub(super) const fn new(person: u8) -> Self {
        Self { person, current: None }
    }

    /// Called when the server crashes. The client does not know whether its write happened, so it will repeat the
    /// request.
    pub(super) fn lose_server(&mut self) {
        if let Some(want) = &mut self.current {
            want.pending = None;
        }
    }

    pub(super) fn act(
        &mut self,
        site: &mut DrillSite,
        chance: &mut SeededRandom,
    ) -> Result<(), LockViolation> {
        let Some(mut want) = self.current.take() else {
            self.current = self.new_request(chance);
            return Ok(());
        };
        let Some(pending) = want.pending.take() else {
            want.pending = site.load_and_decide(want.place, &want.request);
            // Give up if the record that the request names does not exist.
            self.current = want.pending.is_some().then_some(want);
            return Ok(());
        };
        let again = match site.write(pending)? {
            WriteResult::Outdated => want.tries < TRIES_MAX && chance.percent(80),
            // Sometimes the response gets lost, so the client repeats the request.
            WriteResult::Done(_) => want.tries < TRIES_MAX && chance.percent(10),
        };
        want.tries += 1;
        self.current = again.then_some(want);
        Ok(())
    }

    fn new_request(&self, chance: &mut SeededRandom) -> Option<ClientRequest> {
        let mut request = generate::request(chance, true);
        let by = request.person_mut()?;
        *by = self.person;
        Some(ClientRequest { place: u8::from(chance.percent(25)), request, tries: 0, pending: None })
    }
}
