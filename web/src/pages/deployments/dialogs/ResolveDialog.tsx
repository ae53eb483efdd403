import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useResolve } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";

type Outcome = "ran" | "retry" | "fail";

const OUTCOMES: { value: Outcome; label: string; description: string }[] = [
  { value: "ran", label: "It took effect", description: "Go on with the next step. It has no outputs then." },
  { value: "retry", label: "Run it again", description: "Safe if it did nothing, or can be done twice." },
  { value: "fail", label: "It failed", description: "The stage fails." },
];

type Props = { org: string; deploymentId: string; stepId: string; name: string; onClose: () => void };

/** Records the outcome of a step that was interrupted. */
export function ResolveDialog({ org, deploymentId, stepId, name, onClose }: Props) {
  const resolve = useResolve(org, deploymentId);
  const [outcome, setOutcome] = useState<Outcome | "">("");
  return (
    <Confirm
      onClose={onClose}
      title={`What became of ${name}?`}
      action="Say so"
      mutation={resolve}
      input={outcome === "" ? null : { stepId, outcome }}
      success={() => `Noted for ${name}.`}
    >
      <Text size="sm">
        Nobody saw its end: it was cut off, or gave no answer. Read its log, look at the target, and say what
        you found.
      </Text>
      <Radio.Group label="Outcome" value={outcome} onChange={value => setOutcome(value as Outcome)}>
        <Stack gap={8} mt={6}>
          {OUTCOMES.map((each, at) => (
            <Radio key={each.value} {...each} data-autofocus={at === 0 || undefined} />
          ))}
        </Stack>
      </Radio.Group>
    </Confirm>
  );
}
