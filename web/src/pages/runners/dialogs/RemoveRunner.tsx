import { Text } from "@mantine/core";
import type { Runner } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRemoveRunner } from "@/data/runners";
import { runnerName } from "@/format/runner";
import { Confirm } from "@/ui/Confirm";

export function RemoveRunner({ runner, onClose }: { runner: Runner; onClose: () => void }) {
  const name = runnerName(runner);
  return (
    <Confirm
      onClose={onClose}
      title={`Remove ${name}`}
      action="Remove"
      danger
      mutation={useRemoveRunner(useOrg())}
      input={runner.id}
      success={() => `${name} is removed.`}
    >
      <Text size="sm">
        It is not let in any more, and stops what it runs. To have it back, add a runner and register it
        again.
      </Text>
      {runner.running.length > 0 && (
        <Text size="sm" fw={600}>
          It runs {runner.running.map(each => each.step).join(", ")} now.
        </Text>
      )}
    </Confirm>
  );
}
