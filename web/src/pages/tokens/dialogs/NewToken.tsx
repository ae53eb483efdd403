import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Member } from "@/api/types";
import { useMe, useOrg } from "@/data/me";
import { SERVER_URL } from "@/data/serverUrl";
import { useCreateToken } from "@/data/tokens";
import { Confirm } from "@/ui/Confirm";
import { Snippet } from "@/ui/Copy";
import { ShownOnce } from "@/ui/ShownOnce";

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
  const { name, days, ownerId } = form.values;
  const services = members.filter(each => each.kind === "service");
  const made = create.data?.token;
  if (made) {
    return (
      <ShownOnce
        title="Copy it now"
        note="We keep a hash of it and cannot show it again."
        label="The new token"
        text={made}
        copy="Copy the token"
        size="lg"
        onClose={onClose}
      >
        <Text size="sm" c="dimmed">
          Try it:
        </Text>
        <Snippet
          label="A request with the new token"
          text={`curl -H "Authorization: Bearer ${made}" \\\n  ${SERVER_URL}/api/v1/organizations/${org}/pipelines`}
        />
      </ShownOnce>
    );
  }
  return (
    <Confirm
      onClose={onClose}
      title="Create a token"
      action="Create"
      mutation={create}
      input={{
        name: name.trim(),
        expiresInDays: Number(days),
        ownerId: ownerId === me.id ? undefined : ownerId,
      }}
    >
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
    </Confirm>
  );
}
