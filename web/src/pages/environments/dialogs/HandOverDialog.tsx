import { NativeSelect, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useHandOver } from "@/data/environments";
import { useMe } from "@/data/me";
import { membersQuery } from "@/data/members";
import { roleMay } from "@/data/permissions";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import type { HoldDialogProps } from "./Dialogs";

export function HandOverDialog({ where, lock, onClose }: HoldDialogProps) {
  const me = useMe().user.id;
  const handOver = useHandOver(where, lock.sessionId);
  const members = useQuery(membersQuery(where.org)).data?.data ?? [];
  const form = useForm({ initialValues: { to: "" } });
  const others = members.filter(each => each.id !== me && roleMay(each.role, "environments:claim"));
  const chosen = others.find(each => each.id === form.values.to);
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Hand ${where.envName} over`}
      action="Hand over"
      pending={handOver.isPending}
      error={handOver.error}
      disabled={!chosen}
      onConfirm={() =>
        handOver.mutate(form.values.to, {
          onSuccess: () => {
            tell(`${chosen?.name ?? "They"} holds ${where.envName} now.`);
            onClose();
          },
        })
      }
    >
      <Text size="sm" c="dimmed">
        It is never free in between, and those in line stay in line.
      </Text>
      <NativeSelect
        label="To whom"
        data={[
          { value: "", label: "Choose somebody" },
          ...others.map(each => ({ value: each.id, label: `${each.name} (${each.email})` })),
        ]}
        data-autofocus
        {...form.getInputProps("to")}
      />
    </Confirm>
  );
}
