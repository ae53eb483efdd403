/** Soon after the first event of a burst, so that its other events are included. */
const COALESCE_MS = 40;
/** Shortest and longest interval between two refetches. */
const INTERVAL_MS_MIN = 150;
const INTERVAL_MS_MAX = 2_000;
/** The interval as a multiple of the time that the last refetch took, so that a tab leaves a slow server idle time. */
const INTERVAL_PER_REFETCH = 2;
/** A refetch that takes longer no longer delays the next one. */
const REFETCH_MS_MAX = 10_000;

/**
 * Batches what events make stale, and refetches it: within a fraction of a second while the server is fast, and less
 * often while it is slow. Refetches do not overlap, unless one hangs.
 */
export class RefetchSchedule<Key> {
  readonly #refetch: (keys: Key[]) => Promise<unknown>;
  readonly #stale = new Set<Key>();
  #timer?: ReturnType<typeof setTimeout>;
  #isRefetching = false;
  #isStopped = false;
  #nextAt = 0;

  constructor(refetch: (keys: Key[]) => Promise<unknown>) {
    this.#refetch = refetch;
  }

  add(keys: Iterable<Key>) {
    for (const key of keys) this.#stale.add(key);
    this.#plan();
  }

  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #plan() {
    if (this.#timer !== undefined || this.#isRefetching || this.#isStopped || this.#stale.size === 0) return;
    this.#timer = setTimeout(() => this.#flush(), Math.max(COALESCE_MS, this.#nextAt - Date.now()));
  }

  async #flush() {
    this.#timer = undefined;
    this.#isRefetching = true;
    const keys = [...this.#stale];
    this.#stale.clear();
    const startedAt = Date.now();
    await Promise.race([this.#refetch(keys).catch(() => {}), sleep(REFETCH_MS_MAX)]);
    const interval = INTERVAL_PER_REFETCH * (Date.now() - startedAt);
    this.#nextAt = startedAt + Math.min(INTERVAL_MS_MAX, Math.max(INTERVAL_MS_MIN, interval));
    this.#isRefetching = false;
    this.#plan();
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise(done => setTimeout(done, ms));
}
