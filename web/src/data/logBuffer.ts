/** LRU cache of one log: the chunks of lines viewed last, and the tail while the log grows. */
import { fetchLines, fetchTail, type LogEntry, type LogSource, logUrl } from "./logs";

export const CHUNK_LINES = 500;
/** Maximum number of cached chunks. */
export const CHUNKS_MAX = 64;
const TAIL_LINES = 500;
const IN_FLIGHT_MAX = 3;
const WANTED_MAX = CHUNKS_MAX / 2;
/** A chunk of very long lines takes several responses. */
const RESPONSES_PER_CHUNK_MAX = 40;
const REFRESH_MS = 150;
const RECONNECT_MS = 2_000;
/** Backoff after a failed request; doubles with every further failure. */
const BACKOFF_MS_MIN = 250;
const BACKOFF_MS_MAX = 16_000;

export type LogState = {
  /** Whether the first response has arrived. */
  isOpen: boolean;
  lines: number;
  isComplete: boolean;
  hasGap: boolean;
  error: unknown;
  /** Incremented on every change. */
  version: number;
};

export type LogReader = {
  tail: typeof fetchTail;
  lines: typeof fetchLines;
  /** Calls `grown` when the log has grown, until the returned function is called. */
  follow: (source: LogSource, offset: number, grown: () => void) => () => void;
};

const serverReader: LogReader = { tail: fetchTail, lines: fetchLines, follow: followStream };

type Chunk = Map<number, LogEntry>;

