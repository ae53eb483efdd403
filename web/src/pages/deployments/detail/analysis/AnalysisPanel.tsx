import { Alert, Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconEye, IconZoomQuestion } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Analysis } from "@/api/types";
import { analysesQuery, analysisQuery, analysisSettingsQuery, useAnalyzeStep } from "@/data/analyses";
import { usePermission } from "@/data/me";
import { toast } from "@/ui/toast";
import { AnalysisResult } from "./AnalysisResult";
import { PreviewDialog } from "./PreviewDialog";

type Props = {
  org: string;
  deploymentId: string;
  stepId: string;
  /** The attempt shown; zero if the step never ran. */
  attempt: number;
  /** Whether this is the attempt with which the step failed; only that one can be analyzed. */
  isLast: boolean;
  /** Whether the user may analyze failures of this deployment. */
  mayRun: boolean;
  /** Called when a link into the log is clicked. */
  onLines: (lines: string) => void;
};

/** Failure analysis of a step: the button to start it, its progress and its result. */
export function AnalysisPanel(props: Props) {
  const { org, deploymentId, stepId, attempt, isLast, mayRun } = props;
  const all = useQuery(analysesQuery(org, deploymentId));
  const found = all.data?.data.find(each => each.stepId === stepId && each.attempt === attempt);
  if (!all.data || (!found && !(isLast && mayRun))) return null;
  if (!found) return <StartAnalysis {...props} />;
  return (
    <Card component="section" aria-label="Why it failed" padding="md">
      <AnalysisView {...props} listed={found} />
    </Card>
  );
}

/** Fetches the full analysis; the list leaves out long members. */
function AnalysisView({ listed, ...props }: Props & { listed: Analysis }) {
  const full = useQuery(analysisQuery(props.org, listed.id));
  // Show the list's version until the full one is loaded.
  const analysis = full.data ?? listed;
  switch (analysis.status) {
    case "succeeded":
      return <AnalysisResult {...props} analysis={analysis} />;
    case "failed":
      return (
        <Stack gap="sm">
          <Alert color="lantern" icon={<IconAlertTriangle />} title="Analysis failed">
            <Text size="sm" className="wrap">
              {analysis.error}
            </Text>
          </Alert>
          {props.mayRun && props.isLast && <AnalyzeButton {...props} label="Retry analysis" />}
        </Stack>
      );
    default:
      return (
        <Group gap="sm" role="status">
          <IconZoomQuestion size={20} className="busy-dot" aria-hidden />
          <Text fw={600}>{analysis.status === "queued" ? "Analysis queued…" : "Analyzing the failure…"}</Text>
          <Text size="sm" c="dimmed">
            {analysis.actor.type === "system"
              ? "Started automatically by the pipeline"
              : `Started by ${analysis.actor.name}`}
          </Text>
        </Group>
      );
  }
}

/** Button that starts the analysis, in one line so that the failing log line stays visible. */
function StartAnalysis(props: Props) {
  const mayReadSettings = usePermission("analysis:read");
  const settings = useQuery({ ...analysisSettingsQuery(props.org), enabled: mayReadSettings });
  const [isPreviewing, setPreviewing] = useState(false);
  const hasModel = settings.data !== undefined && settings.data.provider !== "none";
  return (
    <Group gap="sm" component="section" aria-label="Why it failed">
      <AnalyzeButton {...props} label="Analyze failure" />
      {hasModel && (
        <Button
          variant="default"
          size="xs"
          leftSection={<IconEye size={14} />}
          onClick={() => setPreviewing(true)}
        >
          Preview request
        </Button>
      )}
      <Text size="sm" c="dimmed">
        {hasModel && `Rules read the log first, then it is sent to ${settings.data?.model}.`}
        {!hasModel && mayReadSettings && "Rules read the log. Nothing leaves this server."}
      </Text>
      {isPreviewing && (
        <PreviewDialog
          org={props.org}
          deploymentId={props.deploymentId}
          stepId={props.stepId}
          onClose={() => setPreviewing(false)}
        />
      )}
    </Group>
  );
}

function AnalyzeButton({ org, deploymentId, stepId, label }: Props & { label: string }) {
  const analyse = useAnalyzeStep(org, deploymentId);
  return (
    <Button
      size="xs"
      w="fit-content"
      leftSection={<IconZoomQuestion size={14} />}
      loading={analyse.isPending}
      onClick={() => analyse.mutate(stepId, { onError: toast.problem })}
    >
      {label}
    </Button>
  );
}
