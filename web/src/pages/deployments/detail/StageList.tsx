import { Card, Group, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import type { DeploymentStage, DeploymentStep } from "@/api/types";
import { useNow } from "@/data/clock";
import { elapsedSeconds } from "@/format/run";
import { formatDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { StatusBadge } from "@/ui/StatusBadge";
import styles from "./graph/graph.module.css";

type Props = {
  org: string;
  stages: DeploymentStage[];
  chosen: string | undefined;
  onChoose: (stepId: string) => void;
};

/** Stages and steps as a list. */
export function StageList({ org, stages, chosen, onChoose }: Props) {
  const now = useNow();
  return (
    <Stack gap="sm">
      {stages.map(stage => {
        const took = elapsedSeconds(stage, now);
        return (
          <Card key={stage.name} padding="sm">
            <Group justify="space-between" mb={stage.steps?.length && stage.status !== "skipped" ? "xs" : 0}>
              <Group gap="xs">
                <Text fw={650}>{stage.name}</Text>
                {stage.tries > 1 && (
                  <Text size="xs" c="dimmed">
                    run {stage.tries}
                  </Text>
                )}
              </Group>
              <Group gap="sm">
                {took !== null && (
                  <Text size="xs" c="dimmed" className="tabular">
                    {formatDuration(took)}
                  </Text>
                )}
                <StatusBadge status={RUN_STATUS_STYLE[stage.status]} />
              </Group>
            </Group>
            {stage.reusedFrom && (
              <Text size="sm" c="dimmed">
                Build reused from{" "}
                <Link
                  to="/o/$org/deployments/$deploymentId"
                  params={{ org, deploymentId: stage.reusedFrom }}
                  inherit
                  underline="always"
                >
                  another deployment
                </Link>
              </Text>
            )}
            {stage.detail && (
              <Text size="sm" c="dimmed" className="wrap" mb="xs">
                {stage.detail}
              </Text>
            )}
            <Stack gap={6}>
              {(stage.status === "skipped" ? [] : (stage.steps ?? [])).map(step => (
                <StepRow
                  key={step.id}
                  step={step}
                  now={now}
                  isChosen={step.id === chosen}
                  onChoose={onChoose}
                />
              ))}
            </Stack>
          </Card>
        );
      })}
    </Stack>
  );
}

type RowProps = {
  step: DeploymentStep;
  now: number;
  isChosen: boolean;
  onChoose: (stepId: string) => void;
};

function StepRow({ step, now, isChosen, onChoose }: RowProps) {
  const style = RUN_STATUS_STYLE[step.status];
  const took = elapsedSeconds(step, now);
  const Icon = style.icon;
  return (
    <UnstyledButton
      className={styles.step}
      style={{ minHeight: 42 }}
      data-tone={style.tone}
      aria-pressed={isChosen}
      aria-label={`${step.name}: ${style.label}`}
      onClick={() => onChoose(step.id)}
    >
      <Icon size={16} stroke={2.2} aria-hidden className={style.isAnimated ? "busy-dot" : undefined} />
      <Text size="sm" fw={550} className="clamp" c="var(--mantine-color-text)" style={{ flex: 1 }}>
        {step.name}
      </Text>
      <Text size="xs" c="dimmed" className="tabular" style={{ flex: "none" }}>
        {took !== null && step.status !== "skipped" ? formatDuration(took) : style.label}
      </Text>
      <IconChevronRight size={14} aria-hidden />
    </UnstyledButton>
  );
}