export class LogBuffer {
  #state: LogState = {
    isOpen: false,
    lines: 0,
    isComplete: false,
    hasGap: false,
    error: null,
    version: 0,
  };
  /** Least recently used first. */
  #chunks = new Map<number, Chunk>();
  #wanted: number[] = [];
  #inFlight = new Set<number>();
  #subscribers = new Set<() => void>();
  #tailListeners = new Set<(entries: LogEntry[]) => void>();
  #stopFollowing: (() => void) | undefined;
  #refresh: ReturnType<typeof setTimeout> | undefined;
  #isRefreshing = false;
  #backoff: ReturnType<typeof setTimeout> | undefined;
  #backoffMs = BACKOFF_MS_MIN;
  #isClosed = false;

  constructor(
    readonly source: LogSource,
    private readonly reader: LogReader = serverReader,
  ) {}

  subscribe = (subscriber: () => void) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  state = (): LogState => this.#state;

  /** Calls `listener` with the tail whenever it is read. */
  onTail(listener: (entries: LogEntry[]) => void) {
    this.#tailListeners.add(listener);
    return () => this.#tailListeners.delete(listener);
  }

  open() {
    this.#isClosed = false;
    this.#readTail();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#refresh);
    this.#endBackoff();
    this.#stopFollowing?.();
    this.#stopFollowing = undefined;
  }

  line(number: number): LogEntry | undefined {
    return this.#chunks.get(chunkIndex(number))?.get(number);
  }

  /** Number of lines in memory. */
  lineCount(): number {
    return [...this.#chunks.values()].reduce((sum, chunk) => sum + chunk.size, 0);
  }

  /** Requests the visible lines; earlier requests that have not started are dropped. */
  want(lines: Iterable<number>) {
    const chunks = new Set<number>();
    for (const line of lines) if (line >= 1 && line <= this.#state.lines) chunks.add(chunkIndex(line));
    for (const chunk of chunks) {
      const held = this.#chunks.get(chunk);
      if (held) this.#touch(chunk, held);
    }
    this.#wanted = [...chunks].filter(chunk => this.#missing(chunk) !== null).slice(0, WANTED_MAX);
    this.#fetchWanted();
  }

  #fetchWanted() {
    if (this.#backoff !== undefined) return;
    for (const chunk of this.#wanted) {
      if (this.#inFlight.size >= IN_FLIGHT_MAX) return;
      if (!this.#inFlight.has(chunk) && this.#missing(chunk) !== null) this.#fetchChunk(chunk);
    }
  }

  async #fetchChunk(chunk: number) {
    this.#inFlight.add(chunk);
    try {
      for (let responses = 0; responses < RESPONSES_PER_CHUNK_MAX && !this.#isClosed; responses++) {
        const from = this.#missing(chunk);
        if (from === null) break;
        const log = await this.reader.lines(this.source, from, (chunk + 1) * CHUNK_LINES);
        this.#insert(log.entries);
        if (log.entries.length === 0) break;
      }
      this.#backoffMs = BACKOFF_MS_MIN;
      this.#update({ error: null });
    } catch (error) {
      this.#startBackoff();
      this.#update({ error });
    } finally {
      this.#inFlight.delete(chunk);
      if (!this.#isClosed) this.#fetchWanted();
    }
  }

  #startBackoff() {
    if (this.#backoff !== undefined || this.#isClosed) return;
    this.#backoff = setTimeout(() => {
      this.#backoff = undefined;
      this.#fetchWanted();
    }, this.#backoffMs);
    this.#backoffMs = Math.min(2 * this.#backoffMs, BACKOFF_MS_MAX);
  }

  #endBackoff() {
    clearTimeout(this.#backoff);
    this.#backoff = undefined;
    this.#backoffMs = BACKOFF_MS_MIN;
  }

  /** The first line of a chunk that is not cached, or null. */
  #missing(chunk: number): number | null {
    const held = this.#chunks.get(chunk);
    const last = Math.min((chunk + 1) * CHUNK_LINES, this.#state.lines);
    for (let line = chunk * CHUNK_LINES + 1; line <= last; line++) if (!held?.has(line)) return line;
    return null;
  }

  async #readTail() {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    try {
      const log = await this.reader.tail(this.source, TAIL_LINES);
      if (this.#isClosed) return;
      // The last line may have been incomplete when it was read.
      this.#evict(this.#state.lines);
      this.#insert(log.entries);
      const was = this.#state.isOpen;
      this.#update({
        isOpen: true,
        lines: log.lines,
        isComplete: log.complete,
        hasGap: log.gap != null,
        error: null,
      });
      for (const listener of this.#tailListeners) listener(log.entries);
      if (log.complete) this.#stopFollowing?.();
      else if (!was || !this.#stopFollowing) {
        this.#stopFollowing = this.reader.follow(this.source, log.bytes, () => this.#grown());
      }
    } catch (error) {
      if (!this.#isClosed) this.#update({ error });
    } finally {
      this.#isRefreshing = false;
    }
  }

  #grown() {
    if (this.#refresh !== undefined || this.#isClosed) return;
    this.#refresh = setTimeout(async () => {
      this.#refresh = undefined;
      if (this.#isRefreshing) this.#grown();
      else await this.#readTail();
    }, REFRESH_MS);
  }

  retry() {
    this.#update({ error: null });
    this.#endBackoff();
    this.#fetchWanted();
    this.#readTail();
  }

  #insert(entries: LogEntry[]) {
    for (const entry of entries) {
      const number = chunkIndex(entry.line);
      const chunk = this.#chunks.get(number) ?? new Map();
      chunk.set(entry.line, entry);
      this.#touch(number, chunk);
    }
    while (this.#chunks.size > CHUNKS_MAX) {
      const oldest = this.#chunks.keys().next().value;
      if (oldest === undefined) break;
      this.#chunks.delete(oldest);
    }
  }

  #touch(number: number, chunk: Chunk) {
    this.#chunks.delete(number);
    this.#chunks.set(number, chunk);
  }

  #evict(line: number) {
    this.#chunks.get(chunkIndex(line))?.delete(line);
  }

  #update(change: Partial<LogState>) {
    this.#state = { ...this.#state, ...change, version: this.#state.version + 1 };
    for (const subscriber of this.#subscribers) subscriber();
  }
}

function chunkIndex(line: number): number {
  return Math.floor((line - 1) / CHUNK_LINES);
}

function followStream(source: LogSource, offset: number, grown: () => void): () => void {
  let stream: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  const open = () => {
    stream = new EventSource(logUrl(source, { offset: String(offset) }));
    stream.addEventListener("lines", grown);
    stream.addEventListener("gap", grown);
    stream.addEventListener("end", () => {
      stream?.close();
      grown();
    });
    stream.onerror = () => {
      if (stream?.readyState !== EventSource.CLOSED) return;
      again = setTimeout(() => {
        grown();
        open();
      }, RECONNECT_MS);
    };
  };
  open();
  return () => {
    clearTimeout(again);
    stream?.close();
  };
}
