import { Button, Group, List, Stack, Text } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconListSearch, IconSparkles } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import type { Analysis, Deployment, Pipeline } from "@/api/types";
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
import { FailureStatement } from "../FailureStatement";
import { EvidenceList, LinesLink } from "./EvidenceList";
import { FixActions } from "./FixActions";
import { ModelRequests } from "./ModelRequests";
import { PullRequestStatus, SuggestedFix } from "./SuggestedFix";

const NEW_LINES_SHOWN_MAX = 8;

type Props = {
  org: string;
  deployment: Deployment;
  pipeline: Pipeline | undefined;
  analysis: Analysis;
  mayRun: boolean;
  /** What failed; shown if the cause was not found. */
  statement: string;
  onLines: (lines: string) => void;
};

/** Result of an analysis: cause, advice and the actions on the fix; evidence and diff on request. */
export function AnalysisResult(props: Props) {
  const { org, deployment, pipeline, analysis, mayRun, statement, onLines } = props;
  const { rootCause, advice, note, evidence, suggestedFix, requests } = analysis;
  const [isOpen, setOpen] = useState(false);
  const details = useId();
  const cited = evidence.find(each => each.supported);
  const shown = suggestedFix ? "evidence and fix" : "evidence";
  const hasDetails = evidence.length > 0 || suggestedFix != null || requests.length > 0;
  return (
    <Stack gap="xs">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ flex: "1 1 20rem", minWidth: 0 }}>
          <FailureStatement text={escapeBidi(rootCause ?? statement)} />
          {!rootCause && (
            <Text size="sm">
              {evidence.length > 0
                ? "The log does not show the cause. Check these lines first."
                : "Neither the log nor the exit status shows the cause."}
            </Text>
          )}
          {advice && (
            <Text size="sm" className="wrap">
              <b>What to do:</b> <InlineCode text={advice} />
            </Text>
          )}
          {note && (
            <Text size="sm" c="var(--berth-warn)" className="wrap">
              {escapeBidi(note)}
            </Text>
          )}
        </Stack>
        {suggestedFix && (
          <FixActions
            org={org}
            deployment={deployment}
            pipeline={pipeline}
            analysis={analysis}
            mayRun={mayRun}
          />
        )}
      </Group>
      {analysis.pullRequest && <PullRequestStatus pull={analysis.pullRequest} />}
      <Group gap="md">
        {cited && (
          <Text size="sm">
            <LinesLink org={org} analysis={analysis} lines={cited} onLines={onLines}>
              Show {formatLines(cited).toLowerCase()}
            </LinesLink>
          </Text>
        )}
        {hasDetails && (
          <Button
            size="compact-sm"
            variant="subtle"
            aria-expanded={isOpen}
            aria-controls={isOpen ? details : undefined}
            rightSection={isOpen ? <IconChevronUp size={14} /> : <IconChevronDown size={14} />}
            onClick={() => setOpen(!isOpen)}
          >
            {isOpen ? "Hide" : "Show"} {shown}
          </Button>
        )}
        <AnalysisSource analysis={analysis} />
      </Group>
      {isOpen && (
        <div id={details}>
          <AnalysisDetails {...props} />
        </div>
      )}
    </Stack>
  );
}

/** Evidence, new lines, diff, and requests to a model. */
function AnalysisDetails({ org, analysis, onLines }: Props) {
  const { evidence, newLines, suggestedFix } = analysis;
  return (
    <Stack gap="md" pt="xs">
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
      {suggestedFix && <SuggestedFix fix={suggestedFix} />}
      {analysis.reusedFrom && <EarlierAnalysis org={org} analysisId={analysis.reusedFrom} />}
      <ModelRequests requests={analysis.requests} />
    </Stack>
  );
}

/** Category, confidence, analyzer, and who requested the analysis. */
function AnalysisSource({ analysis }: { analysis: Analysis }) {
  const Icon = isModelAnalyzer(analysis.analyser) ? IconSparkles : IconListSearch;
  const { actor, usage, finishedAt, category, confidence } = analysis;
  const kind = [category && formatCategory(category), confidence && CONFIDENCE_LABEL[confidence]];
  return (
    <Group gap={6} c="dimmed" fz="sm" wrap="nowrap" align="flex-start" style={{ minWidth: 0 }}>
      <Icon size={16} aria-hidden style={{ flex: "none", marginTop: 2 }} />
      <Text size="sm" className="wrap">
        {kind.filter(Boolean).map(each => `${each} · `)}
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
