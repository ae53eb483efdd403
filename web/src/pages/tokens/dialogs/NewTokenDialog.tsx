import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useState } from "react";
import type { Member } from "@/api/types";
import { useMe, useOrg } from "@/data/me";
import { SERVER_URL } from "@/data/serverUrl";
import { useCreateToken } from "@/data/tokens";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { Snippet } from "@/ui/Copy";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";
import { RestrictionFields, toRestriction, UNRESTRICTED } from "./RestrictionFields";

const EXPIRIES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "0", label: "No expiration" },
];

type Props = { onClose: () => void; members: Member[] };

/** Creates a token and shows it once. */
export function NewTokenDialog({ onClose, members }: Props) {
  const org = useOrg();
  const me = useMe().user;
  const create = useCreateToken(org);
  const form = useForm({ initialValues: { name: "", days: "90", ownerId: me.id } });
  const { name, days, ownerId } = form.values;
  const [draft, setDraft] = useState(UNRESTRICTED);
  const restrictTo = toRestriction(draft);
  const services = members.filter(each => each.kind !== "person");
  const made = create.data?.token;
  if (made) {
    return (
      <OneTimeSecretDialog
        title="Token created"
        note="Berth stores only a hash of the token."
        label="API token"
        text={made}
        copy="Copy token"
        size="lg"
        onClose={onClose}
      >
        <Text size="sm" c="dimmed">
          Example request:
        </Text>
        <Snippet
          label="Example request"
          text={`curl -H "Authorization: Bearer ${made}" \\\n  ${SERVER_URL}/api/v1/organizations/${org}/pipelines`}
        />
      </OneTimeSecretDialog>
    );
  }
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Create token"
      action="Create"
      mutation={create}
      input={
        restrictTo === null
          ? null
          : {
              name: name.trim(),
              expiresInDays: Number(days),
              ownerId: ownerId === me.id ? undefined : ownerId,
              restrictTo,
            }
      }
    >
      <TextInput
        label="Name"
        description="What the token is for"
        placeholder="my laptop"
        required
        data-autofocus
        {...form.getInputProps("name")}
      />
      <NativeSelect label="Expiration" data={EXPIRIES} {...form.getInputProps("days")} />
      {services.length > 0 && (
        <NativeSelect
          label="Owner"
          data={[
            { value: me.id, label: "You" },
            ...services.map(each => ({ value: each.id, label: `${each.name} (service account)` })),
          ]}
          {...form.getInputProps("ownerId")}
        />
      )}
      <RestrictionFields value={draft} onChange={setDraft} />
    </ConfirmDialog>
  );
}
