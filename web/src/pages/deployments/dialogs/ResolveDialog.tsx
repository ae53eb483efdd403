import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useResolveStep } from "@/data/deployments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

type Outcome = "ran" | "retry" | "fail";

const OUTCOMES: { value: Outcome; label: string; description: string }[] = [
  {
    value: "ran",
    label: "Mark as succeeded",
    description: "Continue with the next step. The step has no outputs.",
  },
  { value: "retry", label: "Run again", description: "Safe if the step did nothing or is idempotent." },
  { value: "fail", label: "Mark as failed", description: "The stage fails." },
];

type Props = { org: string; deploymentId: string; stepId: string; name: string; onClose: () => void };

/** Resolves a step with an unknown outcome. */
export function ResolveDialog({ org, deploymentId, stepId, name, onClose }: Props) {
  const resolve = useResolveStep(org, deploymentId);
  const [outcome, setOutcome] = useState<Outcome | "">("");
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Resolve ${name}`}
      action="Resolve"
      mutation={resolve}
      input={outcome === "" ? null : { stepId, outcome }}
      success={() => `${name} resolved`}
    >
      <Text size="sm">
        The step was interrupted or returned no result, so its outcome is unknown. Check its log and its
        target, then choose how to continue.
      </Text>
      <Radio.Group label="Resolution" value={outcome} onChange={value => setOutcome(value as Outcome)}>
        <Stack gap={8} mt={6}>
          {OUTCOMES.map((each, at) => (
            <Radio key={each.value} {...each} data-autofocus={at === 0 || undefined} />
          ))}
        </Stack>
      </Radio.Group>
    </ConfirmDialog>
  );
}
