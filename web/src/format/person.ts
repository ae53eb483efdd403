/** Initials and a colour for a person's name. */

/** Number of person colours in the theme (`--berth-person-0` and so on). */
export const PERSON_TONES = 8;

/** Up to two initials: "Grace Hopper" is GH, "ada" is A. */
export function formatInitials(name: string): string {
  const words = name.split(/[\s._-]+/).filter(word => /^[\p{L}\p{N}]/u.test(word));
  const picked = words.length > 1 ? [words[0], words.at(-1)] : words;
  return picked.map(word => [...(word ?? "")][0]?.toUpperCase() ?? "").join("") || "?";
}

/** The colour of a person: the same on every page, and independent of who else is shown. */
export function personTone(name: string): number {
  let hash = 0;
  for (const char of name.toLowerCase()) hash = (Math.imul(hash, 31) + (char.codePointAt(0) ?? 0)) >>> 0;
  return hash % PERSON_TONES;
}
