import { Badge, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconListSearch, IconSparkles } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Analysis } from "@/api/types";
import { analysisQuery } from "@/data/analyses";
import {
  CONFIDENCE_LABEL,
  formatAnalyser,
  formatCategory,
  formatLines,
  isModelAnalyzer,
} from "@/format/analysis";
import { escapeBidi } from "@/ui/escape";
import { InlineCode } from "@/ui/InlineCode";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import { EvidenceList, LinesLink } from "./EvidenceList";
import { ModelRequests } from "./ModelRequests";
import { SuggestedFix } from "./SuggestedFix";

type Props = { org: string; analysis: Analysis; mayRun: boolean; onLines: (lines: string) => void };

const NEW_LINES_SHOWN_MAX = 8;

/** Result of an analysis: cause, evidence, advice and suggested fix. */
export function AnalysisResult({ org, analysis, mayRun, onLines }: Props) {
  const { rootCause, category, confidence, advice, note, evidence, newLines } = analysis;
  return (
    <Stack gap="md">
      <Stack gap={6}>
        <Group gap="xs">
          <Title order={3} fz="md">
            {rootCause ? "Why it failed" : "Cause not found"}
          </Title>
          {category && (
            <Badge color="gray" c="inherit">
              {formatCategory(category)}
            </Badge>
          )}
          {confidence && (
            <Badge color="gray" c="inherit">
              {CONFIDENCE_LABEL[confidence]}
            </Badge>
          )}
        </Group>
        <Text fz="lg" fw={550} className="wrap" lh={1.4}>
          {escapeBidi(
            rootCause ??
              (evidence.length > 0
                ? "The log does not show the cause. Check these lines first."
                : "Neither the log nor the exit status shows the cause."),
          )}
        </Text>
        {advice && (
          <Text className="wrap">
            <b>What to do:</b> <InlineCode text={advice} />
          </Text>
        )}
      </Stack>
      {evidence.length > 0 && <EvidenceList analysis={analysis} org={org} onLines={onLines} />}
      {newLines.length > 0 && (
        <Group gap="xs" fz="sm">
          <Text size="sm" c="dimmed">
            New since the last successful run:
          </Text>
          <List listStyleType="none" size="sm" style={{ display: "flex", flexWrap: "wrap", gap: "0 0.8rem" }}>
            {newLines.slice(0, NEW_LINES_SHOWN_MAX).map(each => (
              <List.Item key={each.firstLine}>
                <LinesLink org={org} analysis={analysis} lines={each} onLines={onLines}>
                  {formatLines(each)}
                </LinesLink>
              </List.Item>
            ))}
          </List>
          {newLines.length > NEW_LINES_SHOWN_MAX && (
            <Text size="sm" c="dimmed">
              and {newLines.length - NEW_LINES_SHOWN_MAX} more
            </Text>
          )}
        </Group>
      )}
      {analysis.suggestedFix && (
        <SuggestedFix org={org} analysis={analysis} fix={analysis.suggestedFix} mayRun={mayRun} />
      )}
      {note && (
        <Text size="sm" c="var(--berth-warn)" className="wrap">
          {escapeBidi(note)}
        </Text>
      )}
      <Stack gap={4}>
        <AnalysisSource analysis={analysis} />
        {analysis.reusedFrom && <EarlierAnalysis org={org} analysisId={analysis.reusedFrom} />}
        <ModelRequests requests={analysis.requests} />
      </Stack>
    </Stack>
  );
}

function AnalysisSource({ analysis }: { analysis: Analysis }) {
  const Icon = isModelAnalyzer(analysis.analyser) ? IconSparkles : IconListSearch;
  const { actor, usage, finishedAt } = analysis;
  return (
    <Group gap={6} c="dimmed" fz="sm" wrap="nowrap" align="flex-start">
      <Icon size={16} aria-hidden style={{ flex: "none", marginTop: 2 }} />
      <Text size="sm" className="wrap">
        {formatAnalyser(analysis)}
        {usage && `, ${(usage.inputTokens + usage.outputTokens).toLocaleString()} tokens`} ·{" "}
        {actor.type === "system" ? "run automatically" : `requested by ${actor.name}`}
        {finishedAt && (
          <>
            {" "}
            <RelativeTime at={finishedAt} />
          </>
        )}
      </Text>
    </Group>
  );
}

/** Link to an earlier analysis of the same failure. */
function EarlierAnalysis({ org, analysisId }: { org: string; analysisId: string }) {
  const before = useQuery(analysisQuery(org, analysisId)).data;
  if (!before) return null;
  return (
    <Text size="sm" c="dimmed">
      The same failure was analyzed before, in{" "}
      <Link
        to="/o/$org/deployments/$deploymentId"
        params={{ org, deploymentId: before.deploymentId }}
        search={{ step: before.stepId, attempt: String(before.attempt) }}
        inherit
      >
        an earlier deployment
      </Link>
      .
    </Text>
  );
}
