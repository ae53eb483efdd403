import { Code } from "@mantine/core";
import { named } from "./shownText";

/** Text in which `ticks` stand around what is to be typed; never anything but text. */
export function Ticked({ text }: { text: string }) {
  return named(text)
    .split("`")
    .map((part, at, all) =>
      // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name, and never move
      at % 2 === 1 && at < all.length - 1 ? <Code key={at}>{part}</Code> : part,
    );
}
