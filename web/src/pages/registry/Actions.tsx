import { Button, Checkbox, Group, List, NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { member, problemOf } from "@/api/problem";
import type { StepRegistry } from "@/api/types";
import { useMay } from "@/data/me";
import { useChangeRegistry, useDeleteRegistry, useSyncRegistry } from "@/data/registries";
import { secretsQuery } from "@/data/secrets";
import { Confirm } from "@/ui/Confirm";
import { tell, tellProblem } from "@/ui/notify";

type Props = { org: string; registry: StepRegistry };

export function Actions({ org, registry }: Props) {
  const mayWrite = useMay("registries:write");
  const sync = useSyncRegistry(org, registry.name);
  const [open, setOpen] = useState<"change" | "delete" | null>(null);
  if (!mayWrite) return null;
  return (
    <Group gap="xs">
      <Button
        variant="default"
        leftSection={<IconRefresh size={16} />}
        loading={sync.isPending}
        onClick={() =>
          sync.mutate(undefined, { onSuccess: () => tell("Looking at it now."), onError: tellProblem })
        }
      >
        {registry.status === "failed" ? "Build again" : "Look now"}
      </Button>
      <Button variant="default" onClick={() => setOpen("change")}>
        Change
      </Button>
      <Button variant="default" onClick={() => setOpen("delete")}>
        Remove
      </Button>
      {open === "change" && <Change org={org} registry={registry} onClose={() => setOpen(null)} />}
      {open === "delete" && <Remove org={org} registry={registry} onClose={() => setOpen(null)} />}
    </Group>
  );
}

type DialogProps = Props & { onClose: () => void };

function Change({ org, registry, onClose }: DialogProps) {
  const change = useChangeRegistry(org, registry.name);
  const secrets = useQuery(secretsQuery(org)).data?.data ?? [];
  const form = useForm({
    initialValues: { ref: registry.ref ?? "", credential: registry.credential ?? "" },
  });
  const names = new Set([...secrets.map(each => each.name), form.values.credential].filter(Boolean));
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Change ${registry.name}`}
      action="Change it"
      pending={change.isPending}
      error={change.error}
      disabled={!form.isDirty()}
      onConfirm={() =>
        change.mutate(
          { ref: form.values.ref.trim(), credential: form.values.credential },
          {
            onSuccess: () => {
              tell("Changed. It is looked at now.");
              onClose();
            },
          },
        )
      }
    >
      <TextInput
        label="Branch, tag or commit"
        placeholder="the default branch"
        maxLength={255}
        data-autofocus
        {...form.getInputProps("ref")}
      />
      <NativeSelect
        label="Secret with the credential"
        data={[
          { value: "", label: "None needed" },
          ...[...names].map(name => ({ value: name, label: name })),
        ]}
        {...form.getInputProps("credential")}
      />
    </Confirm>
  );
}

type User = StepRegistry["usedBy"][number];

function Remove({ org, registry, onClose }: DialogProps) {
  const navigate = useNavigate();
  const remove = useDeleteRegistry(org, registry.name);
  const [isForced, setForced] = useState(false);
  // Who uses it may have changed since this page was drawn: the refusal knows.
  const refused = remove.error ? member<User[]>(problemOf(remove.error), "usedBy") : undefined;
  const usedBy = refused ?? registry.usedBy;
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Remove ${registry.name}`}
      action="Remove"
      danger
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() =>
        remove.mutate(
          { force: isForced },
          {
            onSuccess: () => {
              tell(`${registry.name} is removed.`);
              navigate({ to: "/o/$org/settings/custom-steps", params: { org } });
            },
          },
        )
      }
    >
      {usedBy.length === 0 ? (
        <Text size="sm">No pipeline uses its steps. Deployments that have begun with one go on.</Text>
      ) : (
        <>
          <Text size="sm">These pipelines name its steps, and will fail without them:</Text>
          <List size="sm">
            {usedBy.map(each => (
              <List.Item key={each.id}>{each.slug}</List.Item>
            ))}
          </List>
          <Checkbox
            label="Remove it all the same"
            checked={isForced}
            onChange={event => setForced(event.currentTarget.checked)}
          />
        </>
      )}
    </Confirm>
  );
}
