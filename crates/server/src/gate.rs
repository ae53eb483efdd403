//! Gates: heavy work on threads of its own, so much at once, so much waiting, and no more.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::AppError;

pub struct Gate {
    /// One for each that runs or waits.
    places: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Gate {
    pub fn new(at_once: usize, waiting_max: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { places: semaphore(at_once + waiting_max), running: semaphore(at_once) }
    }

    /// Runs `work` off the async threads; refuses at once when too many wait already.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AppError> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| AppError::busy("too many requests of this kind at once"))?;
        let turn = self.running.clone().acquire_owned().await.map_err(|_| AppError::busy("shutting down"))?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((turn, place));
            result
        });
        done.await.map_err(|_| AppError::bug("heavy work panicked"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn one_too_many_is_refused_and_afterwards_there_is_room_again() {
        let gate = Arc::new(Gate::new(1, 2));
        for _ in 0..3 {
            let (release, held) = mpsc::channel::<()>();
            let held = Arc::new(std::sync::Mutex::new(held));
            let mut running = Vec::new();
            for _ in 0..3 {
                let (gate, held) = (gate.clone(), held.clone());
                running.push(tokio::spawn(async move {
                    gate.run(move || held.lock().unwrap().recv().is_ok()).await
                }));
            }
            while gate.places.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            for _ in 0..5 {
                assert!(gate.run(|| ()).await.is_err());
            }
            (0..3).for_each(|_| release.send(()).unwrap());
            for done in running {
                assert!(done.await.unwrap().unwrap());
            }
            assert_eq!(gate.places.available_permits(), 3);
        }
    }
}
