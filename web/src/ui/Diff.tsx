import { Box, Code, Text } from "@mantine/core";
import { CopyIcon } from "./Copy";
import styles from "./diff.module.css";
import { escapeLine } from "./escape";

/** Of a longer one the rest is left out; copying takes all of it. */
const LINES_SHOWN_MAX = 2_000;

type Kind = "added" | "removed" | "place" | "about" | undefined;

/** What a line of a unified diff is. Inside a hunk only its first sign counts: `--- a` may be a removed `-- a`. */
export function kindsOf(lines: string[]): Kind[] {
  let isInside = false;
  return lines.map(line => {
    if (line.startsWith("diff --git ")) isInside = false;
    if (line.startsWith("@@")) {
      isInside = true;
      return "place";
    }
    if (!isInside)
      return /^new (file )?mode /.test(line)
        ? "added"
        : /^(old|deleted file) mode /.test(line)
          ? "removed"
          : "about";
    if (line.startsWith("\\")) return "about";
    return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : undefined;
  });
}

/** A diff as git writes it: its signs say what its colours say. */
export function Diff({ text, label }: { text: string; label: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  const kinds = kindsOf(lines);
  return (
    <Box pos="relative" ta="left">
      <Code block px={0} py={8} tabIndex={0} role="region" aria-label={label} className={styles.diff}>
        {lines.slice(0, LINES_SHOWN_MAX).map((line, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name, and never move
          <span key={at} className={styles.line} data-kind={kinds[at]}>
            {escapeLine(line) || " "}
          </span>
        ))}
      </Code>
      {lines.length > LINES_SHOWN_MAX && (
        <Text size="xs" c="dimmed">
          {(lines.length - LINES_SHOWN_MAX).toLocaleString()} more lines are not shown.
        </Text>
      )}
      <Box pos="absolute" top={6} right={6} className="sunken" bdrs="sm">
        <CopyIcon value={text} label="Copy the diff" />
      </Box>
    </Box>
  );
}
