import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconEye, IconZoomQuestion } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Analysis, Deployment, Pipeline } from "@/api/types";
import { analysesQuery, analysisQuery, analysisSettingsQuery, useAnalyzeStep } from "@/data/analyses";
import { usePermission } from "@/data/me";
import { toast } from "@/ui/toast";
import { FailureStatement } from "../FailureStatement";
import { AnalysisResult } from "./AnalysisResult";
import { PreviewDialog } from "./PreviewDialog";

type Props = {
  org: string;
  deployment: Deployment;
  pipeline: Pipeline | undefined;
  stepId: string;
  /** The attempt shown; zero if the step never ran. */
  attempt: number;
  /** Whether this is the attempt with which the step failed; only that one can be analyzed. */
  isLast: boolean;
  /** Whether the user may analyze failures of this deployment. */
  mayRun: boolean;
  /** What failed; shown until the cause is found. */
  statement: string;
  /** Called when a link into the log is clicked. */
  onLines: (lines: string) => void;
};

/** Failure analysis of a step: the button to start it, its progress and its result. */
export function AnalysisPanel(props: Props) {
  const { org, deployment, stepId, attempt, isLast, mayRun, statement } = props;
  const all = useQuery(analysesQuery(org, deployment.id));
  const found = all.data?.data.find(each => each.stepId === stepId && each.attempt === attempt);
  if (found) return <AnalysisView {...props} listed={found} />;
  return (
    <Stack gap="xs">
      <FailureStatement text={statement} />
      {all.data && isLast && mayRun && <StartAnalysis {...props} />}
    </Stack>
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
          <FailureStatement text={props.statement} />
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
        <Stack gap="xs">
          <FailureStatement text={props.statement} />
          <Group gap="sm" role="status">
            <IconZoomQuestion size={18} className="busy-dot" aria-hidden />
            <Text size="sm">
              {analysis.status === "queued" ? "Analysis queued…" : "Analyzing the failure…"}
            </Text>
            <Text size="sm" c="dimmed">
              {analysis.actor.type === "system"
                ? "Started automatically by the pipeline"
                : `Started by ${analysis.actor.name}`}
            </Text>
          </Group>
        </Stack>
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
    <Group gap="sm">
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
          deploymentId={props.deployment.id}
          stepId={props.stepId}
          onClose={() => setPreviewing(false)}
        />
      )}
    </Group>
  );
}

function AnalyzeButton({ org, deployment, stepId, label }: Props & { label: string }) {
  const analyse = useAnalyzeStep(org, deployment.id);
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
