import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Role } from "@/api/types";
import { useInvite } from "@/data/invitations";
import { useOrg } from "@/data/me";
import { Confirm } from "@/ui/Confirm";
import { ShownOnce } from "@/ui/ShownOnce";
import { ROLES } from "./roles";

type Values = { email: string; name: string; role: Role };

/** Invites a person, and shows the link the only time it can be seen. */
export function Invite({ onClose }: { onClose: () => void }) {
  const invite = useInvite(useOrg());
  const form = useForm<Values>({ initialValues: { email: "", name: "", role: "deployer" } });
  const made = invite.data;
  if (made?.url) {
    return (
      <ShownOnce
        title={`Send this link to ${made.email}`}
        note="It works once, for 7 days. Berth sends no mail: give it to the person in private. To get a new link, invite the same address again."
        label="The invitation link"
        text={made.url}
        copy="Copy link"
        done="Done"
        onClose={onClose}
      />
    );
  }
  return (
    <Confirm
      onClose={onClose}
      title="Invite a person"
      action="Invite"
      mutation={invite}
      input={{ ...form.values, name: form.values.name.trim() || undefined }}
    >
      <Text size="sm" c="dimmed">
        You get a link for them. They choose their own password, or accept with the account they have.
      </Text>
      <TextInput label="Email" type="email" required data-autofocus {...form.getInputProps("email")} />
      <TextInput
        label="Name"
        description="They can choose another"
        maxLength={120}
        {...form.getInputProps("name")}
      />
      <NativeSelect label="Role" data={ROLES} {...form.getInputProps("role")} />
    </Confirm>
  );
}
