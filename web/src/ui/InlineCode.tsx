import { Code } from "@mantine/core";
import { escapeBidi } from "./escape";

/** Untrusted text with `code` in backticks; never markup. */
export function InlineCode({ text }: { text: string }) {
  return escapeBidi(text)
    .split("`")
    .map((part, at, all) =>
      // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name, and never move
      at % 2 === 1 && at < all.length - 1 ? <Code key={at}>{part}</Code> : part,
    );
}
