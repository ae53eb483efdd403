import { Anchor, Box, Code, Group, SegmentedControl, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import type { Deployment, DeploymentStep } from "@/api/types";
import { artifactUrl } from "@/data/artifacts";
import { useNow } from "@/data/clock";
import { fetchTail, type LogSource, type LogStream } from "@/data/logs";
import { elapsedSeconds, formatAttempt, type StageStep } from "@/format/run";
import { formatExposed, formatIsolation, formatNetwork } from "@/format/runner";
import { formatDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { LoadingRows } from "@/ui/LoadingRows";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import type { LogView } from "./log/LogViewer";
import type { LineTarget } from "./log/useScrollToLines";

const LogViewer = lazy(() => import("./log/LogViewer"));

type Props = {
  org: string;
  deployment: Deployment;
  stageStep: StageStep;
  attempt: number | undefined;
  view: LogView;
  /** Lines to scroll to. */
  jump: LineTarget | null;
  onAttempt: (attempt: number) => void;
  onView: (view: LogView) => void;
};

/** Details of a step: status, attempts, outputs and log. */
export function StepPanel(props: Props) {
  const { org, deployment, stageStep, view, jump, onView } = props;
  const { stage, step } = stageStep;
  const shown = step.attempts.find(each => each.number === props.attempt) ?? step.attempts.at(-1);
  return (
    <Stack gap="xs" component="section" aria-label={`Step ${step.name} of ${stage.name}`}>
      <Group justify="space-between" gap="sm">
        <Group gap="sm" style={{ minWidth: 0 }}>
          <Title order={2} className="wrap">
            {step.name}
          </Title>
          <StatusBadge status={RUN_STATUS_STYLE[step.status]} />
          <Text c="dimmed" size="sm" component="div">
            {stage.name} · {step.type} {shown && <AttemptFacts step={step} attempt={shown} />}
          </Text>
        </Group>
        {step.attempts.length > 1 && shown && (
          <SegmentedControl
            size="xs"
            aria-label="Attempt"
            value={String(shown.number)}
            onChange={value => props.onAttempt(Number(value))}
            data={step.attempts.map(each => ({
              value: String(each.number),
              label: `Attempt ${each.number}`,
            }))}
          />
        )}
      </Group>
      {!shown && (
        <Text size="sm" c="dimmed">
          <NoAttemptText step={step} />
        </Text>
      )}
      {shown && <AttemptIsolation attempt={shown} />}
      <StepOutputs
        step={step}
        artifactUrl={(name, digest) => artifactUrl(org, deployment.id, name, digest)}
      />
      {shown && (
        <StepLog
          key={`${step.id}/${shown.number}`}
          source={{
            org,
            deploymentId: deployment.id,
            stepId: step.id,
            attempt: shown.number,
            stream: "step",
          }}
          name={step.name}
          hasFailed={shown.status === "failed"}
          mayBeTakenOver={deployment.environmentId != null}
          view={view}
          jump={jump}
          onView={onView}
        />
      )}
    </Stack>
  );
}

type Attempt = DeploymentStep["attempts"][number];

/** Number, exit code, duration and start of an attempt. The status is the step's, unless there are several attempts. */
function AttemptFacts({ step, attempt }: { step: DeploymentStep; attempt: Attempt }) {
  const several = step.attempts.length > 1;
  return (
    <>
      {several && `· Attempt ${attempt.number} of ${step.attempts.length} ${formatAttempt(attempt)} `}
      {!several && attempt.exitCode ? `· exit code ${attempt.exitCode} ` : null}
      <AttemptDuration it={attempt} />· <RelativeTime at={attempt.startedAt} />
    </>
  );
}

/** How the attempt was isolated, and its images, below a disclosure. */
function AttemptIsolation({ attempt }: { attempt: Attempt }) {
  const facts = [
    formatIsolation(attempt.isolation),
    formatNetwork(attempt.network),
    formatExposed(attempt.exposed),
    ...attempt.images,
  ].filter(Boolean);
  if (facts.length === 0) return null;
  return (
    <details className="more">
      <summary>Sandbox</summary>
      <Text size="sm" c="dimmed" className="wrap">
        {facts.join(", ")}
      </Text>
    </details>
  );
}

/** Its own component, so that only this re-renders every second. */
function AttemptDuration({ it }: { it: Attempt }) {
  const took = elapsedSeconds(it, useNow());
  return took === null ? null : <>· {formatDuration(took)} </>;
}

function NoAttemptText({ step }: { step: DeploymentStep }) {
  if (step.type === "approval" || step.type === "soak") return <>This step type has no log.</>;
  if (step.status === "skipped") return <>Skipped</>;
  return <>Not started yet. The log appears here when it runs.</>;
}

type ArtifactUrl = (name: string, digest: string) => string;

/** Outputs and artifacts of a step. */
function StepOutputs({ step, artifactUrl }: { step: DeploymentStep; artifactUrl: ArtifactUrl }) {
  const rows = [
    ...Object.entries(step.outputs).map(([name, value]) => ({ kind: "output", name, value, url: null })),
    ...Object.entries(step.artifacts).map(([name, value]) => ({
      kind: "artifact",
      name,
      value,
      url: artifactUrl(name, value),
    })),
  ];
  if (rows.length === 0) return null;
  return (
    <Box style={{ overflowX: "auto" }} tabIndex={0} role="group" aria-label="Outputs and artifacts">
      <Table withRowBorders={false} verticalSpacing={2} fz="sm" w="auto">
        <Table.Tbody>
          {rows.map(({ kind, name, value, url }) => (
            <Table.Tr key={`${kind}${name}`}>
              <Table.Td c="dimmed" pl={0}>
                {kind}
              </Table.Td>
              <Table.Td>{name}</Table.Td>
              <Table.Td>
                <Code>{value}</Code>
              </Table.Td>
              <Table.Td>
                {url && (
                  <Anchor href={url} download aria-label={`Download artifact ${name}`}>
                    Download
                  </Anchor>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Box>
  );
}

type StepLogProps = {
  source: LogSource;
  name: string;
  hasFailed: boolean;
  mayBeTakenOver: boolean;
  view: LogView;
  jump: LineTarget | null;
  onView: (view: LogView) => void;
};

/** The log, with the output after a takeover as a second stream. */
function StepLog({ source, mayBeTakenOver, ...rest }: StepLogProps) {
  const [stream, setStream] = useState<LogStream>("step");
  const after = useQuery({
    queryKey: ["log", source, "after_fence"],
    queryFn: () => fetchTail({ ...source, stream: "after_fence" }, 1),
    enabled: mayBeTakenOver,
  });
  const lines = after.data?.lines ?? 0;
  const hasMore = lines > 0;
  return (
    <Stack gap="xs">
      {hasMore && (
        <SegmentedControl
          size="xs"
          aria-label="Part of the log"
          w="fit-content"
          value={stream}
          onChange={value => setStream(value === "after_fence" ? "after_fence" : "step")}
          data={[
            { value: "step", label: "Before the takeover" },
            { value: "after_fence", label: "After the takeover" },
          ]}
        />
      )}
      {hasMore && (
        <Text size="sm" c="var(--berth-warn)">
          {stream === "after_fence"
            ? "Printed while the step was being cancelled, after the environment was taken over."
            : `${lines === 1 ? "1 more line was" : `${lines.toLocaleString()} more lines were`} printed after the takeover.`}
        </Text>
      )}
      <Suspense fallback={<LoadingRows rows={1} height={160} />}>
        <LogViewer key={stream} source={{ ...source, stream }} {...rest} />
      </Suspense>
    </Stack>
  );
}
