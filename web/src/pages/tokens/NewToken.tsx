import { Alert, Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconEyeOff } from "@tabler/icons-react";
import type { Member } from "@/api/types";
import { useMe, useOrg } from "@/data/me";
import { SERVER_URL } from "@/data/serverUrl";
import { useCreateToken } from "@/data/tokens";
import { CopyText, Snippet } from "@/ui/Copy";
import { ProblemPanel } from "@/ui/Problem";

const EXPIRIES = [
  { value: "7", label: "In 7 days" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "0", label: "Never" },
];

type Props = { onClose: () => void; members: Member[] };

/** Makes a token, and shows it the only time it can be seen. */
export function NewToken({ onClose, members }: Props) {
  const org = useOrg();
  const me = useMe().user;
  const create = useCreateToken(org);
  const form = useForm({ initialValues: { name: "", days: "90", ownerId: me.id } });
  const services = members.filter(each => each.kind === "service");
  const made = create.data?.token;
  if (made) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={<Text fw={650}>Copy it now</Text>}
        closeOnClickOutside={false}
        size="lg"
      >
        <Stack>
          <Alert icon={<IconEyeOff />} color="lantern" title="This is the only time you see it">
            We keep a hash of it and cannot show it again.
          </Alert>
          <Snippet label="The new token" text={made} />
          <Text size="sm" c="dimmed">
            Try it:
          </Text>
          <Snippet
            label="A request with the new token"
            text={`curl -H "Authorization: Bearer ${made}" \\\n  ${SERVER_URL}/api/v1/organizations/${org}/pipelines`}
          />
          <Group justify="flex-end">
            <CopyText value={made} label="Copy the token" />
            <Button variant="default" onClick={onClose}>
              I have it
            </Button>
          </Group>
        </Stack>
      </Modal>
    );
  }
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Create a token</Text>}>
      <form
        onSubmit={form.onSubmit(({ name, days, ownerId }) =>
          create.mutate({
            name: name.trim(),
            expiresInDays: Number(days),
            ownerId: ownerId === me.id ? undefined : ownerId,
          }),
        )}
      >
        <Stack>
          <TextInput
            label="Name"
            description="What will use it?"
            placeholder="my laptop"
            required
            data-autofocus
            {...form.getInputProps("name")}
          />
          <NativeSelect label="Expires" data={EXPIRIES} {...form.getInputProps("days")} />
          {services.length > 0 && (
            <NativeSelect
              label="Whose it is"
              data={[
                { value: me.id, label: "Yours" },
                ...services.map(each => ({ value: each.id, label: `${each.name} (service account)` })),
              ]}
              {...form.getInputProps("ownerId")}
            />
          )}
          {create.isError && <ProblemPanel error={create.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Create
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
