import { Alert, Button, Group, Modal, NativeSelect, Radio, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconEyeOff } from "@tabler/icons-react";
import type { Role } from "@/api/types";
import { useOrg } from "@/data/me";
import { useAddMember } from "@/data/members";
import { Snippet } from "@/ui/Copy";
import { ProblemPanel } from "@/ui/Problem";
import { ROLES } from "./roles";

type Values = { email: string; name: string; role: Role; kind: "person" | "service" };

/** Adds a member, and shows a person's first password the only time it can be seen. */
export function NewMember({ onClose }: { onClose: () => void }) {
  const add = useAddMember(useOrg());
  const form = useForm<Values>({ initialValues: { email: "", name: "", role: "deployer", kind: "person" } });
  if (add.data) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={<Text fw={650}>{add.data.name} is a member</Text>}
        closeOnClickOutside={false}
      >
        <Stack>
          {add.data.oneTimePassword ? (
            <>
              <Alert icon={<IconEyeOff />} color="lantern" title="Their first password, shown once">
                Give it to them in private. They choose their own after signing in.
              </Alert>
              <Snippet label="The first password" text={add.data.oneTimePassword} />
            </>
          ) : (
            <Text size="sm">
              {add.data.kind === "service"
                ? "It signs in with tokens only: create one for it under API Tokens."
                : "They already have a password on this server."}
            </Text>
          )}
          <Group justify="flex-end">
            <Button onClick={onClose}>Done</Button>
          </Group>
        </Stack>
      </Modal>
    );
  }
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Add a member</Text>}>
      <form
        onSubmit={form.onSubmit(({ name, ...member }) =>
          add.mutate({ ...member, name: name.trim() || undefined }),
        )}
      >
        <Stack>
          <Radio.Group label="What" {...form.getInputProps("kind")}>
            <Group mt={6}>
              <Radio value="person" label="A person" />
              <Radio value="service" label="A service account" />
            </Group>
          </Radio.Group>
          <TextInput label="Email" type="email" required data-autofocus {...form.getInputProps("email")} />
          <TextInput label="Name" {...form.getInputProps("name")} />
          <NativeSelect label="Role" data={ROLES} {...form.getInputProps("role")} />
          {add.isError && <ProblemPanel error={add.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Not now
            </Button>
            <Button type="submit" loading={add.isPending}>
              Add
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
