import { Card, Stack, Text } from "@mantine/core";
import { IconServer2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Runner } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { runnersQuery } from "@/data/runners";
import { EmptyState } from "@/ui/EmptyState";
import { SettingsList } from "@/ui/lists/SettingsList";
import { NewRunnerDialog } from "../dialogs/NewRunnerDialog";
import { RemoveRunnerDialog } from "../dialogs/RemoveRunnerDialog";
import { RunnerCard } from "./RunnerCard";

export function RunnersPage() {
  const mayWrite = usePermission("runners:write");
  const runners = useQuery(runnersQuery(useOrg()));
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Runner | null>(null);
  return (
    <SettingsList
      title="Runners"
      lead="Machines that run pipeline steps, matched by label"
      add={mayWrite && { label: "Add runner", onClick: () => setAdding(true) }}
      query={runners}
      row={runner => <RunnerCard runner={runner} mayWrite={mayWrite} remove={() => setRemoving(runner)} />}
      footer={all =>
        all.every(each => each.isEmbedded) && (
          <Card>
            <EmptyState icon={IconServer2} title="No runners on other machines yet">
              <Stack gap="sm" align="center">
                <Text c="dimmed">
                  {all.length > 0
                    ? "Steps run on the server’s machine. Add a runner to run them elsewhere."
                    : "No runner can run steps: the server was started without its built-in runner. Add a runner."}
                </Text>
                {!mayWrite && <Text c="dimmed">Ask an admin to add one.</Text>}
              </Stack>
            </EmptyState>
          </Card>
        )
      }
    >
      {isAdding && <NewRunnerDialog onClose={() => setAdding(false)} />}
      {removing && <RemoveRunnerDialog runner={removing} onClose={() => setRemoving(null)} />}
    </SettingsList>
  );
}
