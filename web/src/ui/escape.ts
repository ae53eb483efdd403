/** Escapes untrusted text: bidirectional controls are shown by name, other controls are dropped. */
const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function escapeBidi(text: string): string {
  return text.replace(
    BIDI_CONTROLS,
    found => `[U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase()}]`,
  );
}

/** Escapes a line of a file. Carriage returns stay visible: they may be the only change. */
export function escapeLine(line: string): string {
  return escapeBidi(line.replaceAll("\r", "␍")).replace(CONTROLS, "");
}
