/** Choices for the duration of a session. */
const HOUR = 3600;

export const TTL_CHOICES = [
  { value: "", label: "Pipeline default" },
  { value: String(HOUR / 2), label: "30 minutes" },
  { value: String(HOUR), label: "1 hour" },
  { value: String(2 * HOUR), label: "2 hours" },
  { value: String(4 * HOUR), label: "4 hours" },
  { value: String(8 * HOUR), label: "8 hours" },
  { value: String(24 * HOUR), label: "1 day" },
];

export function parseTtl(chosen: string): number | undefined {
  return chosen === "" ? undefined : Number(chosen);
}
