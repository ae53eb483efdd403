import { Box, Code, Text } from "@mantine/core";
import { CopyIconButton } from "./Copy";
import styles from "./diff.module.css";
import { escapeLine } from "./escape";

/** Longer diffs are cut; the copy button copies all of it. */
const LINES_SHOWN_MAX = 2_000;

type LineKind = "added" | "removed" | "hunk" | "header" | undefined;

/** Classifies the lines of a unified diff. Inside a hunk only the first character counts: `--- a` may be a removed `-- a`. */
export function classifyDiffLines(lines: string[]): LineKind[] {
  let isInside = false;
  return lines.map(line => {
    if (line.startsWith("diff --git ")) isInside = false;
    if (line.startsWith("@@")) {
      isInside = true;
      return "hunk";
    }
    if (!isInside)
      return /^new (file )?mode /.test(line)
        ? "added"
        : /^(old|deleted file) mode /.test(line)
          ? "removed"
          : "header";
    if (line.startsWith("\\")) return "header";
    return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : undefined;
  });
}

/** Unified diff with coloured lines. */
export function DiffView({ text, label }: { text: string; label: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  const kinds = classifyDiffLines(lines);
  return (
    <Box pos="relative" ta="left">
      <Code block px={0} py={8} tabIndex={0} role="region" aria-label={label} className={styles.diff}>
        {lines.slice(0, LINES_SHOWN_MAX).map((line, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
          <span key={at} className={styles.line} data-kind={kinds[at]}>
            {escapeLine(line) || " "}
          </span>
        ))}
      </Code>
      {lines.length > LINES_SHOWN_MAX && (
        <Text size="xs" c="dimmed">
          {(lines.length - LINES_SHOWN_MAX).toLocaleString()} more lines not shown
        </Text>
      )}
      <Box pos="absolute" top={6} right={6} className="sunken" bdrs="sm">
        <CopyIconButton value={text} label="Copy diff" />
      </Box>
    </Box>
  );
}
