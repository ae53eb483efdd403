/**
 * Splits a log line with ANSI escape sequences into pieces of text with class names.
 *
 * Logs are untrusted: pieces become text nodes, colours are mapped to a fixed palette that is readable in light and dark,
 * and all other control sequences are dropped.
 */
import Anser from "anser";
import { escapeBidi } from "@/ui/escape";

/** Limits of a rendered line; the raw log has all of it. */
export const LINE_CHARS_SHOWN_MAX = 4_000;
export const LINE_PIECES_MAX = 400;

export type TextPiece = { text: string; className?: string };

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
type Colour = (typeof COLOURS)[number];

const DECORATIONS = new Set(["bold", "dim", "italic", "underline", "strikethrough"]);

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters
const OPERATING_SYSTEM_COMMANDS = /\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const MOVES = /\u001b\[[0-9;:?<=>]*[ -/]*[@-ln-~]|\u001b[ -/]*[0-Z\\^-~]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const OTHER_CONTROLS = /[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f-\u009f]/g;

export function parseAnsi(line: string): TextPiece[] {
  const cut = line.length > LINE_CHARS_SHOWN_MAX ? line.slice(0, LINE_CHARS_SHOWN_MAX) : line;
  const found: TextPiece[] = [];
  const tokens = Anser.ansiToJson(stripControls(cut), { json: true, remove_empty: true, use_classes: true });
  for (const token of tokens) {
    if (found.length >= LINE_PIECES_MAX) break;
    const text = token.content.replaceAll("\u001b", "");
    const className = classNames(token);
    if (text !== "") found.push(className ? { text, className } : { text });
  }
  if (cut !== line) found.push({ text: " … (truncated, see the raw log)", className: "cut" });
  return found;
}

/** Drops control sequences other than colours. Of a line with carriage returns only the last part remains. */
function stripControls(line: string): string {
  const text = escapeBidi(line.replace(/\r+$/, "").replace(OPERATING_SYSTEM_COMMANDS, "").replace(MOVES, ""));
  return text.slice(text.lastIndexOf("\r") + 1).replace(OTHER_CONTROLS, "");
}

/** Returns the line without colours, for search and screen readers. */
export function stripAnsi(line: string): string {
  return Anser.ansiToText(stripControls(line.slice(0, LINE_CHARS_SHOWN_MAX))).replaceAll("\u001b", "");
}

type Token = ReturnType<typeof Anser.ansiToJson>[number];

function classNames(token: Token): string {
  const isReversed = token.decorations.includes("reverse");
  const front = mapColour(token.fg, token.fg_truecolor);
  const back = mapColour(token.bg, token.bg_truecolor);
  const names = token.decorations.filter(each => DECORATIONS.has(each)) as string[];
  const [ink, paper] = isReversed ? [back ?? "white", front ?? "black"] : [front, back];
  if (paper) names.push(`on-${paper}`);
  else if (ink) names.push(ink);
  return names.join(" ");
}

/** Maps a colour to the nearest of the eight readable ones. */
function mapColour(name: string | null, truecolour: string | null): Colour | null {
  if (!name) return null;
  const plainName = COLOURS.find(each => name === `ansi-${each}` || name === `ansi-bright-${each}`);
  if (plainName) return plainName;
  if (name === "ansi-truecolor" && truecolour) {
    const [red = 0, green = 0, blue = 0] = truecolour.split(",").map(Number);
    return nearestColour(red, green, blue);
  }
  const index = Number(/^ansi-palette-(\d{1,3})$/.exec(name)?.[1] ?? Number.NaN);
  return Number.isInteger(index) ? mapPaletteColour(index) : null;
}

function mapPaletteColour(index: number): Colour | null {
  if (index < 16) return COLOURS[index % 8] ?? null;
  if (index > 231) return index > 243 ? "white" : "black";
  const cube = index - 16;
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  return nearestColour(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearestColour(red: number, green: number, blue: number): Colour {
  const brightest = Math.max(red, green, blue);
  const isGrey = brightest - Math.min(red, green, blue) < 40;
  if (isGrey) return brightest > 127 ? "white" : "black";
  const bit = (value: number, at: number) => (value > brightest * 0.6 ? at : 0);
  return COLOURS[bit(red, 1) | bit(green, 2) | bit(blue, 4)] ?? "white";
}
