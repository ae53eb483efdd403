import { Code } from "@mantine/core";
import { escapeBidi } from "./escape";

/** Untrusted text in which `code` in backticks is formatted; never parsed as markup. */
export function InlineCode({ text }: { text: string }) {
  return escapeBidi(text)
    .split("`")
    .map((part, at, all) =>
      // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
      at % 2 === 1 && at < all.length - 1 ? <Code key={at}>{part}</Code> : part,
    );
}
