/** Formats times and durations. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** 42 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const pair = (large: number, largeWord: string, small: number, smallWord: string) => {
    const rest = Math.floor((whole % large) / small);
    return `${Math.floor(whole / large)} ${largeWord}${rest > 0 ? ` ${rest} ${smallWord}` : ""}`;
  };
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return pair(MINUTE, "min", 1, "s");
  if (whole < DAY) return pair(HOUR, "h", MINUTE, "min");
  return pair(DAY, "d", HOUR, "h");
}

/** Only the largest unit: 42 s, 3 min, 2 h, 3 d. */
export function formatRoughDuration(seconds: number): string {
  return formatDuration(seconds).split(" ").slice(0, 2).join(" ");
}

/** "3 min ago", "in 2 h", "just now". */
export function formatRelativeTime(then: string | Date, now: number): string {
  const seconds = (now - new Date(then).getTime()) / 1000;
  if (Math.abs(seconds) < 10) return "just now";
  return seconds > 0 ? `${formatRoughDuration(seconds)} ago` : `in ${formatRoughDuration(-seconds)}`;
}

/** Date and time in the browser's time zone. */
export function formatDateTime(then: string | Date): string {
  return new Date(then).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Remaining time: 1:05:09, 12:30, 0:07. */
export function formatCountdown(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / HOUR), Math.floor((whole % HOUR) / MINUTE), whole % MINUTE];
  if (h >= 24) return `${Math.floor(h / 24)} d ${h % 24} h`;
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** "14:02" today, "12 Nov, 14:02" otherwise, in the browser's time zone. */
export function formatSince(then: string, now: number): string {
  const date = new Date(then);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const isToday = date.toDateString() === new Date(now).toDateString();
  return isToday ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

const DAY_MS = DAY * 1000;

/** Label of an axis over this span: "14:00" within a day, else "Wed 18" for midnight and "14:00" between. */
export function formatTick(tick: number, spanMs: number): string {
  const date = new Date(tick);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
  if (spanMs > DAY_MS && isMidnight)
    return date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric" });
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
