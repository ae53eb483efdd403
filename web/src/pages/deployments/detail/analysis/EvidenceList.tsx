import { Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Analysis } from "@/api/types";
import { formatLineRange, formatLines } from "@/format/analysis";
import { escapeLine } from "@/ui/escape";
import { Link } from "@/ui/Link";
import styles from "./analysis.module.css";

type LineSpan = { firstLine: number; lastLine: number };
type Props = { org: string; analysis: Analysis; onLines: (lines: string) => void };

/** Link to lines of the log below. */
export function LinesLink({
  org,
  analysis,
  lines,
  onLines,
  children,
}: Props & { lines: LineSpan; children: ReactNode }) {
  return (
    <Link
      to="/o/$org/deployments/$deploymentId"
      params={{ org, deploymentId: analysis.deploymentId }}
      search={{ step: analysis.stepId, attempt: String(analysis.attempt), lines: formatLineRange(lines) }}
      replace
      resetScroll={false}
      onClick={() => onLines(formatLineRange(lines))}
      inherit
    >
      {children}
    </Link>
  );
}

/** Log lines that support the cause, most relevant first. A model may cite lines that do not exist. */
export function EvidenceList({ org, analysis, onLines }: Props) {
  return (
    <Stack gap={6} component="ul" className={styles.evidence} aria-label="Evidence">
      {analysis.evidence.map(each => (
        <li key={`${each.firstLine}-${each.lastLine}`} className={styles.item}>
          <Text size="sm" className={styles.where}>
            {each.supported ? (
              <LinesLink org={org} analysis={analysis} lines={each} onLines={onLines}>
                {formatLines(each)}
              </LinesLink>
            ) : (
              <span>{formatLines(each)} (not in the log)</span>
            )}
          </Text>
          {each.text !== "" && (
            <pre className={styles.quote}>{each.text.split("\n").map(escapeLine).join("\n")}</pre>
          )}
        </li>
      ))}
    </Stack>
  );
}
