/** Finds the line of a log that shows the failure. */
import type { LogEntry } from "@/data/logs";
import { stripAnsi } from "@/ui/log/ansi";

const ERROR_PATTERN =
  /\b(?:error|fatal|panicked|exception|traceback|failed|failure|denied|refused|not found|cannot|assertion)\b|✗|✘|❌/i;
/** Messages of success: "0 failed", "no errors". */
const SUCCESS_PATTERN = /\b(?:0|no|without|zero) (?:errors?|failed|failures?|exceptions?)\b/i;
/** Lines added by the server. */
const SERVER_LINE = /^\[berth\] /;
/** Lines about the same error are at most this far apart; the first of them is the failing line. */
const ERROR_LINE_GAP_MAX = 5;

/** Returns the first of the last consecutive error lines, else the last line printed by the step. */
export function detectFailingLine(entries: LogEntry[]): number | null {
  let found: number | null = null;
  let last: number | null = null;
  for (let at = entries.length - 1; at >= 0; at--) {
    const entry = entries[at];
    if (!entry) break;
    const text = stripAnsi(entry.text);
    if (text.trim() === "" || SERVER_LINE.test(text)) continue;
    last ??= entry.line;
    if (found !== null && found - entry.line > ERROR_LINE_GAP_MAX) break;
    if (ERROR_PATTERN.test(text) && !SUCCESS_PATTERN.test(text)) found = entry.line;
  }
  return found ?? last;
}
