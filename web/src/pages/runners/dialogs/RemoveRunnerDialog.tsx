import { Text } from "@mantine/core";
import type { Runner } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRemoveRunner } from "@/data/runners";
import { formatRunnerName } from "@/format/runner";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

export function RemoveRunnerDialog({ runner, onClose }: { runner: Runner; onClose: () => void }) {
  const name = formatRunnerName(runner);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Remove ${name}?`}
      action="Remove"
      danger
      mutation={useRemoveRunner(useOrg())}
      input={runner.id}
      success={() => `${name} removed`}
    >
      <Text size="sm">
        It is disconnected, and its running steps are stopped. To use the machine again, register it as a new
        runner.
      </Text>
      {runner.running.length > 0 && (
        <Text size="sm" fw={600}>
          Running now: {runner.running.map(each => each.step).join(", ")}
        </Text>
      )}
    </ConfirmDialog>
  );
}
