/** Escapes untrusted text: bidirectional controls are shown by name, other controls are dropped. */
const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function escapeBidi(text: string): string {
  return text.replace(
    BIDI_CONTROLS,
    found => `[U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase()}]`,
  );
}

/** One line of a file: a carriage return is shown, for it may be all that changes. */
export function escapeLine(line: string): string {
  return escapeBidi(line.replaceAll("\r", "␍")).replace(CONTROLS, "");
}
