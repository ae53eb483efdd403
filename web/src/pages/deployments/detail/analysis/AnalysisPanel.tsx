import { Alert, Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconEye, IconZoomQuestion } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Analysis } from "@/api/types";
import { analysesQuery, analysisQuery, analysisSettingsQuery, useAnalyse } from "@/data/analyses";
import { useMay } from "@/data/me";
import { toast } from "@/ui/toast";
import { Found } from "./Found";
import { PreviewDialog } from "./PreviewDialog";

type Props = {
  org: string;
  deploymentId: string;
  stepId: string;
  /** The attempt that is looked at; zero where nothing of the step ever ran. */
  attempt: number;
  /** Whether the step failed with this attempt, so that it can be asked about now. */
  isLast: boolean;
  /** Called when a link into the log is clicked. */
  onLines: (lines: string) => void;
};

/** Why a step failed: asked for, looked into, and answered. */
export function AnalysisPanel(props: Props) {
  const { org, deploymentId, stepId, attempt, isLast } = props;
  const all = useQuery(analysesQuery(org, deploymentId));
  const mayRun = useMay("analysis:run");
  const found = all.data?.data.find(each => each.stepId === stepId && each.attempt === attempt);
  if (!all.data || (!found && !(isLast && mayRun))) return null;
  if (!found) return <Ask {...props} />;
  return (
    <Card component="section" aria-label="Why it failed" padding="md">
      <Seen {...props} listed={found} />
    </Card>
  );
}

/** The list leaves out what is long; what is open is fetched whole. */
function Seen({ listed, ...props }: Props & { listed: Analysis }) {
  const whole = useQuery(analysisQuery(props.org, listed.id));
  const mayRun = useMay("analysis:run");
  // The list is as fresh as the last event; the whole one may still be on its way.
  const analysis = whole.data ?? listed;
  switch (analysis.status) {
    case "succeeded":
      return <Found {...props} analysis={analysis} />;
    case "failed":
      return (
        <Stack gap="sm">
          <Alert color="lantern" icon={<IconAlertTriangle />} title="The cause could not be looked for">
            <Text size="sm" className="wrap">
              {analysis.error}
            </Text>
          </Alert>
          {mayRun && props.isLast && <AskButton {...props} words="Try again" />}
        </Stack>
      );
    default:
      return (
        <Group gap="sm" role="status">
          <IconZoomQuestion size={20} className="busy-dot" aria-hidden />
          <Text fw={600}>
            {analysis.status === "queued" ? "Waits to be looked into…" : "Looking for the cause…"}
          </Text>
          <Text size="sm" c="dimmed">
            {analysis.actor.type === "system"
              ? "This pipeline asks whenever a step fails."
              : `${analysis.actor.name} asked.`}
          </Text>
        </Group>
      );
  }
}

/** One line, so that the line that failed stays in sight below it. */
function Ask(props: Props) {
  const settings = useQuery(analysisSettingsQuery(props.org));
  const [isPreviewing, setPreviewing] = useState(false);
  const hasModel = settings.data !== undefined && settings.data.provider !== "none";
  return (
    <Group gap="sm" component="section" aria-label="Why it failed">
      <AskButton {...props} words="Find the cause" />
      {hasModel && (
        <Button
          variant="default"
          size="xs"
          leftSection={<IconEye size={14} />}
          onClick={() => setPreviewing(true)}
        >
          What would be sent
        </Button>
      )}
      <Text size="sm" c="dimmed">
        {hasModel
          ? `Rules read its log first; then ${settings.data?.model} is asked.`
          : "Rules read its log. Nothing leaves this server."}
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

function AskButton({ org, deploymentId, stepId, words }: Props & { words: string }) {
  const analyse = useAnalyse(org, deploymentId);
  return (
    <Button
      size="xs"
      w="fit-content"
      leftSection={<IconZoomQuestion size={14} />}
      loading={analyse.isPending}
      onClick={() => analyse.mutate(stepId, { onError: toast.problem })}
    >
      {words}
    </Button>
  );
}
