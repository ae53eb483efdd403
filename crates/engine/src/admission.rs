//! Admission control: limits concurrent operations in total and per organization, so that no organization can starve
//! another.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use berth_core::id::OrgId;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::error::EngineError;

/// A total limit, and the share of it that one organization may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionCapacity {
    pub total: usize,
    pub share: usize,
}

impl AdmissionCapacity {
    pub const fn new(total: usize, share: usize) -> Self {
        Self { total, share }
    }
}

/// Limits how many operations run and how many wait, in total and per key `K` (usually the organization). Operations
/// beyond the limits are refused.
///
/// An operation first acquires a permit from the share of its key, and then one from the common pool. An organization
/// therefore never has more operations in the common queue than its share, so other organizations wait for at most that
/// many.
pub struct AdmissionControl<K = OrgId> {
    at_once: AdmissionCapacity,
    waiting: AdmissionCapacity,
    all: PermitPools,
    shares: Mutex<HashMap<K, Weak<PermitPools>>>,
}

struct PermitPools {
    running: Arc<Semaphore>,
    /// One permit for each operation that runs or waits.
    admitted: Arc<Semaphore>,
}

/// Permits of a running operation, from its share and from the common pool. Released on drop.
pub struct AdmissionPermit {
    _running: [OwnedSemaphorePermit; 2],
    _admitted: AdmittedOperation,
}

struct AdmittedOperation {
    share: Arc<PermitPools>,
    _permits: [OwnedSemaphorePermit; 2],
}

impl PermitPools {
    fn new(running: usize, waiting: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
            admitted: Arc::new(Semaphore::new(running + waiting)),
        }
    }
}

impl<K: Hash + Eq> AdmissionControl<K> {
    pub fn new(at_once: AdmissionCapacity, waiting: AdmissionCapacity) -> Self {
        let all = PermitPools::new(at_once.total, waiting.total);
        Self { at_once, waiting, all, shares: Mutex::default() }
    }

    /// Creates an admission control that never queues operations, for callers that retry later with
    /// [`AdmissionControl::try_enter`].
    pub fn without_queue(at_once: AdmissionCapacity) -> Self {
        Self::new(at_once, AdmissionCapacity { total: 0, share: 0 })
    }

    /// Enters without waiting. Returns `None` if the share of `key` or the total is used up.
    pub fn try_enter(&self, key: K) -> Option<AdmissionPermit> {
        let admitted = self.admit(key)?;
        let of_share = admitted.share.running.clone().try_acquire_owned().ok()?;
        let of_all = self.all.running.clone().try_acquire_owned().ok()?;
        Some(AdmissionPermit { _running: [of_share, of_all], _admitted: admitted })
    }

    /// Waits for a permit. Refuses immediately if too many operations are waiting already.
    pub async fn enter(&self, key: K) -> Result<AdmissionPermit, EngineError> {
        let full = || EngineError::busy("too many requests of this kind at once; try again in a moment");
        let stopping = |_: AcquireError| EngineError::busy("shutting down");
        let admitted = self.admit(key).ok_or_else(full)?;
        let of_share = admitted.share.running.clone().acquire_owned().await.map_err(stopping)?;
        let of_all = self.all.running.clone().acquire_owned().await.map_err(stopping)?;
        Ok(AdmissionPermit { _running: [of_share, of_all], _admitted: admitted })
    }

