import { Alert, Card, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconArrowRight, IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import type { components } from "@/api/schema.gen";
import { planQuery } from "@/data/definitions";
import { ProblemPanel } from "../ProblemPanel";
import { DiagnosticList } from "./DiagnosticList";

type Plan = components["schemas"]["Plan"];

/** What a definition would do: its stages and steps in order, or what is wrong with it. Nothing is deployed. */
export function PlanPreview({ org, definition }: { org: string; definition: string }) {
  const checked = useQuery(planQuery(org, definition));
  if (checked.isError) return <ProblemPanel error={checked.error} retry={() => checked.refetch()} compact />;
  if (!checked.data) return <Skeleton height={96} />;
  const { plan, diagnostics } = checked.data;
  const errors = diagnostics.filter(each => each.severity === "error");
  const warnings = diagnostics.filter(each => each.severity !== "error");
  return (
    <Stack gap="xs" component="section" aria-label="Plan" aria-live="polite">
      {plan ? (
        <>
          <Group gap={6} wrap="nowrap" c="var(--berth-good)">
            <IconCircleCheck size={16} aria-hidden style={{ flex: "none" }} />
            <Text size="sm" fw={550}>
              Valid. A deployment runs these steps:
            </Text>
          </Group>
          <PlannedStages plan={plan} />
        </>
      ) : (
        <Alert color="buoy" icon={<IconAlertTriangle />} title="The definition is not valid">
          <DiagnosticList diagnostics={errors} />
        </Alert>
      )}
      {plan && plan.obstacles.length > 0 && (
        <Alert color="buoy" icon={<IconAlertTriangle />} title="A deployment would fail">
          {plan.obstacles.join(". ")}
        </Alert>
      )}
      {warnings.length > 0 && (
        <Alert color="lantern" icon={<IconAlertTriangle />} title="Before the first deployment">
          <DiagnosticList diagnostics={warnings} />
        </Alert>
      )}
    </Stack>
  );
}

function PlannedStages({ plan }: { plan: Plan }) {
  return (
    <Group gap="xs" align="stretch">
      {plan.stages.map((stage, at) => (
        <Fragment key={`${stage.kind}${stage.name}`}>
          {at > 0 && <IconArrowRight size={16} aria-hidden style={{ alignSelf: "center" }} />}
          <Card padding="xs" radius="md" style={{ flex: "1 1 9rem", maxWidth: "20rem" }}>
            <Title order={3} fz="sm" className="wrap">
              {stage.name}
            </Title>
            {stage.steps.map(step => (
              <Text key={step.id} size="sm" c="dimmed" className="wrap">
                {step.name}
                {stepCommand(step) && (
                  <Text span inherit className="commit">
                    {" "}
                    {stepCommand(step)}
                  </Text>
                )}
              </Text>
            ))}
          </Card>
        </Fragment>
      ))}
    </Group>
  );
}

const COMMAND_CHARS_MAX = 60;

/** The first line of a script step. */
function stepCommand({ params }: Plan["stages"][number]["steps"][number]): string | null {
  if (typeof params.run !== "string") return null;
  const [first = "", ...more] = params.run.trim().split("\n");
  if (more.length > 0) return null;
  return first.length > COMMAND_CHARS_MAX ? `${first.slice(0, COMMAND_CHARS_MAX)}…` : first;
}
