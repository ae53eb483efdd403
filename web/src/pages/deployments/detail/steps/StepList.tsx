import { Text, UnstyledButton } from "@mantine/core";
import type { DeploymentStage, DeploymentStep } from "@/api/types";
import { useNow } from "@/data/clock";
import { formatDuration, formatRoughDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { StatusText } from "@/ui/StatusBadge";
import styles from "./steps.module.css";
import { runningSeconds, secondsBeforeStage, WorkingTime, waitingSeconds } from "./timeline";

type Props = {
  org: string;
  stages: DeploymentStage[];
  chosen: string | undefined;
  onChoose: (stepId: string) => void;
};

/** Stages and steps with their durations. Bars show when each step ran; waiting is stated apart from running. */
export function StepList({ org, stages, chosen, onChoose }: Props) {
  const now = useNow();
  const time = new WorkingTime(stages, now);
  return (
    <div className={styles.stages}>
      {stages.map((stage, at) => {
        const waited = secondsBeforeStage(stage, stages[at - 1], now);
        const steps = stage.status === "skipped" ? [] : (stage.steps ?? []);
        return (
          <section key={stage.name} aria-label={`Stage ${stage.name}`}>
            <div className={styles.head}>
              <Text fw={650} size="sm" className="clamp">
                {stage.name}
                {stage.tries > 1 && (
                  <Text span size="xs" c="dimmed" fw={400} ml={6}>
                    run {stage.tries}
                  </Text>
                )}
              </Text>
              <Text span size="xs" style={{ flex: "none" }}>
                <StatusText status={RUN_STATUS_STYLE[stage.status]} />
              </Text>
            </div>
            {waited !== null && (
              <div className={styles.waited}>
                {isStarted(stage)
                  ? `Waited ${formatRoughDuration(waited)} before it started`
                  : `Waiting for ${formatRoughDuration(waited)}`}
              </div>
            )}
            {stage.reusedFrom && (
              <Text size="xs" c="dimmed" px={10} pb={4}>
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
            {steps.map(step => (
              <StepRow
                key={step.id}
                step={step}
                time={time}
                now={now}
                isChosen={step.id === chosen}
                onChoose={onChoose}
              />
            ))}
          </section>
        );
      })}
    </div>
  );
}

function isStarted(stage: DeploymentStage): boolean {
  return (stage.steps ?? []).some(step => step.attempts.length > 0);
}

type RowProps = {
  step: DeploymentStep;
  time: WorkingTime;
  now: number;
  isChosen: boolean;
  onChoose: (stepId: string) => void;
};

function StepRow({ step, time, now, isChosen, onChoose }: RowProps) {
  const style = RUN_STATUS_STYLE[step.status];
  const Icon = style.icon;
  const bars = time.bars(step, now);
  return (
    <UnstyledButton
      className={styles.step}
      data-tone={style.tone}
      aria-pressed={isChosen}
      aria-label={`${step.name}: ${style.label}`}
      onClick={() => onChoose(step.id)}
    >
      <span className={styles.name}>
        <Icon size={16} stroke={2.2} aria-hidden className={style.isAnimated ? "busy-dot" : undefined} />
        <Text span size="sm" fw={550} className="clamp" c="var(--mantine-color-text)" style={{ flex: 1 }}>
          {step.name}
        </Text>
        <StepDuration step={step} now={now} />
      </span>
      {bars.length > 0 && (
        <span className={styles.track} aria-hidden>
          {bars.map(bar => (
            <span
              key={bar.start}
              className={styles.bar}
              style={{ left: `${bar.start * 100}%`, width: `${bar.width * 100}%` }}
            />
          ))}
        </span>
      )}
    </UnstyledButton>
  );
}

function StepDuration({ step, now }: { step: DeploymentStep; now: number }) {
  const ran = runningSeconds(step, now);
  const waited = waitingSeconds(step, now);
  const isWaiting = step.status === "waiting";
  return (
    <Text span size="xs" c="dimmed" className="tabular" style={{ flex: "none" }}>
      {ran !== null && formatDuration(ran)}
      {waited !== null && (
        <Text span inherit c="var(--berth-warn)">
          {ran === null
            ? `${isWaiting ? "waiting" : "waited"} ${formatRoughDuration(waited)}`
            : ` (+${formatRoughDuration(waited)})`}
        </Text>
      )}
      {ran === null && waited === null && RUN_STATUS_STYLE[step.status].label}
    </Text>
  );
}
