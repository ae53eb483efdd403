/** Group marks of a whole log, of which only a part is loaded: read from the tail, or searched on the server. */
import { type LogEntry, type LogSearchResult, type LogSource, searchLog } from "@/data/logs";
import { collectMarks, type GroupMark } from "./groups";

const MARKERS = ["--- ", "+++ ", "~~~ ", "::group::", "::endgroup::"];
/** Limit per marker. A log with more is shown without groups. */
const MARKS_MAX = 1_000;

export type OutlineState = { marks: GroupMark[]; isReady: boolean };

type SearchLog = (source: LogSource, q: string, max: number, fromLine: number) => Promise<LogSearchResult>;

export class Outline {
  #state: OutlineState = { marks: [], isReady: false };
  #watchers = new Set<() => void>();
  #knownTo = 0;
  #isScanning = false;
  #isTooMuch = false;

  constructor(
    readonly source: LogSource,
    private readonly find: SearchLog = searchLog,
  ) {}

  watch = (watcher: () => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  state = () => this.#state;

  /** Adds the marks of a log's tail. The last line may be incomplete, so it is read again next time. */
  addTail(entries: LogEntry[], lines: number, isComplete: boolean) {
    if (this.#isTooMuch || this.#isScanning) return;
    const first = entries[0]?.line ?? 1;
    if (first > this.#knownTo + 1) {
      this.#scan(lines, isComplete);
      return;
    }
    this.#add(collectMarks(entries.filter(entry => entry.line > this.#knownTo)));
    this.#knownTo = isComplete ? lines : Math.max(0, lines - 1);
  }

  async #scan(lines: number, isComplete: boolean) {
    this.#isScanning = true;
    try {
      const from = this.#knownTo + 1;
      const found = await Promise.all(MARKERS.map(each => this.find(this.source, each, MARKS_MAX, from)));
      if (found.some(each => !each.isComplete)) {
        this.#isTooMuch = true;
        this.#setState({ marks: [], isReady: true });
        return;
      }
      this.#knownTo = isComplete ? lines : Math.max(0, lines - 1);
      const seen = new Map(found.flatMap(each => collectMarks(each.entries)).map(mark => [mark.line, mark]));
      this.#add([...seen.values()].filter(mark => mark.line <= this.#knownTo || isComplete));
    } catch {
      // Show the log without groups; the next tail tries again.
      this.#setState({ isReady: true });
    } finally {
      this.#isScanning = false;
    }
  }

  #add(marks: GroupMark[]) {
    const known = new Map(this.#state.marks.map(mark => [mark.line, mark]));
    for (const mark of marks) known.set(mark.line, mark);
    const isSame = this.#state.isReady && known.size === this.#state.marks.length && marks.length === 0;
    if (isSame) return;
    this.#setState({ marks: [...known.values()].sort((a, b) => a.line - b.line), isReady: true });
  }

  #setState(change: Partial<OutlineState>) {
    this.#state = { ...this.#state, ...change };
    for (const watcher of this.#watchers) watcher();
  }
}
