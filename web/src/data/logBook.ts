/** One log in the browser: a bounded part of its lines, whichever were looked at last, and its end while it grows. */
import { type LogEntry, type LogSource, linesOf, logAddress, tailOf } from "./logs";

export const CHUNK_LINES = 500;
/** So much is kept: about what forty screens show. */
export const CHUNKS_MAX = 64;
const TAIL_LINES = 500;
const IN_FLIGHT_MAX = 3;
const WANTED_MAX = CHUNKS_MAX / 2;
/** A chunk of very long lines comes in several answers. */
const ANSWERS_PER_CHUNK_MAX = 40;
const REFRESH_MS = 150;
const RECONNECT_MS = 2_000;
/** After a failure nothing is asked for so long; twice as long after each that follows. */
const REST_MS_MIN = 250;
const REST_MS_MAX = 16_000;

export type LogState = {
  /** The first answer is here. */
  isOpen: boolean;
  lines: number;
  isComplete: boolean;
  hasGap: boolean;
  error: unknown;
  /** Rises whenever any line changed. */
  version: number;
};

export type LogReader = {
  tail: typeof tailOf;
  lines: typeof linesOf;
  /** Calls `grown` when there is more, until it is told to stop. */
  follow: (source: LogSource, offset: number, grown: () => void) => () => void;
};

const server: LogReader = { tail: tailOf, lines: linesOf, follow: followStream };

type Chunk = Map<number, LogEntry>;

export class LogBook {
  #state: LogState = {
    isOpen: false,
    lines: 0,
    isComplete: false,
    hasGap: false,
    error: null,
    version: 0,
  };
  /** In the order of use: the first one is the first to be forgotten. */
  #chunks = new Map<number, Chunk>();
  #wanted: number[] = [];
  #inFlight = new Set<number>();
  #watchers = new Set<() => void>();
  #heard = new Set<(entries: LogEntry[]) => void>();
  #stopFollowing: (() => void) | undefined;
  #refresh: ReturnType<typeof setTimeout> | undefined;
  #isRefreshing = false;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #restMs = REST_MS_MIN;
  #isClosed = false;

  constructor(
    readonly source: LogSource,
    private readonly reader: LogReader = server,
  ) {}

  watch = (watcher: () => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  state = (): LogState => this.#state;

  /** Hears the last lines whenever they were read. */
  onTail(listener: (entries: LogEntry[]) => void) {
    this.#heard.add(listener);
    return () => this.#heard.delete(listener);
  }

  open() {
    this.#isClosed = false;
    this.#readTail();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#refresh);
    this.#endRest();
    this.#stopFollowing?.();
    this.#stopFollowing = undefined;
  }

  line(number: number): LogEntry | undefined {
    return this.#chunks.get(chunkOf(number))?.get(number);
  }

  /** How many lines are in memory. */
  held(): number {
    return [...this.#chunks.values()].reduce((sum, chunk) => sum + chunk.size, 0);
  }

  /** These lines are looked at now; what was wanted before is not any more. */
  want(lines: Iterable<number>) {
    const chunks = new Set<number>();
    for (const line of lines) if (line >= 1 && line <= this.#state.lines) chunks.add(chunkOf(line));
    for (const chunk of chunks) {
      const held = this.#chunks.get(chunk);
      if (held) this.#touch(chunk, held);
    }
    this.#wanted = [...chunks].filter(chunk => this.#missing(chunk) !== null).slice(0, WANTED_MAX);
    this.#fetchWanted();
  }

  #fetchWanted() {
    if (this.#rest !== undefined) return;
    for (const chunk of this.#wanted) {
      if (this.#inFlight.size >= IN_FLIGHT_MAX) return;
      if (!this.#inFlight.has(chunk) && this.#missing(chunk) !== null) this.#fetchChunk(chunk);
    }
  }

  async #fetchChunk(chunk: number) {
    this.#inFlight.add(chunk);
    try {
      for (let answers = 0; answers < ANSWERS_PER_CHUNK_MAX && !this.#isClosed; answers++) {
        const from = this.#missing(chunk);
        if (from === null) break;
        const log = await this.reader.lines(this.source, from, (chunk + 1) * CHUNK_LINES);
        this.#keep(log.entries);
        if (log.entries.length === 0) break;
      }
      this.#restMs = REST_MS_MIN;
      this.#become({ error: null });
    } catch (error) {
      this.#takeRest();
      this.#become({ error });
    } finally {
      this.#inFlight.delete(chunk);
      if (!this.#isClosed) this.#fetchWanted();
    }
  }

  #takeRest() {
    if (this.#rest !== undefined || this.#isClosed) return;
    this.#rest = setTimeout(() => {
      this.#rest = undefined;
      this.#fetchWanted();
    }, this.#restMs);
    this.#restMs = Math.min(2 * this.#restMs, REST_MS_MAX);
  }

  #endRest() {
    clearTimeout(this.#rest);
    this.#rest = undefined;
    this.#restMs = REST_MS_MIN;
  }

  /** The first line of a chunk that is not here, if there is one. */
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
      // The last line may have been half a line when it was read.
      this.#forget(this.#state.lines);
      this.#keep(log.entries);
      const was = this.#state.isOpen;
      this.#become({
        isOpen: true,
        lines: log.lines,
        isComplete: log.complete,
        hasGap: log.gap != null,
        error: null,
      });
      for (const listener of this.#heard) listener(log.entries);
      if (log.complete) this.#stopFollowing?.();
      else if (!was || !this.#stopFollowing) {
        this.#stopFollowing = this.reader.follow(this.source, log.bytes, () => this.#grown());
      }
    } catch (error) {
      if (!this.#isClosed) this.#become({ error });
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
    this.#become({ error: null });
    this.#endRest();
    this.#fetchWanted();
    this.#readTail();
  }

  #keep(entries: LogEntry[]) {
    for (const entry of entries) {
      const number = chunkOf(entry.line);
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

  #forget(line: number) {
    this.#chunks.get(chunkOf(line))?.delete(line);
  }

  #become(change: Partial<LogState>) {
    this.#state = { ...this.#state, ...change, version: this.#state.version + 1 };
    for (const watcher of this.#watchers) watcher();
  }
}

function chunkOf(line: number): number {
  return Math.floor((line - 1) / CHUNK_LINES);
}

function followStream(source: LogSource, offset: number, grown: () => void): () => void {
  let stream: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  const open = () => {
    stream = new EventSource(logAddress(source, { offset: String(offset) }));
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
