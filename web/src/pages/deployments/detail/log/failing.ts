/** Where a failed log is worth reading. */
import type { LogEntry } from "@/data/logs";
import { withoutColours } from "@/ui/log/ansi";

const SAYS_SO =
  /\b(?:error|fatal|panicked|exception|traceback|failed|failure|denied|refused|not found|cannot|assertion)\b|✗|✘|❌/i;
/** "0 failed", "no errors": words of success. */
const SAYS_NOT = /\b(?:0|no|without|zero) (?:errors?|failed|failures?|exceptions?)\b/i;
/** What the server itself adds at the end. */
const OURS = /^\[berth\] /;
/** Lines about the same trouble stand close together: the first of them is the one to read. */
const TROUBLE_LINES_APART_MAX = 5;

/** The line to open at: the first of the last lines that speak of an error, else the last one of the step's own. */
export function failingLine(entries: LogEntry[]): number | null {
  let found: number | null = null;
  let last: number | null = null;
  for (let at = entries.length - 1; at >= 0; at--) {
    const entry = entries[at];
    if (!entry) break;
    const text = withoutColours(entry.text);
    if (text.trim() === "" || OURS.test(text)) continue;
    last ??= entry.line;
    if (found !== null && found - entry.line > TROUBLE_LINES_APART_MAX) break;
    if (SAYS_SO.test(text) && !SAYS_NOT.test(text)) found = entry.line;
  }
  return found ?? last;
}
