/** Scale and colours of the session timeline. */
import { PERSON_TONES, personTone } from "@/format/person";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The timeline shows at most the last week. */
const SPAN_MS_MAX = 7 * DAY_MS;
const SPAN_MS_MIN = 10 * MINUTE_MS;
const TICKS_MAX = 8;
const STEPS_MS = [
  MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  HOUR_MS,
  3 * HOUR_MS,
  6 * HOUR_MS,
  12 * HOUR_MS,
  DAY_MS,
];

export type TimeSpan = { from: number; to: number };

/** From the start of the oldest session, but at most a week. */
export function findSpan(oldest: number, newest: number): TimeSpan {
  const length = Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, newest - oldest));
  return { from: newest - length, to: newest };
}

/** Round times within the span, in the browser's time zone. */
export function findTicks({ from, to }: TimeSpan): number[] {
  const step = STEPS_MS.find(each => (to - from) / each <= TICKS_MAX) ?? DAY_MS;
  const offset = new Date(from).getTimezoneOffset() * MINUTE_MS;
  const first = Math.ceil((from - offset) / step) * step + offset;
  const count = Math.max(0, Math.floor((to - first) / step) + 1);
  return Array.from({ length: count }, (_, at) => first + at * step);
}

/** Share of the axis that a label needs to its right, so that it is not cut off. */
const LABEL_SHARE = 0.08;

/** The ticks whose labels fit on the axis. */
export function findLabelledTicks(span: TimeSpan): number[] {
  const last = span.to - (span.to - span.from) * LABEL_SHARE;
  return findTicks(span).filter(tick => tick <= last);
}

/** A colour for each name: the person's own, unless two in the timeline have the same one. */
export function assignTones(names: string[]): Map<string, number> {
  const tones = new Map<string, number>();
  const taken = new Set<number>();
  for (const name of [...new Set(names)].sort()) {
    let tone = personTone(name);
    for (let tried = 0; taken.has(tone) && tried < PERSON_TONES; tried++) tone = (tone + 1) % PERSON_TONES;
    taken.add(tone);
    tones.set(name, tone);
  }
  return tones;
}
