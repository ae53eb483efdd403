/** Text of others as it is shown: what would turn it around, hide in it or steer a terminal is named or left out. */
const TURNS_TEXT_AROUND = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function named(text: string): string {
  return text.replace(
    TURNS_TEXT_AROUND,
    found => `[U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase()}]`,
  );
}

/** One line of a file: a carriage return is shown, for it may be all that changes. */
export function shownLine(line: string): string {
  return named(line.replaceAll("\r", "␍")).replace(CONTROLS, "");
}