    /// Waits for a permit and runs the blocking `work` on a blocking thread. Like [`AdmissionControl::enter`], refuses
    /// immediately if too many operations are waiting already.
    pub async fn run<T: Send + 'static>(
        &self,
        key: K,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let pass = self.enter(key).await?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(pass);
            result
        });
        done.await.map_err(|_| EngineError::bug("heavy work panicked"))
    }

    /// Whether any operation of `key` is running or waiting.
    pub fn has_operation(&self, key: &K) -> bool {
        self.shares.lock().get(key).is_some_and(|share| share.strong_count() > 0)
    }

    fn admit(&self, key: K) -> Option<AdmittedOperation> {
        let share = self.share(key);
        let of_share = share.admitted.clone().try_acquire_owned().ok()?;
        let of_all = self.all.admitted.clone().try_acquire_owned().ok()?;
        Some(AdmittedOperation { share, _permits: [of_share, of_all] })
    }

    fn share(&self, key: K) -> Arc<PermitPools> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&key).and_then(Weak::upgrade) {
            return share;
        }
        // Remove the shares of keys that have no operations; a share is recreated when it is needed.
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(PermitPools::new(self.at_once.share, self.waiting.share));
        shares.insert(key, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;
    use crate::limits;

    const NO_QUEUE: AdmissionCapacity = AdmissionCapacity { total: 0, share: 0 };

    #[tokio::test]
    async fn operations_beyond_queue_limit_are_refused_until_a_slot_is_free() {
        let gate: Arc<AdmissionControl<u8>> = Arc::new(AdmissionControl::new(
            AdmissionCapacity { total: 1, share: 1 },
            AdmissionCapacity { total: 2, share: 2 },
        ));
        for _ in 0..3 {
            let (release, held) = mpsc::channel::<()>();
            let held = Arc::new(Mutex::new(held));
            let mut running = Vec::new();
            for _ in 0..3 {
                let (gate, held) = (gate.clone(), held.clone());
                running
                    .push(tokio::spawn(async move { gate.run(1, move || held.lock().recv().is_ok()).await }));
            }
            while gate.all.admitted.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            for _ in 0..5 {
                assert!(gate.run(1, || ()).await.is_err());
            }
            (0..3).for_each(|_| release.send(()).unwrap());
            for done in running {
                assert!(done.await.unwrap().unwrap());
            }
            assert_eq!(gate.all.admitted.available_permits(), 3);
        }
    }

    #[tokio::test]
    async fn panicking_operation_releases_its_permit() {
        let gate: AdmissionControl<u8> =
            AdmissionControl::new(AdmissionCapacity { total: 1, share: 1 }, NO_QUEUE);
        assert!(gate.run(1, || panic!("as it was told")).await.is_err());
        assert!(gate.run(1, || true).await.unwrap());
    }

    /// Checks the limits that are used in production.
    #[test]
    fn greedy_organization_leaves_capacity_for_others_in_every_limit() {
        let queued = [
            (limits::DEFINITIONS_AT_ONCE, limits::DEFINITIONS_WAITING_MAX),
            (limits::LOG_READS_AT_ONCE, limits::LOG_READS_WAITING_MAX),
            (limits::TRANSFERS_AT_ONCE, limits::TRANSFERS_WAITING_MAX),
            (limits::HISTORY_CHECKS_AT_ONCE, limits::HISTORY_CHECKS_WAITING_MAX),
            (limits::GIT_AT_ONCE, limits::GIT_WAITING_MAX),
            (limits::PLANS_AT_ONCE, limits::PLANS_WAITING_MAX),
            (limits::BEGUN_AT_ONCE, limits::BEGUN_WAITING_MAX),
            (limits::GRANTS_AT_ONCE, limits::GRANTS_WAITING_MAX),
        ];
        for (at_once, waiting) in queued {
            let gate: AdmissionControl<&str> = AdmissionControl::new(at_once, waiting);
            let mut greedy: Vec<_> =
                (0..2 * (at_once.total + waiting.total)).map(|_| gate.enter("a")).map(Box::pin).collect();
            let entered = greedy.iter_mut().filter_map(|it| poll(it.as_mut())?.ok()).collect::<Vec<_>>();
            assert_eq!(entered.len(), at_once.share, "{at_once:?}");
            let mut other = Box::pin(gate.enter("b"));
            assert!(poll(other.as_mut()).is_some_and(|entered| entered.is_ok()), "{at_once:?} {waiting:?}");
        }
        let unqueued = [
            limits::SYNCS_AT_ONCE,
            limits::REGISTRY_BUILDS_AT_ONCE,
            limits::ANALYSES_AT_ONCE,
            limits::FIXES_AT_ONCE,
            limits::SENDS_AT_ONCE,
            limits::PINGS_AT_ONCE,
            crate::logs::LOGS_OPEN_MAX,
        ];
        for at_once in unqueued {
            let gate: AdmissionControl<&str> = AdmissionControl::without_queue(at_once);
            let greedy: Vec<_> = (0..2 * at_once.total).map_while(|_| gate.try_enter("a")).collect();
            assert_eq!(greedy.len(), at_once.share);
            assert!(gate.try_enter("b").is_some(), "{at_once:?}");
        }
    }

    fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        }
    }

    #[derive(Debug, Clone)]
    enum AdmissionMove {
        Enter(u8),
        TryEnter(u8),
        /// A running operation ends.
        Leave(prop::sample::Index),
        GiveUp(prop::sample::Index),
    }

    fn some_moves() -> impl Strategy<Value = Vec<AdmissionMove>> {
        let one = prop_oneof![
            4 => (0u8..4).prop_map(AdmissionMove::Enter),
            1 => (0u8..4).prop_map(AdmissionMove::TryEnter),
            3 => any::<prop::sample::Index>().prop_map(AdmissionMove::Leave),
            1 => any::<prop::sample::Index>().prop_map(AdmissionMove::GiveUp),
        ];
        prop::collection::vec(one, 0..80)
    }

    fn some_capacity(from: usize) -> impl Strategy<Value = AdmissionCapacity> {
        (from..5).prop_flat_map(move |total| {
            (from.min(total)..=total).prop_map(move |share| AdmissionCapacity { total, share })
        })
    }

    type WaitingEntry<'a> = (u8, Pin<Box<dyn Future<Output = Result<AdmissionPermit, EngineError>> + 'a>>);

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

        #[test]
        fn shares_hold_and_no_permit_stays_idle_while_operations_wait(
            at_once in some_capacity(1), waiting in some_capacity(0), moves in some_moves()
        ) {
            let gate: AdmissionControl<u8> = AdmissionControl::new(at_once, waiting);
            let (mut inside, mut queue): (Vec<(u8, AdmissionPermit)>, Vec<WaitingEntry<'_>>) = (Vec::new(), Vec::new());
            for it in moves {
                let of = |all: &[u8], key: u8| all.iter().filter(|other| **other == key).count();
                let running: Vec<u8> = inside.iter().map(|(key, _)| *key).collect();
                let admitted: Vec<u8> =
                    running.iter().copied().chain(queue.iter().map(|(key, _)| *key)).collect();
                let is_full = |key| admitted.len() == at_once.total + waiting.total
                    || of(&admitted, key) == at_once.share + waiting.share;
                match it {
                    AdmissionMove::Enter(key) => {
                        let mut future: Pin<Box<dyn Future<Output = _>>> = Box::pin(gate.enter(key));
                        match poll(future.as_mut()) {
                            Some(Ok(pass)) => inside.push((key, pass)),
                            Some(Err(_)) => prop_assert!(is_full(key)),
                            None => queue.push((key, future)),
                        }
                        prop_assert!(inside.len() + queue.len() > admitted.len() || is_full(key));
                    }
                    AdmissionMove::TryEnter(key) => match gate.try_enter(key) {
                        Some(pass) => inside.push((key, pass)),
                        None => prop_assert!(
                            is_full(key) || running.len() == at_once.total || of(&running, key) == at_once.share
                        ),
                    },
                    AdmissionMove::Leave(at) if !inside.is_empty() => drop(inside.swap_remove(at.index(inside.len()))),
                    AdmissionMove::GiveUp(at) if !queue.is_empty() => drop(queue.remove(at.index(queue.len()))),
                    AdmissionMove::Leave(_) | AdmissionMove::GiveUp(_) => {}
                }
                // Poll twice: an operation may have to wait first in the queue of its share and then in the common
                // queue.
                for _ in 0..2 {
                    let mut still = Vec::new();
                    for (key, mut future) in queue.drain(..) {
                        match poll(future.as_mut()) {
                            Some(entered) => inside.push((key, entered.unwrap())),
                            None => still.push((key, future)),
                        }
                    }
                    queue = still;
                }
                let running: Vec<u8> = inside.iter().map(|(key, _)| *key).collect();
                prop_assert!(running.len() <= at_once.total);
                for key in 0..4 {
                    prop_assert!(of(&running, key) <= at_once.share);
                    let waits = queue.iter().any(|(other, _)| *other == key);
                    let has_room = running.len() < at_once.total && of(&running, key) < at_once.share;
                    prop_assert!(!(waits && has_room), "organization {key} waits although there is room");
                    prop_assert_eq!(gate.has_operation(&key), waits || running.contains(&key));
                }
            }
            drop((inside, queue));
            prop_assert_eq!(gate.all.admitted.available_permits(), at_once.total + waiting.total);
            prop_assert_eq!(gate.all.running.available_permits(), at_once.total);
            drop(gate.try_enter(9));
            prop_assert!(gate.shares.lock().len() <= 1, "organizations without work are forgotten");
        }
    }
}
